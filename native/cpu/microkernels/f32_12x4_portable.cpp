#include <algorithm>
#include <cstdint>

#include "cpu/microkernels/lane_product.h"
#include "cpu/vector/vector4.h"

namespace warpconv {
namespace {

struct Lanes4 : Vector4 {
  using First = Lanes;
  struct All {};
  using Vector4::load, Vector4::store;

  static Register zero() { return Register{}; }
  static Register load(All, const float* from) { return load(from); }
  static void store(float* to, All, Register value) { store(to, value); }
  static void store(float* to, First lanes, Register value) {
    if (lanes.areAll()) return store(to, value);
    for (int i = 0; i < lanes.end; ++i) to[i] = value[i];
  }
  static First first(int64_t count) { return {0, static_cast<int>(std::min<int64_t>(count, kLanes))}; }
  static Register add(Register a, Register b) { return a + b; }
  static Register multiplyNegative(Register x, Register factor) { return x < 0 ? x * factor : x; }
  // Of NaN no comparison is true.
  static Register atLeast(Register x, Register low) { return x < low ? low : x; }
  static Register atMost(Register x, Register high) { return x > high ? high : x; }
};

}  // namespace

// 13e6: 0.8 of the portable outer product's rate, in pointwise layers of 240 to 576 channels on one Zen 5 core. In a
// file of its own: beside its code the compiler would no longer put the outer product's functions in line.
extern const Microkernel kF32_12x4Portable;
const Microkernel kF32_12x4Portable{"f32_12x4_portable",
                                    Isa::portable,
                                    12,
                                    4,
                                    4,
                                    4,
                                    13e6,
                                    kPlainStoreElements,
                                    nullptr,
                                    nullptr,
                                    nullptr,
                                    lanes::convolve<Lanes4, 4, 3>,
                                    true,
                                    lanes::splitPairs<Lanes4>};

}  // namespace warpconv
