#pragma once

#include <memory>

#include "cpu/algorithm/filter_panels.h"
#include "cpu/winograd/tiling.h"
#include "memory/aligned_buffer.h"
#include "weights/weights.h"

namespace warpconv::winograd {

/** Whether no element of 3 x 3 filters is NaN, or so large that a sum of nine might overflow. */
bool canTransform(const Weights& weights);

/** Filters for the micro-kernels, as they are given and transformed: 25/9 of their size, and lanes without a filter. */
class Filters {
 public:
  /** The weights are K x C/groups x 3 x 3; `filters` and `lanes` are the micro-kernel's. */
  Filters(const ConvProblem& problem, Weights& weights, int64_t filters, int64_t lanes);

  /** Whether the weights have been packed and transformed so. */
  static bool areTransformed(const ConvProblem& problem, const Weights& weights, int64_t filters, int64_t lanes);

  const FilterPanels& given() const { return given_; }
  /** U of a panel, [c][filter]: computed in double, rounded once */
  const float* transformed(int64_t group, int64_t tile, int64_t component) const {
    return data_ + offset(group, tile, component);
  }

 private:
  struct Transformed {
    AlignedBuffer data;
    int64_t bytes() const { return data.bytes(); }
  };

  std::shared_ptr<const Transformed> transform(int64_t groups) const;
  /** Where the 9 elements of all channels lie in one, the 16 components lie in the other. */
  int64_t offset(int64_t group, int64_t tile, int64_t component) const {
    const int64_t elements = given_.at(group, tile, 0) - given_.at(0, 0, 0);
    return elements / 9 * kComponents + component * channels_ * given_.widthOf(tile);
  }

  int64_t channels_;
  FilterPanels given_;
  std::shared_ptr<const Transformed> transformed_;
  const float* data_;
};

}  // namespace warpconv::winograd
