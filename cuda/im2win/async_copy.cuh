#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace warpconv::cuda::im2win {

// Copies from global to shared memory that run on while the thread goes on, in groups that it waits for; zero is
// written instead where `valid` is false, and nothing is read. Before compute capability 8.0 they are plain loads and
// stores, done when the statement is, and waiting is empty. Shared memory is addressed in its own 32-bit space, where
// an address costs one addition.

__device__ inline uint32_t sharedAddress(const void* shared) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(shared));
}

__device__ inline void copyOne(uint32_t shared, const float* global, bool valid) {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(shared), "l"(global), "r"(valid ? 4 : 0));
#else
  asm volatile("st.shared.f32 [%0], %1;" ::"r"(shared), "f"(valid ? __ldg(global) : 0.0f));
#endif
}

/** Both 16-byte aligned. */
__device__ inline void copyFour(uint32_t shared, const float* global, bool valid) {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared), "l"(global), "r"(valid ? 16 : 0));
#else
  float4 quad = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
  if (valid) quad = __ldg(reinterpret_cast<const float4*>(global));
  asm volatile("st.shared.v4.f32 [%0], {%1, %2, %3, %4};" ::"r"(shared), "f"(quad.x), "f"(quad.y), "f"(quad.z),
               "f"(quad.w));
#endif
}

__device__ inline void endCopyGroup() {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}

/** Waits until no more than kPending of this thread's groups are under way. */
template <int kPending>
__device__ inline void awaitCopyGroups() {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
#endif
}

}  // namespace warpconv::cuda::im2win
