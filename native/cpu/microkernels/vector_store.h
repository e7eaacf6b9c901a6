#pragma once

#include <cstdint>
#include <type_traits>

#include "cpu/microkernels/microkernel.h"
#include "cpu/vector/elementary.h"

/**
 * Microkernel::store, written once over a vector type and instantiated like the outer product. Beside what that needs,
 * the type has static add, atLeast(x, low) and atMost(x, high), which return a NaN x, multiplyNegative(x, factor),
 * transpose of kLanes registers, and load and store of First, which touch no more than so many floats; it may have its
 * own sigmoid, silu and hardSwish.
 */
namespace warpconv::vectors {

template <class Vector>
struct None {
  typename Vector::Register operator()(typename Vector::Register x) const { return x; }
};

template <class Vector>
struct Relu {
  typename Vector::Register operator()(typename Vector::Register x) const { return Vector::atLeast(x, Vector::zero()); }
};

template <class Vector>
struct Clip {
  typename Vector::Register low;
  typename Vector::Register high;

  explicit Clip(const Activation& activation)
      : low(Vector::broadcast(&activation.first)), high(Vector::broadcast(&activation.second)) {}
  typename Vector::Register operator()(typename Vector::Register x) const {
    return Vector::atMost(Vector::atLeast(x, low), high);
  }
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

/** A function that takes far longer than a store, and would be too much code in a copy for each vector of a tile. */
struct LongFunction {};

template <class Vector>
struct Sigmoid : LongFunction {
  typename Vector::Register operator()(typename Vector::Register x) const {
    if constexpr (requires { Vector::sigmoid(x); }) return Vector::sigmoid(x);
    return lanewise<Vector, sigmoid>(x);
  }
};

template <class Vector>
struct Silu : LongFunction {
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

template <class Vector>
struct Gelu : LongFunction {
  typename Vector::Register operator()(typename Vector::Register x) const { return lanewise<Vector, gelu>(x); }
};

/** Calls `use` with the function of a vector that `activation` is: a switch for each row takes as long as its store. */
template <class Vector, class Use>
void withActivation(const Activation& activation, const Use& use) {
  switch (activation.kind) {
    case ActivationKind::none: return use(None<Vector>());
    case ActivationKind::relu: return use(Relu<Vector>());
    case ActivationKind::clip: return use(Clip<Vector>(activation));
    case ActivationKind::leakyRelu: return use(LeakyRelu<Vector>(activation));
    case ActivationKind::sigmoid: return use(Sigmoid<Vector>());
    case ActivationKind::silu: return use(Silu<Vector>());
    case ActivationKind::hardSwish: return use(HardSwish<Vector>());
    case ActivationKind::gelu: return use(Gelu<Vector>());
  }
}

/**
 * What the rows of a tile need, in a copy: for the compiler, an output that is stored might overlap the tile's own
 * description, which it would load again for each row.
 */
template <class Vector, class Activate>
struct RowStore {
  /** Whether a tile's sums had better come from memory, one by one in a loop */
  static constexpr bool kFromMemory = std::is_base_of_v<LongFunction, Activate>;

  OutputTile tile;
  Finish finish;
  Activate activate;

  RowStore(const OutputTile& to, const Activate& function)
      : tile(to), finish(to.finish == nullptr ? Finish{} : *to.finish), activate(function) {}

  /**
   * Sums of filter `f` for the windows from `w` on, as many as `windows` says, on their way into its output row. In
   * line, since no register outlives a call: a tile's other sums would go to memory and back.
   */
  template <class Windows>
  [[gnu::always_inline]] void operator()(int64_t f, int64_t w, Windows windows, typename Vector::Register sum) const {
    const int64_t at = f * tile.rowStride + w;
    float* row = tile.output + at;
    if (tile.add) sum = Vector::add(Vector::load(windows, row), sum);
    if (tile.finish == nullptr) return Vector::store(row, windows, sum);
    sum = Vector::add(sum, Vector::broadcast(finish.bias + f));
    if (finish.residual != nullptr) sum = Vector::add(sum, Vector::load(windows, finish.residual + at));
    Vector::store(row, windows, activate(sum));
  }
};

/** Up to kLanes windows from `w` on, of an outer product's sums[window][kMostFilters]. */
template <class Vector, class StoreRow>
void storeBlock(const OutputTile& tile, int64_t w, const float* sums, const StoreRow& storeRow) {
  constexpr int kLanes = Vector::kLanes;
  const int64_t left = tile.windows - w;
  const typename Vector::First windows = Vector::first(left);
  for (int64_t first = 0; first < tile.filters; first += kLanes) {
    typename Vector::Register block[kLanes];
#pragma GCC unroll 16
    for (int i = 0; i < kLanes; ++i) {
      block[i] = i < left ? Vector::load(sums + (w + i) * kMostFilters + first) : Vector::zero();
    }
    Vector::transpose(block);
    const int64_t count = tile.filters - first < kLanes ? tile.filters - first : kLanes;
    if (count == kLanes && !StoreRow::kFromMemory) {
#pragma GCC unroll 16
      for (int f = 0; f < kLanes; ++f) storeRow(first + f, w, windows, block[f]);
    } else {
      alignas(64) float rows[kLanes * kLanes];
#pragma GCC unroll 16
      for (int f = 0; f < kLanes; ++f) Vector::store(rows + kLanes * f, block[f]);
      for (int64_t f = 0; f < count; ++f) storeRow(first + f, w, windows, Vector::load(rows + kLanes * f));
    }
  }
}

template <class Vector>
void store(const OutputTile& tile, const float* sums) {
  withActivation<Vector>(tile.finish == nullptr ? Activation{} : tile.finish->activation, [&](auto activate) {
    const RowStore<Vector, decltype(activate)> storeRow(tile, activate);
    for (int64_t w = 0; w < tile.windows; w += Vector::kLanes) storeBlock<Vector>(tile, w, sums, storeRow);
  });
}

}  // namespace warpconv::vectors
