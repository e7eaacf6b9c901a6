#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace warpconv::cuda {

// Copies from global to shared memory that run on while the thread goes on, in groups that it waits for. Before compute
// capability 8.0 they are plain loads and stores, done when the statement is, and waiting is empty. Shared memory is
// addressed in its own 32-bit space, where an address costs one addition.

__device__ inline uint32_t sharedAddress(const void* shared) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(shared));
}

/** Copies `bytes`, 4 or 16, both ends aligned to them. What does not exist is not read, and is written as zeros. */
template <int bytes>
__device__ inline void copyOrZero(uint32_t shared, const float* from, bool exists) {
#if __CUDA_ARCH__ >= 800
  const int taken = exists ? bytes : 0;
  if constexpr (bytes == 16) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared), "l"(from), "r"(taken) : "memory");
  } else {
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(shared), "l"(from), "r"(taken) : "memory");
  }
#else
  if constexpr (bytes == 16) {
    float4 quad = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    if (exists) quad = __ldg(reinterpret_cast<const float4*>(from));
    asm volatile("st.shared.v4.f32 [%0], {%1, %2, %3, %4};" ::"r"(shared), "f"(quad.x), "f"(quad.y), "f"(quad.z),
                 "f"(quad.w)
                 : "memory");
  } else {
    asm volatile("st.shared.f32 [%0], %1;" ::"r"(shared), "f"(exists ? __ldg(from) : 0.0f) : "memory");
  }
#endif
}

/** The same, where the address in shared memory is not at hand. */
template <int bytes>
__device__ inline void copyOrZero(float* shared, const float* from, bool exists) {
  copyOrZero<bytes>(sharedAddress(shared), from, exists);
}

/** Ends a group of copies, which may be empty. */
__device__ inline void commitCopies() {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}

/** Waits until no more than kPending of this thread's groups are under way. */
template <int kPending>
__device__ inline void waitForCopies() {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
#endif
}

}  // namespace warpconv::cuda
