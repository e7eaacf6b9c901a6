#pragma once

#include <cstdint>
#include <vector>

#include "cuda/kernel/fast_divisor.h"
#include "host_device.h"

namespace warpconv::cuda::operators {

/** Positions of up to kMostAxes extents, the last fastest, and where each lies in `kTensors` tensors. */
template <int kTensors>
struct Strided {
  static constexpr int kMostAxes = 8;

  int axes = 0;
  /** Of positions */
  int count = 1;
  FastDivisor extents[kMostAxes];
  int strides[kTensors][kMostAxes]{};

  /** The next inner axis; `steps` has a stride for each tensor. */
  void append(int64_t extent, const int64_t (&steps)[kTensors]) {
    count *= static_cast<int>(extent);
    // Nothing is looked up among no positions.
    extents[axes] = FastDivisor(extent == 0 ? 1 : static_cast<int>(extent));
    for (int i = 0; i < kTensors; ++i) strides[i][axes] = static_cast<int>(steps[i]);
    ++axes;
  }

  /**
   * In elements, for 0 <= position < count. The loop is one that is unrolled: strides that are looked up by an index
   * took most of a copy's time.
   */
  WARPCONV_HOST_DEVICE void find(int position, int (&offsets)[kTensors]) const {
    for (int i = 0; i < kTensors; ++i) offsets[i] = 0;
    for (int axis = kMostAxes - 1; axis >= 0; --axis) {
      if (axis >= axes) continue;
      int along = position;
      // along = position % extent, position /= extent
      position = extents[axis].divide(along);
      for (int i = 0; i < kTensors; ++i) offsets[i] += along * strides[i][axis];
    }
  }
};

}  // namespace warpconv::cuda::operators
