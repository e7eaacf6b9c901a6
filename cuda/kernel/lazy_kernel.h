#pragma once

#include <cuda_runtime_api.h>

#include <atomic>

namespace warpconv::cuda {

/**
 * A kernel that may have more shared memory than devices give unasked. What lets it have that loads it, which takes up
 * to milliseconds: so it is done once one is asked for, of the kernels for what may be given to a convolution.
 */
template <typename Kernel>
class LazyKernel {
 public:
  /** Of all of the kernel's launches, `mostSharedBytes` is the same: each of its settings replaces the one before. */
  void set(Kernel kernel, int mostSharedBytes) { kernel_ = kernel, mostSharedBytes_ = mostSharedBytes; }
  Kernel get() const { return kernel_; }

  /** Before it is launched. The device is current. */
  cudaError_t load() const {
    if (isLoaded_.load(std::memory_order_relaxed)) return cudaSuccess;
    const cudaError_t error =
        cudaFuncSetAttribute(kernel_, cudaFuncAttributeMaxDynamicSharedMemorySize, mostSharedBytes_);
    if (error == cudaSuccess) isLoaded_.store(true, std::memory_order_relaxed);
    return error;
  }

 private:
  Kernel kernel_ = nullptr;
  int mostSharedBytes_ = 0;
  mutable std::atomic<bool> isLoaded_{false};
};

}  // namespace warpconv::cuda
