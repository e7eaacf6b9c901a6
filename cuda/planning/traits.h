#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>

namespace warpconv::cuda {

/** What planning needs to know of a GPU: plain data, so that plans can be made and tested where there is none. */
struct GpuTraits {
  /** 10 * major + minor, of the device or of the code that it runs, whichever is less */
  int computeCapability = 0;
  int multiprocessors = 0;
  int64_t registersPerMultiprocessor = 0;
  /** Bytes; the second is the most that a kernel may opt in to */
  int64_t sharedBytesPerMultiprocessor = 0;
  int64_t sharedBytesPerBlock = 0;
  int64_t l2Bytes = 0;
  /** Of ordinary float32 multiply-adds, counted as two operations */
  double flopsPerSecond = 0;
  /** Of device memory, read and written bytes together */
  double bytesPerSecond = 0;
};

/** The same with guesses where a device or its driver left zeros, so that every prediction is a finite number. */
GpuTraits withoutGaps(GpuTraits traits);

/**
 * Multiprocessors that clusters of one to eight blocks, which share a group of them, use at once where each has a
 * block. Of an H200's 132: 108 blocks ran together in threes and 120 did not, 120 but not 128 in fours, 96 but not 108
 * in sixes, 112 but not 128 in eights, and 112 not in sevens; for clusters of five and seven the rest is guessed.
 */
inline int64_t multiprocessorsInUse(const GpuTraits& traits, int cluster) {
  constexpr int kInUse[] = {132, 132, 108, 120, 100, 96, 98, 112};
  return std::max(int64_t{traits.multiprocessors} * kInUse[cluster - 1] / 132, int64_t{1});
}

/** Tensor cores that multiply in TF32. */
inline bool hasTensorCores(const GpuTraits& traits) { return traits.computeCapability >= 80; }

/**
 * Whether three products on them are faster than one multiply-add: TF32 is 8 times as fast on an A100 as specified, 4.8
 * times on an H100 as measured. On GeForce cards it is as fast, and of other devices it is not known.
 */
inline bool hasFastTensorCores(const GpuTraits& traits) {
  return traits.computeCapability == 80 || traits.computeCapability == 90;
}

/** Tensor cores that multiply for a warpgroup (warpgroup.cuh): code for later devices lacks them. */
inline bool hasWarpgroupProducts(const GpuTraits& traits) { return traits.computeCapability == 90; }

/** The sentence that refuses a device without them, or nothing. */
std::optional<std::string> refuseTensorCores(const GpuTraits& traits);
std::optional<std::string> refuseWarpgroupProducts(const GpuTraits& traits);

/**
 * Fewest products of a sum that is offered to tensor cores: of fewer positive ones the error of split operands may be
 * more than twice that of a sequential float32 sum (3.1 times it for one product, 1.6 times for four, 0.7 times for
 * 64), and windows at a border have fewer than others.
 */
inline constexpr int kLeastTensorSum = 64;

}  // namespace warpconv::cuda
