#pragma once

namespace warpconv::cuda {

/** The same number, which the compiler keeps in a register then, and does not find again where it is needed. */
template <typename T>
__device__ inline T kept(T x) {
  if constexpr (sizeof(T) == 8) {
    asm volatile("" : "+l"(x));
  } else {
    asm volatile("" : "+r"(x));
  }
  return x;
}

}  // namespace warpconv::cuda
