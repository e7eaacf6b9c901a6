#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "gpu/contest_types.h"
#include "status.h"

/**
 * The GPU as the rest of the library sees it: no CUDA type appears here, so that a build without CUDA differs in one
 * function, `openGpu`.
 */
namespace warpconv {

/** CPU memory that the copy engines of GPUs read and write by themselves. Let go of it when no call uses it any more.
 */
class PinnedMemory {
 public:
  virtual ~PinnedMemory() = default;
  virtual void* data() const = 0;
  virtual int64_t bytes() const = 0;
};

/** One JavaScript environment's way to one GPU: what it enqueues runs in order. */
class Gpu : public Backend {
 public:
  virtual int index() const = 0;
  /** Uninitialised. Fails with `outOfMemory`, after which the device is as usable as before. */
  virtual Result<std::shared_ptr<const GpuMemory>> allocate(int64_t bytes) = 0;
  /** All zeros. Fails with `outOfMemory`, after which everything is as usable as before. */
  virtual Result<std::shared_ptr<const PinnedMemory>> allocatePinned(int64_t bytes) = 0;
  /**
   * Pins memory that somebody else has, and keeps until nobody has this any more. Fails with `outOfMemory`, or with
   * `cuda` where it cannot be pinned, after which everything is as usable as before.
   */
  virtual Result<std::shared_ptr<const PinnedMemory>> pin(void* data, int64_t bytes) = 0;
  /** Blocks until all elements are there: then `from` is free again, and `to` may go. */
  virtual Status upload(const void* from, const GpuMemory& to) = 0;
  /** Blocks until to.bytes() bytes have arrived. */
  virtual Status download(const GpuMemory& from, void* to) = 0;
  /**
   * Judges the entries of a contest by a double-precision oracle, and times them in turns. An entry that fails has its
   * reason in the report, `unsupported` where it refuses and `cudnnNotFound` where the library does; this fails where
   * there is nothing to compare on. Own entries have the problem's format and precision, rivals their own. Blocks.
   */
  virtual Result<ContestReport> holdContest(const Contest& contest, const PlanProblem& asked) = 0;
  /** Measured now. Blocks. */
  virtual Result<Ceilings> ceilings() = 0;
  /** Names of an algorithm's variants; none for an unknown one. */
  virtual std::vector<std::string> variants(const std::string& algorithm) const = 0;
};

/** Fails with `unsupported` in a build without CUDA and with `cuda` where the device cannot be used. */
Result<std::shared_ptr<Gpu>> openGpu(int index);

/** Device memory that this process holds on the GPU of that number, in bytes. */
int64_t gpuBytesInUse(int index);

/** The pinned memory of this process that an address lies in, or null. */
std::shared_ptr<const PinnedMemory> pinnedMemoryAt(const void* data);

/** Of all of it, in bytes. */
int64_t pinnedBytesInUse();

}  // namespace warpconv
