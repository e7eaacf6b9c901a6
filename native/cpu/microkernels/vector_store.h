#pragma once

#include <cstdint>

#include "cpu/microkernels/microkernel.h"
#include "cpu/vector_loops/elementary.h"

/**
 * Microkernel::store, written once over a vector type and instantiated like the outer product. Beside what that needs,
 * the type has static add, clamp(x, low, high), which returns a NaN x, multiplyNegative(x, factor), transpose of kLanes
 * registers, and loadFirst and storeFirst, which touch no more than `count` floats; it may have its own sigmoid, silu
 * and hardSwish.
 */
namespace warpconv::vectors {

/** `none`, `relu` and `clip` as one function without branches: a switch for each row took as long as its store. */
template <class Vector>
struct Clamp {
  typename Vector::Register low;
  typename Vector::Register high;

  explicit Clamp(const Activation& activation) {
    const bool clips = activation.kind == ActivationKind::clip;
    const float least = clips ? activation.first : activation.kind == ActivationKind::relu ? 0 : -__builtin_inff();
    const float most = clips ? activation.second : __builtin_inff();
    low = Vector::broadcast(&least);
    high = Vector::broadcast(&most);
  }
  typename Vector::Register operator()(typename Vector::Register x) const { return Vector::clamp(x, low, high); }
};

template <class Vector>
struct LeakyRelu {
  typename Vector::Register slope;

  explicit LeakyRelu(const Activation& activation) : slope(Vector::broadcast(&activation.first)) {}
  typename Vector::Register operator()(typename Vector::Register x) const { return Vector::multiplyNegative(x, slope); }
};

/** A function that is written for one float; from a loop over as many as a vector has, the compiler makes one vector's.
 */
template <class Vector, float (*kFunction)(float)>
[[gnu::noinline]] typename Vector::Register lanewise(typename Vector::Register x) {
  alignas(64) float lanes[Vector::kLanes];
  Vector::store(lanes, x);
  for (float& lane : lanes) lane = kFunction(lane);
  return Vector::load(lanes);
}

template <class Vector>
struct Sigmoid {
  typename Vector::Register operator()(typename Vector::Register x) const {
    if constexpr (requires { Vector::sigmoid(x); }) return Vector::sigmoid(x);
    return lanewise<Vector, sigmoid>(x);
  }
};

template <class Vector>
struct Silu {
  typename Vector::Register operator()(typename Vector::Register x) const {
    if constexpr (requires { Vector::silu(x); }) return Vector::silu(x);
    return lanewise<Vector, silu>(x);
  }
};

template <class Vector>
struct HardSwish {
  typename Vector::Register operator()(typename Vector::Register x) const {
    if constexpr (requires { Vector::hardSwish(x); }) return Vector::hardSwish(x);
    return lanewise<Vector, hardSwish>(x);
  }
};

/**
 * What the rows of a block of windows need, in a copy: for the compiler, an output that is stored might overlap the
 * tile's own description, which it would load again for each row.
 */
template <class Vector, class Activate>
struct RowStore {
  OutputTile tile;
  Finish finish;
  typename Vector::First windows;
  Activate activate;

  /** Sums of filter `f` for the block's windows, on their way into its output row. */
  void operator()(int64_t f, typename Vector::Register sum) const {
    float* row = tile.output + f * tile.rowStride;
    if (tile.add) sum = Vector::add(Vector::load(windows, row), sum);
    if (tile.finish == nullptr) return Vector::store(row, windows, sum);
    sum = Vector::add(sum, Vector::broadcast(finish.bias + f));
    if (finish.residual != nullptr) sum = Vector::add(sum, Vector::load(windows, finish.residual + f * tile.rowStride));
    Vector::store(row, windows, activate(sum));
  }
};

/** Sums of an outer product: sums[window][kMostFilters]. */
template <class Vector>
struct FiltersInLanes {
  static constexpr int64_t kBlock = Vector::kLanes * kMostFilters;

  /** Up to kLanes windows */
  template <class StoreRow>
  static void storeBlock(int64_t windows, int64_t filters, const float* sums, const StoreRow& storeRow) {
    constexpr int kLanes = Vector::kLanes;
    for (int64_t first = 0; first < filters; first += kLanes) {
      typename Vector::Register block[kLanes];
#pragma GCC unroll 16
      for (int w = 0; w < kLanes; ++w) {
        block[w] = w < windows ? Vector::load(sums + w * kMostFilters + first) : Vector::zero();
      }
      Vector::transpose(block);
      const int64_t count = filters - first < kLanes ? filters - first : kLanes;
      if (count == kLanes) {
#pragma GCC unroll 16
        for (int f = 0; f < kLanes; ++f) storeRow(first + f, block[f]);
      } else {
        alignas(64) float rows[kLanes * kLanes];
#pragma GCC unroll 16
        for (int f = 0; f < kLanes; ++f) Vector::store(rows + kLanes * f, block[f]);
        for (int64_t f = 0; f < count; ++f) storeRow(first + f, Vector::load(rows + kLanes * f));
      }
    }
  }
};

/** Sums of a lane product: sums[filter][kWindows]. */
template <class Vector, int kWindows>
struct WindowsInLanes {
  static constexpr int64_t kBlock = Vector::kLanes;

  template <class StoreRow>
  static void storeBlock(int64_t, int64_t filters, const float* sums, const StoreRow& storeRow) {
    for (int64_t f = 0; f < filters; ++f) storeRow(f, Vector::load(sums + f * kWindows));
  }
};

template <class Vector, class Sums, class Activate>
void storeBlocks(const OutputTile& tile, const float* sums, const Activate& activate) {
  RowStore<Vector, Activate> storeRow{tile, tile.finish == nullptr ? Finish{} : *tile.finish, {}, activate};
  for (int64_t left = tile.windows; left > 0; left -= Vector::kLanes) {
    storeRow.windows = Vector::first(left);
    Sums::storeBlock(left, tile.filters, sums, storeRow);
    storeRow.tile.output += Vector::kLanes;
    if (storeRow.finish.residual != nullptr) storeRow.finish.residual += Vector::kLanes;
    sums += Sums::kBlock;
  }
}

template <class Vector, class Sums = FiltersInLanes<Vector>>
void store(const OutputTile& tile, const float* sums) {
  const Activation activation = tile.finish == nullptr ? Activation{} : tile.finish->activation;
  switch (activation.kind) {
    case ActivationKind::none:
    case ActivationKind::relu:
    case ActivationKind::clip: return storeBlocks<Vector, Sums>(tile, sums, Clamp<Vector>(activation));
    case ActivationKind::leakyRelu: return storeBlocks<Vector, Sums>(tile, sums, LeakyRelu<Vector>(activation));
    case ActivationKind::sigmoid: return storeBlocks<Vector, Sums>(tile, sums, Sigmoid<Vector>());
    case ActivationKind::silu: return storeBlocks<Vector, Sums>(tile, sums, Silu<Vector>());
    case ActivationKind::hardSwish: return storeBlocks<Vector, Sums>(tile, sums, HardSwish<Vector>());
  }
}

}  // namespace warpconv::vectors
