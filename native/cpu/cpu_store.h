#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "backend/program_store.h"
#include "memory/aligned_buffer.h"
#include "weights/weights.h"

namespace warpconv {

/** Scratch memory that runs take and give back: as many pieces as runs have overlapped. Any thread may call it. */
class Arenas {
 public:
  /** At least so many elements. A spare piece that is too small goes, so that there are no more of them than runs. */
  AlignedBuffer take(int64_t elements);
  void giveBack(AlignedBuffer arena) noexcept;
  /** Frees the spare ones. */
  void trim();
  /** Of all pieces, taken or spare */
  int64_t bytes() const;

 private:
  mutable std::mutex mutex_;
  std::vector<AlignedBuffer> spare_;
  int64_t bytes_ = 0;
};

/** What the programs of one network share on the CPU. */
class CpuStore final : public program::Store {
 public:
  int64_t bytes() const override { return weights_.bytes() + arenas_.bytes(); }
  int64_t scratchBytes() const override { return arenas_.bytes(); }
  void trim() override {
    weights_.trim();
    arenas_.trim();
  }

  WeightStore& weights() { return weights_; }
  Arenas& arenas() { return arenas_; }

 private:
  WeightStore weights_;
  Arenas arenas_;
};

}  // namespace warpconv
