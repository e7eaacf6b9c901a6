#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>

namespace warpconv {

/**
 * Four floats by the compiler's own vectors, SSE2 on x86-64 and NEON on arm64: what the portable kernels are
 * instantiated with, each with what else its loops ask for. Local to the file that includes it, like the other vector
 * types.
 */
namespace {

struct Vector4 {
  static constexpr int kLanes = 4;
  typedef float Register __attribute__((vector_size(16)));

  /** Lanes [begin, end) */
  struct Lanes {
    int begin;
    int end;
    bool areAll() const { return begin == 0 && end == kLanes; }
    bool has(int lane) const { return lane >= begin && lane < end; }
  };

  /** The lanes i with 0 <= first + i < width */
  static Lanes lanesInside(int64_t first, int64_t width) {
    const auto lane = [first](int64_t column) {
      return static_cast<int>(std::clamp<int64_t>(column - first, 0, kLanes));
    };
    return {lane(0), lane(width)};
  }

  static Register load(const float* from) {
    Register value;
    std::memcpy(&value, from, sizeof(value));
    return value;
  }
  static Register load(Lanes lanes, const float* from) {
    if (lanes.areAll()) return load(from);
    const auto lane = [=](int i) { return lanes.has(i) ? from[i] : 0.0f; };
    return Register{lane(0), lane(1), lane(2), lane(3)};
  }
  static void store(float* to, Register value) { std::memcpy(to, &value, sizeof(value)); }

  static Register broadcast(const float* from) { return Register{*from, *from, *from, *from}; }
  static Register multiplyAdd(Register a, Register b, Register c) { return a * b + c; }
  static Register even(Register a, Register b) { return Register{a[0], a[2], b[0], b[2]}; }
  static Register odd(Register a, Register b) { return Register{a[1], a[3], b[1], b[3]}; }
};

}  // namespace
}  // namespace warpconv
