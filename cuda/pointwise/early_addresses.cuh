#pragma once

#include <cstdint>

namespace warpconv::cuda::pointwise {

// Addresses of loads, found while the kernel before runs: loads that follow each other at once then take as long as
// one.

/** Hides where an address comes from: what is a multiple away from it is one IMAD.WIDE, not the sum of offsets anew. */
__device__ inline const char* asBytes(const float* first) {
  const char* bytes = reinterpret_cast<const char*>(first);
  asm("" : "+l"(bytes));
  return bytes;
}

/**
 * For the compiler to have addresses where this is called, by `all` that were joined by exclusive or: otherwise it
 * computes each before its load, and loads follow each other by tens of cycles.
 */
__device__ inline void keepEarly(uint64_t all) {
  // Harmless should it ever be true.
  if (all == 0x5bd1e9955bd1e995) asm volatile("nanosleep.u32 1;");
}

}  // namespace warpconv::cuda::pointwise
