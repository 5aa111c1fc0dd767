// SPDX-License-Identifier: Apache-2.0
// thread_pool.h: the threads behind TVMBackendParallelLaunch. The launching thread runs task 0 and
// each worker one further task; waiting spins for a while and then sleeps on a futex. Created with
// its executor; launches never call the heap.
#ifndef OPMETER_RUNTIME_EXECUTOR_THREAD_POOL_H_
#define OPMETER_RUNTIME_EXECUTOR_THREAD_POOL_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

#include "opmeter/opmeter.h"
#include "opmeter/result.h"
#include "runtime/executor/backend.h"
#include "runtime/tvm/c_abi.h"

namespace opmeter::runtime {

/// Runs one task as if one thread were there.
int run_single_task(TvmParallelTask task, void* closure) noexcept;

/// Thread rule: one launch at a time, from the thread that runs the executor.
class ThreadPool {
 public:
  /// threads - 1 workers named opm-worker-1.., whose workspaces come from `pool`, slot by worker.
  /// kUnavailable when the system gives no more threads.
  static Result<std::unique_ptr<ThreadPool>> create(int threads, Pool& pool);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int threads() const { return threads_; }

  /// Runs task(i, env, closure) for i in [0, num_task), 0 = one per thread, and waits for all. 0 =
  /// ok; -1 = a task failed (the first one's error text becomes this thread's), the launch is
  /// nested, or it wants more tasks than there are threads.
  int launch(TvmParallelTask task, void* closure, int num_task) noexcept;

  /// Waits until every task of the launch has come here as often as this one. -1 when a task
  /// failed, because that one will never come.
  static int barrier(int task_id, TvmParallelEnv* env) noexcept;

 private:
  /// One cache line per task: arrivals at barriers.
  struct alignas(64) Counter {
    std::atomic<std::uint32_t> arrivals{0};
  };
  /// What TvmParallelEnv::sync_handle points at.
  struct SyncState {
    std::unique_ptr<Counter[]> counters;
    std::atomic<bool> failed{false};
  };
  struct alignas(128) Worker {
    std::atomic<std::uint32_t> ticket{0};  ///< changes when there is a task, or the end
    ThreadContext context;
    std::thread thread;
  };
  static constexpr std::size_t kFirstErrorBytes = 2048;

  explicit ThreadPool(int threads);
  void work(Worker& worker, std::uint32_t index) noexcept;
  void run_task(int index) noexcept;
  void keep_error() noexcept;

  friend int run_single_task(TvmParallelTask task, void* closure) noexcept;

  const int threads_;
  std::vector<std::unique_ptr<Worker>> workers_;
  SyncState sync_;
  std::atomic<bool> stop_{false};

  // The launch under way: written before the tickets change, read by its tasks only.
  TvmParallelTask task_ = nullptr;
  void* closure_ = nullptr;
  TvmParallelEnv env_{};
  opm_context opm_context_{};
  bool traced_ = false;
  char first_error_[kFirstErrorBytes] = {};  ///< text of the task that set sync_.failed

  alignas(128) std::atomic<std::uint32_t> pending_{0};  ///< workers still at it
};

}  // namespace opmeter::runtime

#endif  // OPMETER_RUNTIME_EXECUTOR_THREAD_POOL_H_
