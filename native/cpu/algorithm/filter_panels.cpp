#include "cpu/algorithm/filter_panels.h"

#include "divide.h"

namespace warpconv {

FilterPanels::FilterPanels(const ConvProblem& problem, Weights& weights, int64_t filters, int64_t lanes)
    : groupOutputs_(problem.groupOutputs()),
      filters_(filters),
      tiles_(ceilDivide(groupOutputs_, filters)),
      lastWidth_(ceilDivide(filtersOf(tiles_ - 1), lanes) * lanes),
      elementsPerChannel_(problem.r * problem.s),
      filterSize_(problem.filterSize()),
      groupWidth_((tiles_ - 1) * filters + lastWidth_),
      packed_(weights
                  .form<Packed>(parameters(problem, filters, lanes),
                                [&](const float* weight) { return pack(problem.groups, weight); })
                  .value()),
      data_(packed_->data.data()) {}

bool FilterPanels::arePacked(const ConvProblem& problem, const Weights& weights, int64_t filters, int64_t lanes) {
  return weights.has<Packed>(parameters(problem, filters, lanes));
}

std::shared_ptr<const FilterPanels::Packed> FilterPanels::pack(int64_t groups, const float* weight) const {
  auto packed = std::make_shared<Packed>(Packed{AlignedBuffer(groups * groupWidth_ * filterSize_)});
  for (int64_t group = 0; group < groups; ++group) {
    for (int64_t tile = 0; tile < tiles_; ++tile) {
      const float* from = weight + (group * groupOutputs_ + tile * filters_) * filterSize_;
      float* to = packed->data.data() + offset(group, tile, 0);
      const int64_t count = filtersOf(tile);
      for (int64_t e = 0; e < filterSize_; ++e, to += widthOf(tile)) {
        for (int64_t f = 0; f < count; ++f) to[f] = from[f * filterSize_ + e];
        std::fill(to + count, to + widthOf(tile), 0.0f);
      }
    }
  }
  return packed;
}

}  // namespace warpconv
