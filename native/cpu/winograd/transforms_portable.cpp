#include <algorithm>
#include <cstring>

#include "cpu/winograd/transform_loops.h"

namespace warpconv::winograd {
namespace {

/** Four floats by the compiler's own vectors: SSE2 on x86-64, NEON on arm64. */
struct Vector4 {
  static constexpr int kLanes = 4;
  typedef float Register __attribute__((vector_size(16)));

  /** Lanes [begin, end) */
  struct Lanes {
    int begin;
    int end;
  };

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
    if (lanes.begin == 0 && lanes.end == kLanes) return load(from);
    const auto lane = [=](int i) { return i >= lanes.begin && i < lanes.end ? from[i] : 0.0f; };
    return Register{lane(0), lane(1), lane(2), lane(3)};
  }
  static void store(float* to, Register value) { std::memcpy(to, &value, sizeof(value)); }
  static void storeFirst(float* to, int64_t, Register value) { store(to, value); }
  static Register even(Register a, Register b) { return Register{a[0], a[2], b[0], b[2]}; }
  static Register odd(Register a, Register b) { return Register{a[1], a[3], b[1], b[3]}; }
  static Register next(Register a) { return Register{a[1], a[2], a[3], a[3]}; }
};

}  // namespace

extern constinit const Transforms kTransformsPortable;
constinit const Transforms kTransformsPortable = makeTransforms<Vector4>(Isa::portable);

}  // namespace warpconv::winograd
