#include "cuda/operators/copy_plan.h"

#include <algorithm>
#include <cstdlib>
#include <utility>
#include <vector>

namespace warpconv::cuda::operators {
namespace {

struct Axis {
  int64_t extent, input, output;

  /** Whether it and `inner`, the next axis, are stepped through as one. */
  bool continues(const Axis& inner) const {
    return input == inner.input * inner.extent && output == inner.output * inner.extent;
  }
};

/** Outermost first as the output has them, and as few as there can be. */
std::vector<Axis> joinedAxesOf(const program::CopyStep& step) {
  std::vector<Axis> axes;
  for (size_t i = 0; i < step.extents.size(); ++i) {
    if (step.extents[i] != 1) axes.push_back({step.extents[i], step.inputStrides[i], step.outputStrides[i]});
  }
  std::stable_sort(axes.begin(), axes.end(),
                   [](const Axis& a, const Axis& b) { return std::abs(a.output) > std::abs(b.output); });
  std::vector<Axis> merged;
  for (const Axis& axis : axes) {
    if (!merged.empty() && merged.back().continues(axis)) {
      merged.back() = {merged.back().extent * axis.extent, axis.input, axis.output};
    } else {
      merged.push_back(axis);
    }
  }
  return merged;
}

/** Whether two neighbouring words may be moved as one, everywhere. */
bool canDouble(const std::vector<Axis>& axes, int64_t word, uintptr_t input, uintptr_t output) {
  if (axes.empty() || axes.back().input != 1 || axes.back().output != 1 || axes.back().extent % 2 != 0) return false;
  const auto twice = static_cast<uintptr_t>(2 * word);
  return input % twice == 0 && output % twice == 0 && std::all_of(axes.begin(), axes.end() - 1, [](const Axis& axis) {
           return axis.input % 2 == 0 && axis.output % 2 == 0;
         });
}

void doubleWords(std::vector<Axis>& axes) {
  axes.back().extent /= 2;
  for (Axis* axis = axes.data(); axis + 1 < axes.data() + axes.size(); ++axis) axis->input /= 2, axis->output /= 2;
}

/** Nothing where a thread for each word is as good: of smaller extents, most of a tile would be idle. */
std::optional<Transpose> transposeOf(std::vector<Axis> axes) {
  constexpr int64_t kLeastExtent = 8;
  if (axes.empty() || axes.back().output != 1 || axes.back().extent < kLeastExtent) return std::nullopt;
  const Axis columns = axes.back();
  axes.pop_back();
  const auto found = std::find_if(axes.begin(), axes.end(), [](const Axis& axis) { return axis.input == 1; });
  if (found == axes.end() || found->extent < kLeastExtent) return std::nullopt;
  const Axis rows = *found;
  axes.erase(found);

  const auto tiles = [](int64_t extent) { return (extent + Transpose::kTile - 1) / Transpose::kTile; };
  const auto narrow = [](int64_t value) { return static_cast<int>(value); };
  Transpose x{{},
              narrow(rows.extent),
              narrow(rows.output),
              narrow(columns.extent),
              narrow(columns.input),
              FastDivisor(narrow(tiles(rows.extent))),
              FastDivisor(narrow(tiles(columns.extent))),
              0};
  for (const Axis& axis : axes) x.matrices.append(axis.extent, {axis.input, axis.output});
  x.blocks = x.matrices.count * tiles(rows.extent) * tiles(columns.extent);
  return x;
}

}  // namespace

int64_t joinedAxes(const program::CopyStep& step) { return static_cast<int64_t>(joinedAxesOf(step).size()); }

CopyPlan planCopy(const program::CopyStep& step, uintptr_t input, uintptr_t output) {
  constexpr int kWidestWord = 16;
  std::vector<Axis> axes = joinedAxesOf(step);
  CopyPlan plan{static_cast<int>(step.bytes), {}, std::nullopt};
  for (; plan.word < kWidestWord && canDouble(axes, plan.word, input, output); plan.word *= 2) doubleWords(axes);
  for (const Axis& axis : axes) plan.positions.append(axis.extent, {axis.input, axis.output});
  plan.transpose = transposeOf(std::move(axes));
  return plan;
}

}  // namespace warpconv::cuda::operators
