#pragma once

#include <cstdint>

/**
 * Sums and extremes of adjacent floats, over a vector type that has `kLanes` and `Register`. Everything is local to the
 * file that includes it, as elementary.h explains.
 */
namespace warpconv {
namespace {

template <class Vector>
typename Vector::Register load(const float* from) {
  typename Vector::Register value;
  __builtin_memcpy(&value, from, sizeof(value));
  return value;
}

/** In halves, so that as many steps follow each other as the lanes' logarithm. */
template <class Vector, typename Combine>
float foldLanes(typename Vector::Register value, Combine combine) {
  float lanes[Vector::kLanes];
  __builtin_memcpy(lanes, &value, sizeof(lanes));
#pragma GCC unroll 4
  for (int half = Vector::kLanes / 2; half > 0; half /= 2) {
#pragma GCC unroll 8
    for (int lane = 0; lane < half; ++lane) lanes[lane] = combine(lanes[lane], lanes[lane + half]);
  }
  return lanes[0];
}

template <class Vector>
float sumOfLanes(typename Vector::Register value) {
  return foldLanes<Vector>(value, [](float a, float b) { return a + b; });
}

/** In four registers. */
template <class Vector>
struct Folds {
  using Register = typename Vector::Register;
  static constexpr int kLanes = Vector::kLanes;
  static constexpr int kRegisters = 4;
  static constexpr int64_t kStep = kRegisters * kLanes;

  /** The last `rest` of the values, and fillers. */
  static Register loadLast(const float* values, int64_t count, int64_t rest, float filler) {
    if (count < kLanes) {
      float lanes[kLanes];
      for (int64_t lane = 0; lane < kLanes; ++lane) lanes[lane] = lane < rest ? values[lane] : filler;
      return load<Vector>(lanes);
    }
    // By a vector that begins further up, because what is put together in memory is slow to load from there.
    static constexpr float kNumbers[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    const Register last = load<Vector>(values + count - kLanes);
    return load<Vector>(kNumbers) >= static_cast<float>(kLanes - rest) ? last : Register{} + filler;
  }

  /** fold(accumulator, value) of all values, in accumulators that begin with `first`; `filler` fills the last vector.
   */
  template <typename Fold>
  static void fold(const float* values, int64_t count, float first, float filler, Register (&folded)[kRegisters],
                   Fold fold) {
    for (Register& one : folded) one = Register{} + first;
    int64_t i = 0;
    for (; i + kStep <= count; i += kStep) {
#pragma GCC unroll 4
      for (int r = 0; r < kRegisters; ++r) folded[r] = fold(folded[r], load<Vector>(values + i + r * kLanes));
    }
    for (; i + kLanes <= count; i += kLanes) folded[0] = fold(folded[0], load<Vector>(values + i));
    if (i < count) folded[1] = fold(folded[1], loadLast(values, count, count - i, filler));
  }

  /** In runs, each summed in floats, so that long sums lose no more than short ones. The filler's summand is 0. */
  template <typename Summand>
  static double sumOf(const float* values, int64_t count, float filler, Summand summand) {
    constexpr int64_t kRun = 4096;
    double total = 0;
    for (int64_t begin = 0; begin < count; begin += kRun) {
      Register sums[kRegisters];
      fold(values + begin, count - begin < kRun ? count - begin : kRun, 0.0f, filler, sums,
           [&](Register sum, Register x) { return sum + summand(x); });
      total += static_cast<double>(sumOfLanes<Vector>((sums[0] + sums[1]) + (sums[2] + sums[3])));
    }
    return total;
  }

  static double sum(const float* values, int64_t count) {
    return sumOf(values, count, 0.0f, [](Register x) { return x; });
  }

  static double sumOfSquares(const float* values, int64_t count, float centre) {
    return sumOf(values, count, centre, [centre](Register x) {
      const Register difference = x - centre;
      return difference * difference;
    });
  }

  /** `isBetter` of two registers or of two floats */
  template <typename Better>
  static float extreme(const float* values, int64_t count, float neutral, Better isBetter) {
    const auto choose = [&](auto best, auto x) {
      const auto better = isBetter(x, best) ? x : best;
      return x != x ? x : better;
    };
    Register found[kRegisters];
    fold(values, count, neutral, neutral, found, choose);
    return foldLanes<Vector>(choose(choose(found[0], found[1]), choose(found[2], found[3])), choose);
  }

  static float maximum(const float* values, int64_t count) {
    return extreme(values, count, -__builtin_inff(), [](auto x, auto best) { return x > best; });
  }
  static float minimum(const float* values, int64_t count) {
    return extreme(values, count, __builtin_inff(), [](auto x, auto best) { return x < best; });
  }
};

}  // namespace
}  // namespace warpconv
