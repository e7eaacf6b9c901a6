#pragma once

#include <cstdint>

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

/** Those that multiply in TF32. */
inline bool hasTensorCores(const GpuTraits& traits) { return traits.computeCapability >= 80; }

/**
 * Tensor cores' operations in TF32 for each of ordinary multiply-adds, by mma.sync: of an H100 as measured (319 and 66.9
 * TFLOP/s), of an A100 as specified. Elsewhere they are no faster than the specified ones of GeForce, or not known.
 */
inline double tensorCoreFactor(const GpuTraits& traits) {
  switch (traits.computeCapability) {
    case 80: return 8;
    case 90: return 4.8;
    default: return 1;
  }
}

}  // namespace warpconv::cuda
