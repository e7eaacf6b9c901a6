#include "cpu/winograd/filters.h"

#include <algorithm>
#include <limits>

namespace warpconv::winograd {
namespace {

/** An element of each filter of a panel */
using Lanes = double[kMostFilters];

/** G of three elements */
void addElements(const Lanes& g0, const Lanes& g1, const Lanes& g2, Lanes (&to)[4]) {
  for (int64_t f = 0; f < kMostFilters; ++f) {
    const double outer = g0[f] + g2[f];
    to[0][f] = g0[f];
    to[1][f] = (outer + g1[f]) / 2;
    to[2][f] = (outer - g1[f]) / 2;
    to[3][f] = g2[f];
  }
}

/** U of one channel: g is [9][width], component i at to[i * stride]. */
void transformChannel(const float* g, int64_t width, int64_t stride, float* to) {
  Lanes given[9]{};
  for (int64_t e = 0; e < 9; ++e) std::copy_n(g + e * width, width, given[e]);
  Lanes columns[3][4];
  for (int64_t j = 0; j < 3; ++j) addElements(given[j], given[3 + j], given[6 + j], columns[j]);
  for (int64_t i = 0; i < 4; ++i) {
    Lanes u[4];
    addElements(columns[0][i], columns[1][i], columns[2][i], u);
    for (int64_t j = 0; j < 4; ++j) {
      std::transform(u[j], u[j] + width, to + (4 * i + j) * stride, [](double x) { return static_cast<float>(x); });
    }
  }
}

}  // namespace

bool canTransform(const Weights& weights) {
  constexpr float kLargest = std::numeric_limits<float>::max() / 9;
  return weights.largest() <= kLargest;
}

Filters::Filters(const ConvProblem& problem, Weights& weights, int64_t filters, int64_t lanes)
    : channels_(problem.groupInputs()),
      given_(problem, weights, filters, lanes),
      transformed_(
          weights.form<Transformed>({problem.groups, filters, lanes}, [&] { return transform(problem.groups); })
              .value()),
      data_(transformed_->data.data()) {}

bool Filters::areTransformed(const ConvProblem& problem, const Weights& weights, int64_t filters, int64_t lanes) {
  return FilterPanels::arePacked(problem, weights, filters, lanes) &&
         weights.has<Transformed>({problem.groups, filters, lanes});
}

std::shared_ptr<const Filters::Transformed> Filters::transform(int64_t groups) const {
  auto made = std::make_shared<Transformed>(Transformed{AlignedBuffer(given_.elements() / 9 * kComponents)});
  for (int64_t group = 0; group < groups; ++group) {
    for (int64_t tile = 0; tile < given_.tiles(); ++tile) {
      const int64_t width = given_.widthOf(tile);
      float* to = made->data.data() + offset(group, tile, 0);
      for (int64_t c = 0; c < channels_; ++c) {
        transformChannel(given_.at(group, tile, c), width, channels_ * width, to + c * width);
      }
    }
  }
  return made;
}

}  // namespace warpconv::winograd
