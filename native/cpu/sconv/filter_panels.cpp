#include "cpu/sconv/filter_panels.h"

#include <algorithm>

#include "cpu/sconv/divide.h"

namespace warpconv::sconv {

FilterPanels::FilterPanels(const ConvProblem& problem, const float* weight, int64_t filters, int64_t lanes)
    : groupOutputs_(problem.groupOutputs()),
      filters_(filters),
      lanes_(lanes),
      tiles_(ceilDivide(groupOutputs_, filters)),
      elementsPerChannel_(problem.r * problem.s),
      filterSize_(problem.filterSize()),
      groupWidth_((tiles_ - 1) * filters + widthOf(tiles_ - 1)),
      data_(problem.groups * groupWidth_ * filterSize_) {
  for (int64_t group = 0; group < problem.groups; ++group) {
    for (int64_t tile = 0; tile < tiles_; ++tile) {
      const float* from = weight + (group * groupOutputs_ + tile * filters_) * filterSize_;
      float* to = data_.data() + offset(group, tile, 0);
      const int64_t count = filtersOf(tile);
      for (int64_t e = 0; e < filterSize_; ++e, to += widthOf(tile)) {
        for (int64_t f = 0; f < count; ++f) to[f] = from[f * filterSize_ + e];
        std::fill(to + count, to + widthOf(tile), 0.0f);
      }
    }
  }
}

int64_t FilterPanels::filtersOf(int64_t tile) const { return std::min(filters_, groupOutputs_ - tile * filters_); }

int64_t FilterPanels::widthOf(int64_t tile) const { return ceilDivide(filtersOf(tile), lanes_) * lanes_; }

int64_t FilterPanels::offset(int64_t group, int64_t tile, int64_t channel) const {
  return (group * groupWidth_ + tile * filters_) * filterSize_ + channel * elementsPerChannel_ * widthOf(tile);
}

const float* FilterPanels::at(int64_t group, int64_t tile, int64_t channel) const {
  return data_.data() + offset(group, tile, channel);
}

}  // namespace warpconv::sconv
