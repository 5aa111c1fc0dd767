// SPDX-License-Identifier: Apache-2.0
// pool_test.cc: the pools' rules. The caching pool is held, request by request, against a literal
// transcription of TVM's WorkspacePool (a slow, obvious checker).
#include "runtime/pool/pool.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <vector>

#include "runtime/executor/tensor.h"
#include "runtime/pool/caching_pool.h"
#include "runtime/pool/naive_pool.h"

namespace opmeter::runtime {
namespace {

/// WorkspacePool::Pool of TVM (src/runtime/workspace_pool.cc), with ids for memory.
class TvmPool {
 public:
  std::vector<std::uint64_t> allocated_sizes;

  int alloc(std::uint64_t nbytes) {
    nbytes = (nbytes + 4095) / 4096 * 4096;
    if (nbytes == 0) nbytes = 4096;
    Entry e;
    if (free_list_.size() == 2) {
      e = free_list_.back();
      free_list_.pop_back();
      if (e.size < nbytes) e = make(nbytes);
    } else if (free_list_.size() == 1) {
      e = make(nbytes);
    } else if (free_list_.back().size >= nbytes) {
      auto it = free_list_.end() - 2;
      for (; it->size >= nbytes; --it) {
      }
      e = *(it + 1);
      free_list_.erase(it + 1);
    } else {
      free_list_.pop_back();
      e = make(nbytes);
    }
    allocated_.push_back(e);
    return e.data;
  }

  void free(int data) {
    Entry e;
    if (allocated_.back().data == data) {
      e = allocated_.back();
      allocated_.pop_back();
    } else {
      int index = static_cast<int>(allocated_.size()) - 2;
      while (index > 0 && allocated_[static_cast<std::size_t>(index)].data != data) --index;
      e = allocated_[static_cast<std::size_t>(index)];
      allocated_.erase(allocated_.begin() + index);
    }
    if (free_list_.back().size < e.size) {
      free_list_.push_back(e);
    } else if (free_list_.size() == 2) {
      free_list_.push_back(free_list_.back());
      free_list_[1] = e;
    } else {
      std::size_t i = free_list_.size() - 1;
      free_list_.resize(free_list_.size() + 1);
      for (; e.size < free_list_[i].size; --i) free_list_[i + 1] = free_list_[i];
      free_list_[i + 1] = e;
    }
  }

 private:
  struct Entry {
    int data = 0;
    std::uint64_t size = 0;
  };
  Entry make(std::uint64_t size) {
    allocated_sizes.push_back(size);
    return {++next_, size};
  }
  int next_ = 0;
  std::vector<Entry> free_list_{Entry{}};
  std::vector<Entry> allocated_{Entry{}};
};

TEST(CachingPool, GrowsAndReusesExactlyAsTvmsWorkspacePool) {
  for (unsigned seed = 0; seed < 200; ++seed) {
    std::mt19937 random(seed);
    CachingPool ours(cpu_device(), 1);
    TvmPool tvm;
    std::vector<std::pair<void*, int>> live;
    std::map<void*, int> id_of;
    for (int step = 0; step < 300; ++step) {
      const bool release = !live.empty() && random() % 2 == 0;
      if (release) {
        // Mostly last in, first out, as operators do.
        const std::size_t i = random() % 4 == 0 ? random() % live.size() : live.size() - 1;
        ASSERT_TRUE(ours.free_workspace(0, live[i].first));
        tvm.free(live[i].second);
        live.erase(live.begin() + static_cast<std::ptrdiff_t>(i));
      } else {
        const std::uint64_t size = random() % 5 == 0 ? 0 : random() % 60000;
        void* block = ours.alloc_workspace(0, size);
        ASSERT_NE(block, nullptr);
        live.emplace_back(block, tvm.alloc(size));
        ASSERT_EQ(ours.stats().workspace_growth_bytes, tvm.allocated_sizes)
            << "seed " << seed << " step " << step;
      }
    }
  }
}

TEST(CachingPool, RoundsUpToPagesAndKeepsSlotsApart) {
  CachingPool pool(cpu_device(), 2);
  void* a = pool.alloc_workspace(0, 1);
  void* b = pool.alloc_workspace(1, 4097);
  EXPECT_EQ(pool.stats().workspace_growth_bytes, (std::vector<std::uint64_t>{4096, 8192}));
  EXPECT_FALSE(pool.free_workspace(1, a)) << "slot 1 does not hold it";
  EXPECT_TRUE(pool.free_workspace(0, a));
  EXPECT_TRUE(pool.free_workspace(1, b));
  EXPECT_EQ(pool.stats().workspace_peak_bytes, 4096u + 8192u);
}

TEST(EveryPool, AlignsTo128AndRefusesUnknownBlocks) {
  for (const char* kind : {"naive", "caching"}) {
    std::unique_ptr<Pool> pool = std::move(make_pool(kind, cpu_device(), 1)).value();
    EXPECT_EQ(pool->name(), kind);
    for (const std::uint64_t size : {0ull, 1ull, 100ull, 4096ull, 1000000ull}) {
      void* workspace = pool->alloc_workspace(0, size);
      void* tensor = pool->alloc_tensor(size);
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(workspace) % kTensorAlignment, 0u);
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(tensor) % kTensorAlignment, 0u);
      EXPECT_EQ(pool->last_workspace(0), workspace);
      EXPECT_TRUE(pool->free_workspace(0, workspace));
      EXPECT_FALSE(pool->free_workspace(0, workspace)) << "released twice";
      pool->free_tensor(tensor, size);
    }
    int strange = 0;
    EXPECT_FALSE(pool->free_workspace(0, &strange));
    EXPECT_EQ(pool->last_workspace(0), nullptr);
    EXPECT_EQ(pool->alloc_workspace(0, ~0ull), nullptr);
    EXPECT_EQ(pool->alloc_workspace(0, 1ull << 62), nullptr);
    EXPECT_EQ(pool->alloc_tensor(1ull << 62), nullptr);
    EXPECT_EQ(pool->stats().tensor_requests, 5u);
    EXPECT_EQ(pool->stats().tensor_peak_bytes, 1000000u);
  }
}

TEST(NaivePool, GivesEachRequestABlockOfItsOwnSize) {
  NaivePool pool(cpu_device(), 1);
  void* a = pool.alloc_workspace(0, 100);
  void* b = pool.alloc_workspace(0, 200);
  EXPECT_TRUE(pool.free_workspace(0, a)) << "not only the youngest";
  EXPECT_TRUE(pool.free_workspace(0, b));
  EXPECT_EQ(pool.stats().workspace_peak_bytes, 300u);
  EXPECT_TRUE(pool.stats().workspace_growth_bytes.empty());
}

TEST(EveryPool, GivesBackWhatIsStillLiveWhenItEnds) {
  // The leak checker of the asan preset is the judge.
  for (const char* kind : {"naive", "caching"}) {
    std::unique_ptr<Pool> pool = std::move(make_pool(kind, cpu_device(), 1)).value();
    EXPECT_NE(pool->alloc_workspace(0, 100), nullptr);
    EXPECT_NE(pool->alloc_workspace(0, 100000), nullptr);
  }
}

}  // namespace
}  // namespace opmeter::runtime
