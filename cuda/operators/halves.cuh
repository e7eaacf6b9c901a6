#pragma once

#include <cstdint>

#include "cuda/kernel/half_pairs.cuh"
#include "problem/conv_format.h"
#include "status.h"

/** Halves in registers: neighbouring channels of a pixel, up to the eight of a word of 16 bytes. */
namespace warpconv::cuda::operators {

template <int kWidth>
struct alignas(2 * kWidth) Halves {
  uint32_t pairs[kWidth / 2];
};
template <>
struct alignas(2) Halves<1> {
  uint16_t half;
};

using Float16 = Float16Pair;
using BFloat16 = BFloat16Pair;

template <typename Type, int kWidth>
__device__ void widen(const Halves<kWidth>& halves, float (&floats)[kWidth]) {
  if constexpr (kWidth == 1) {
    floats[0] = Type::toFloats(halves.half).x;
  } else {
#pragma unroll
    for (int i = 0; i < kWidth / 2; ++i) {
      const float2 pair = Type::toFloats(halves.pairs[i]);
      floats[2 * i] = pair.x, floats[2 * i + 1] = pair.y;
    }
  }
}

template <typename Type, int kWidth>
__device__ Halves<kWidth> narrow(const float (&floats)[kWidth]) {
  Halves<kWidth> halves;
  if constexpr (kWidth == 1) {
    halves.half = static_cast<uint16_t>(Type::fromFloats(floats[0], 0.0f));
  } else {
#pragma unroll
    for (int i = 0; i < kWidth / 2; ++i) halves.pairs[i] = Type::fromFloats(floats[2 * i], floats[2 * i + 1]);
  }
  return halves;
}

/** Calls `body` with a Float16 or a BFloat16. */
template <typename Body>
Status withHalf(FloatType type, const Body& body) {
  switch (type) {
    case FloatType::float16: return body(Float16{});
    case FloatType::bfloat16: return body(BFloat16{});
    case FloatType::float32: break;
  }
  return {StatusCode::internal, "a kernel of halves was given float32"};
}

/** The most neighbouring channels that every pixel of all tensors has on a boundary of so many: 8, 2 or 1. */
template <typename... Distances>
int widthOfHalves(int64_t channels, Distances... distances) {
  const auto fits = [&](int64_t width) { return channels % width == 0 && ((distances % width == 0) && ...); };
  return fits(8) ? 8 : fits(2) ? 2 : 1;
}

/** An address counted in halves. */
inline int64_t halvesTo(const void* data) { return static_cast<int64_t>(reinterpret_cast<uintptr_t>(data) / 2); }

/** Calls `body` with a width as a type: std::integral_constant's value. */
template <int kWidth>
struct Width {
  static constexpr int value = kWidth;
};
template <typename Body>
Status withWidth(int width, const Body& body) {
  switch (width) {
    case 8: return body(Width<8>{});
    case 2: return body(Width<2>{});
    default: return body(Width<1>{});
  }
}

}  // namespace warpconv::cuda::operators
