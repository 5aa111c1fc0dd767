// SPDX-License-Identifier: Apache-2.0
// thread_pool.cc: hand tasks to waiting workers and collect them (see thread_pool.h).
//
//   launch: write task, closure, env -> bump the ticket of each worker that gets a task -> run task
//   0
//           -> wait until pending is 0
//   worker: wait for its ticket to change -> run its task -> pending - 1
//
// A worker without a task in a launch sees nothing of it, so nobody reads the fields of a launch
// that is over.
#include "runtime/executor/thread_pool.h"

#include <pthread.h>

#include <cstdio>
#include <cstring>
#include <string>
#include <system_error>

namespace opmeter::runtime {
namespace {

// About 100 us on current x86: parallel regions of one run follow each other within that; longer
// waits give the core back. TVM spins 300 000 times.
constexpr int kSpins = 4000;
// A barrier is short, but with more threads than cores the others need this core.
constexpr int kBarrierSpins = 400;

inline void cpu_relax() noexcept {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

/// Returns the first value that differs from `seen`.
std::uint32_t wait_change(const std::atomic<std::uint32_t>& value, std::uint32_t seen) noexcept {
  for (int i = 0; i < kSpins; ++i) {
    const std::uint32_t now = value.load(std::memory_order_acquire);
    if (now != seen) return now;
    cpu_relax();
  }
  value.wait(seen, std::memory_order_acquire);
  return value.load(std::memory_order_acquire);
}

}  // namespace

int run_single_task(TvmParallelTask task, void* closure) noexcept {
  ThreadPool::SyncState sync;
  TvmParallelEnv env{&sync, 1};
  return task(0, &env, closure) == 0 ? 0 : -1;
}

ThreadPool::ThreadPool(int threads) : threads_(threads) {
  sync_.counters = std::make_unique<Counter[]>(static_cast<std::size_t>(threads));
}

Result<std::unique_ptr<ThreadPool>> ThreadPool::create(int threads, Pool& pool) {
  std::unique_ptr<ThreadPool> self(new ThreadPool(threads));
  // All workers exist before the first thread starts: none sees the list grow.
  for (int i = 1; i < threads; ++i) {
    auto worker = std::make_unique<Worker>();
    worker->context = {&pool, self.get(), static_cast<Slot>(i), false};
    self->workers_.push_back(std::move(worker));
  }
  for (std::size_t i = 0; i < self->workers_.size(); ++i) {
    Worker& worker = *self->workers_[i];
    const auto index = static_cast<std::uint32_t>(i + 1);
    try {
      worker.thread =
          std::thread([pool_ptr = self.get(), &worker, index] { pool_ptr->work(worker, index); });
    } catch (const std::system_error& error) {
      return unavailable_error("cannot start worker thread " + std::to_string(index) + " of " +
                               std::to_string(threads - 1) + ": " + error.code().message() +
                               "; use fewer --threads");
    }
  }
  return self;
}

ThreadPool::~ThreadPool() {
  stop_.store(true, std::memory_order_relaxed);
  for (const std::unique_ptr<Worker>& worker : workers_) {
    worker->ticket.fetch_add(1, std::memory_order_release);
    worker->ticket.notify_one();
  }
  for (const std::unique_ptr<Worker>& worker : workers_) {
    if (worker->thread.joinable()) worker->thread.join();
  }
}

int ThreadPool::launch(TvmParallelTask task, void* closure, int num_task) noexcept {
  ThreadContext& caller = *current_context;
  if (caller.in_parallel) {
    set_last_error("a parallel task started a parallel launch; launches do not nest");
    return -1;
  }
  if (num_task < 0 || num_task > threads_) {
    char text[128];
    std::snprintf(text, sizeof text,
                  "a launch of %d tasks, but there are %d threads; use --threads %d", num_task,
                  threads_, num_task);
    set_last_error(text);
    return -1;
  }
  const int tasks = num_task == 0 ? threads_ : num_task;
  task_ = task;
  closure_ = closure;
  env_ = {&sync_, tasks};
  sync_.failed.store(false, std::memory_order_relaxed);
  for (int i = 0; i < tasks; ++i) {
    sync_.counters[static_cast<std::size_t>(i)].arrivals.store(0, std::memory_order_relaxed);
  }
  if (tasks > 1) {
    traced_ = opm_enabled() != 0;
    if (traced_) opm_context_ = opm_context_get();
    pending_.store(static_cast<std::uint32_t>(tasks - 1), std::memory_order_relaxed);
    for (int i = 1; i < tasks; ++i) {
      Worker& worker = *workers_[static_cast<std::size_t>(i - 1)];
      worker.ticket.fetch_add(1, std::memory_order_release);
      worker.ticket.notify_one();
    }
  }
  caller.in_parallel = true;
  run_task(0);
  caller.in_parallel = false;
  if (tasks > 1) {
    std::uint32_t left = pending_.load(std::memory_order_acquire);
    while (left != 0) left = wait_change(pending_, left);
  }
  if (!sync_.failed.load(std::memory_order_acquire)) return 0;
  set_last_error(first_error_);
  return -1;
}

void ThreadPool::run_task(int index) noexcept {
  clear_last_error();
  if (task_(index, &env_, closure_) == 0) [[likely]]
    return;
  keep_error();
}

void ThreadPool::keep_error() noexcept {
  bool expected = false;
  if (!sync_.failed.compare_exchange_strong(expected, true, std::memory_order_acq_rel)) return;
  std::snprintf(first_error_, sizeof first_error_, "%s", last_error());
}

void ThreadPool::work(Worker& worker, std::uint32_t index) noexcept {
  char name[16];
  std::snprintf(name, sizeof name, "opm-worker-%u", index);
  pthread_setname_np(pthread_self(), name);
  worker.context.in_parallel = true;
  current_context = &worker.context;
  std::uint32_t seen = 0;
  while (true) {
    seen = wait_change(worker.ticket, seen);
    if (stop_.load(std::memory_order_relaxed)) return;
    if (traced_) opm_context_attach(opm_context_);
    run_task(static_cast<int>(index));
    if (traced_) opm_context_detach();
    // The launcher may return, and start the next launch, as soon as it sees 0. Nothing after this
    // line may touch the launch's fields.
    if (pending_.fetch_sub(1, std::memory_order_acq_rel) == 1) pending_.notify_one();
  }
}

int ThreadPool::barrier(int task_id, TvmParallelEnv* env) noexcept {
  auto* sync = static_cast<SyncState*>(env->sync_handle);
  if (env->num_task <= 1) return 0;
  if (task_id < 0 || task_id >= env->num_task) {
    set_last_error("a barrier was reached by a task that is none of its launch");
    return -1;
  }
  Counter* counters = sync->counters.get();
  const std::uint32_t mine = counters[task_id].arrivals.fetch_add(1, std::memory_order_acq_rel) + 1;
  for (int i = 0; i < env->num_task; ++i) {
    int spins = 0;
    while (counters[i].arrivals.load(std::memory_order_acquire) < mine) {
      if (sync->failed.load(std::memory_order_acquire)) {
        set_last_error("another task of the launch failed");
        return -1;
      }
      if (++spins < kBarrierSpins) {
        cpu_relax();
      } else {
        std::this_thread::yield();
      }
    }
  }
  return 0;
}

}  // namespace opmeter::runtime
