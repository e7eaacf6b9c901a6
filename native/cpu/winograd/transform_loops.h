#pragma once

#include "cpu/winograd/transforms.h"

/**
 * Transforms, written once over a vector type. Each instruction set's file instantiates them; everything is local to
 * it, so that no code of a wider instruction set can be linked into a narrower one.
 *
 * A vector type has `kLanes`, `Register`, which the compiler adds, subtracts and multiplies, `Lanes` (a choice of
 * lanes), and static
 * - lanesInside(first, width): the lanes i with 0 <= first + i < width;
 * - load(from), and load(lanes, from), zero in the other lanes, which are not read;
 * - store(to, value), and storeFirst(to, count, value), which may touch lanes up to kPackedWindows of its row;
 * - even(a, b): elements 0, 2, … of a and b laid end to end; odd(a, b): elements 1, 3, …;
 * - next(a): lane i has element i + 1, the last lane anything.
 */
namespace warpconv::winograd {
namespace {

/** B' from the left: of rows 0 to 3 of a tile, or of many side by side. */
template <typename Register>
void addRows(const Register (&d)[4], Register (&to)[4]) {
  to[0] = d[0] - d[2];
  to[1] = d[1] + d[2];
  to[2] = d[2] - d[1];
  to[3] = d[1] - d[3];
}

/** Input rows of adjacent tiles, kLanes - 1 or fewer, from one channel to the next. */
template <class Vector>
class InputRows {
 public:
  using Register = typename Vector::Register;

  /** `h` and `w` are the input coordinates of the first tile's first element. */
  InputRows(const ConvProblem& x, int64_t h, int64_t w)
      : width_(x.w), left_(Vector::lanesInside(w, x.w)), right_(Vector::lanesInside(w + Vector::kLanes, x.w)) {
    for (int64_t r = 0; r < 4; ++r) isInside_[r] = h + r >= 0 && h + r < x.h;
  }

  /** B' d: in each row kLanes columns from `w` on, and the next kLanes; `first` is the element of (h, w). */
  void load(const float* first, Register (&left)[4], Register (&right)[4]) const {
    Register l[4], r[4];
#pragma GCC unroll 4
    for (int64_t row = 0; row < 4; ++row) {
      l[row] = isInside_[row] ? Vector::load(left_, first + row * width_) : Register{};
      r[row] = isInside_[row] ? Vector::load(right_, first + row * width_ + Vector::kLanes) : Register{};
    }
    addRows(l, left);
    addRows(r, right);
  }

 private:
  int64_t width_;
  typename Vector::Lanes left_;
  typename Vector::Lanes right_;
  bool isInside_[4];
};

/**
 * How many channels ahead rows are fetched, of which a large map has but a few adjacent bytes to read. One Zen 4 core
 * transforms 64 channels of 224 x 224 in 2.8 ms instead of 4.5, and small maps in the same time.
 */
constexpr int64_t kChannelsAhead = 4;

/** Asks for `columns` of the four rows of a tile, which may belong to no channel. */
inline void prefetchRows(const float* first, int64_t width, int64_t columns) {
  constexpr int64_t kLine = 64 / sizeof(float);
#pragma GCC unroll 4
  for (int64_t r = 0; r < 4; ++r, first += width) {
    for (int64_t column = 0; column < columns; column += kLine) __builtin_prefetch(first + column);
    __builtin_prefetch(first + columns - 1);
  }
}

/**
 * Tiles of one run, kLanes - 1 or fewer: their 2 * kLanes columns fill two vectors. A group's first run may fill the
 * lanes of those that follow.
 */
template <class Vector, bool kIsFirst>
void transformRun(const TileInputs& inputs, const TileRun& run, float* to) {
  using Register = typename Vector::Register;
  const ConvProblem& x = *inputs.problem;
  const int64_t h = 2 * run.row - x.padding.top;
  const int64_t w = 2 * run.column - x.padding.left;
  const InputRows<Vector> rows(x, h, w);
  const float* first = inputs.maps + h * x.w + w;
  const int64_t map = x.h * x.w;
  to += run.lane;
  for (int64_t c = 0; c < inputs.channels; ++c, first += map, to += kPackedWindows) {
    prefetchRows(first + kChannelsAhead * map, x.w, 2 * Vector::kLanes);
    Register left[4], right[4];
    rows.load(first, left, right);
#pragma GCC unroll 4
    for (int64_t i = 0; i < 4; ++i) {
      const Register even = Vector::even(left[i], right[i]);
      const Register odd = Vector::odd(left[i], right[i]);
      Register v[4];
      addRows({even, odd, Vector::next(even), Vector::next(odd)}, v);
#pragma GCC unroll 4
      for (int64_t j = 0; j < 4; ++j) {
        float* component = to + (4 * i + j) * inputs.componentFloats;
        if constexpr (kIsFirst) {
          Vector::store(component, v[j]);
        } else {
          Vector::storeFirst(component, run.count, v[j]);
        }
      }
    }
  }
}

template <class Vector>
void transformInputs(const TileInputs& inputs, float* to) {
  constexpr int64_t kMost = Vector::kLanes - 1;
  for (int64_t i = 0; i < inputs.group->runCount; ++i) {
    const TileRun& run = inputs.group->runs[i];
    for (int64_t done = 0; done < run.count; done += kMost) {
      const int64_t count = run.count - done < kMost ? run.count - done : kMost;
      const TileRun piece{run.lane + done, count, run.row, run.column + done};
      if (piece.lane == 0) {
        transformRun<Vector, true>(inputs, piece, to);
      } else {
        transformRun<Vector, false>(inputs, piece, to);
      }
    }
  }
}

/** A' from the left */
template <typename Register>
void addSums(const Register& m0, const Register& m1, const Register& m2, const Register& m3, Register (&to)[2]) {
  to[0] = m0 + m1 + m2;
  to[1] = m1 - m2 - m3;
}

template <class Vector>
bool transformOutputs(const float* sums, int64_t tiles, int64_t width, float* outputs) {
  using Register = typename Vector::Register;
  const int64_t component = tiles * kMostFilters;
  // Zero while what it gathers is finite, NaN from then on.
  Register finite[4]{};
  for (int64_t tile = 0; tile < tiles; ++tile, sums += kMostFilters, outputs += 2 * kMostFilters) {
    for (int64_t f = 0; f < width; f += Vector::kLanes) {
      Register rows[4][2];
#pragma GCC unroll 4
      for (int64_t j = 0; j < 4; ++j) {
        const float* m = sums + j * component + f;
        addSums(Vector::load(m), Vector::load(m + 4 * component), Vector::load(m + 8 * component),
                Vector::load(m + 12 * component), rows[j]);
      }
#pragma GCC unroll 2
      for (int64_t r = 0; r < 2; ++r) {
        Register y[2];
        addSums(rows[0][r], rows[1][r], rows[2][r], rows[3][r], y);
#pragma GCC unroll 2
        for (int64_t s = 0; s < 2; ++s) {
          Vector::store(outputs + r * kOutputRow + s * kMostFilters + f, y[s]);
          finite[2 * r + s] += y[s] * 0.0f;
        }
      }
    }
  }
  alignas(64) float lanes[Vector::kLanes];
  Vector::store(lanes, (finite[0] + finite[1]) + (finite[2] + finite[3]));
  float all = 0;
  for (const float lane : lanes) all += lane;
  return all == 0;
}

template <class Vector>
constexpr Transforms makeTransforms(Isa isa) {
  return {isa, transformInputs<Vector>, transformOutputs<Vector>};
}

}  // namespace
}  // namespace warpconv::winograd
