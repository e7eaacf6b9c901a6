#pragma once

namespace warpconv::cuda {

/** The same number. The compiler keeps it in a register instead of computing it again at each use. */
template <typename T>
__device__ inline T inRegister(T x) {
  if constexpr (sizeof(T) == 8) {
    asm volatile("" : "+l"(x));
  } else {
    asm volatile("" : "+r"(x));
  }
  return x;
}

}  // namespace warpconv::cuda
