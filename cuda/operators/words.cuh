#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace warpconv::cuda::operators {

/** Calls `body` with a word of so many bytes: 1, 2, 4, 8 or 16. */
template <typename Body>
auto withWord(int bytes, const Body& body) {
  switch (bytes) {
    case 1: return body(uint8_t{});
    case 2: return body(uint16_t{});
    case 4: return body(uint32_t{});
    case 8: return body(uint2{});
    default: return body(uint4{});
  }
}

}  // namespace warpconv::cuda::operators
