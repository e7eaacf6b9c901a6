#pragma once

#include <cstdint>

namespace warpconv::cuda {

/** Of a block of the kernels that judge and convert, one an element. */
constexpr int kThreads = 256;

inline unsigned blocksFor(int64_t elements) { return static_cast<unsigned>((elements + kThreads - 1) / kThreads); }

}  // namespace warpconv::cuda
