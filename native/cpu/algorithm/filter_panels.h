#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>

#include "memory/aligned_buffer.h"
#include "problem/conv_problem.h"
#include "weights/weights.h"

namespace warpconv {

/**
 * Filters packed for a micro-kernel (SConv, section 6.3): panels [group][tile][c][r][s][filter], so that a channel set
 * is a run within its tile. The last tile of a group is as narrow as whole vectors allow; lanes without a filter are
 * zero.
 */
class FilterPanels {
 public:
  /** `filters` is N_f, and a multiple of `lanes`. Weights that have been packed so are not packed again. */
  FilterPanels(const ConvProblem& problem, Weights& weights, int64_t filters, int64_t lanes);

  /** Whether the weights have been packed so. */
  static bool arePacked(const ConvProblem& problem, const Weights& weights, int64_t filters, int64_t lanes);

  int64_t tiles() const { return tiles_; }
  /** Filters of a tile, and floats of one of its elements */
  int64_t filtersOf(int64_t tile) const { return std::min(filters_, groupOutputs_ - tile * filters_); }
  int64_t widthOf(int64_t tile) const { return tile + 1 < tiles_ ? filters_ : lastWidth_; }
  const float* at(int64_t group, int64_t tile, int64_t channel) const { return data_ + offset(group, tile, channel); }
  /** Floats of all panels */
  int64_t elements() const { return packed_->data.elements(); }

 private:
  struct Packed {
    AlignedBuffer data;
    int64_t bytes() const { return data.bytes(); }
  };

  static Weights::Parameters parameters(const ConvProblem& problem, int64_t filters, int64_t lanes) {
    return {problem.groups, filters, lanes};
  }
  std::shared_ptr<const Packed> pack(int64_t groups, const float* weight) const;
  int64_t offset(int64_t group, int64_t tile, int64_t channel) const {
    return (group * groupWidth_ + tile * filters_) * filterSize_ + channel * elementsPerChannel_ * widthOf(tile);
  }

  int64_t groupOutputs_;
  int64_t filters_;
  int64_t tiles_;
  int64_t lastWidth_;
  int64_t elementsPerChannel_;
  int64_t filterSize_;
  int64_t groupWidth_;
  std::shared_ptr<const Packed> packed_;
  const float* data_;
};

}  // namespace warpconv
