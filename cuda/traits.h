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

}  // namespace warpconv::cuda
