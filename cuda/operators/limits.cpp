#include "cuda/operators/limits.h"

#include <algorithm>
#include <cstdlib>

#include "cuda/operators/copy_plan.h"
#include "cuda/operators/strided.h"
#include "cuda/planning/shape.h"

namespace warpconv::cuda::operators {
namespace {

using namespace program;

int64_t product(const std::vector<int64_t>& extents) {
  int64_t count = 1;
  for (const int64_t extent : extents) count *= extent;
  return count;
}

/** How far the strides reach, in either direction. */
int64_t reach(const std::vector<int64_t>& extents, const std::vector<int64_t>& strides) {
  int64_t last = 1;
  for (size_t axis = 0; axis < extents.size(); ++axis) {
    last += std::max<int64_t>(0, extents[axis] - 1) * std::abs(strides[axis]);
  }
  return last;
}

// Of the largest tensor that a step touches, in elements.
int64_t largest(const ConvolutionStep&) { return 0; }
int64_t largest(const MatmulStep& x) {
  std::vector<int64_t> left = x.batch, right = x.batch, output = x.batch;
  left.insert(left.end(), {x.m, x.k}), right.insert(right.end(), {x.k, x.n}), output.insert(output.end(), {x.m, x.n});
  const int64_t added = x.bias.isGiven() ? reach(output, x.biasStrides) : 0;
  return std::max({reach(left, x.leftStrides), reach(right, x.rightStrides), product(output), added});
}
int64_t largest(const ElementwiseStep& x) {
  int64_t most = product(x.extents);
  for (const auto& strides : x.strides) most = std::max(most, reach(x.extents, strides));
  return x.outputStrides.empty() ? most : std::max(most, reach(x.extents, x.outputStrides));
}
int64_t largest(const FormatStep& x) { return x.n * x.channels * x.area; }
int64_t largest(const PoolStep& x) {
  // Windows may begin and end in the padding: coordinates there must fit, too.
  const int64_t rows = x.h + x.padding[0] + x.endPadding[0] + x.r * x.dilation[0] + x.stride[0];
  const int64_t columns = x.w + x.padding[1] + x.endPadding[1] + x.s * x.dilation[1] + x.stride[1];
  return std::max({x.planes * x.h * x.w, x.planes * x.p * x.q, rows, columns});
}
int64_t largest(const ReduceStep& x) {
  return std::max(x.outer * x.reduced * std::max(x.inner, x.pitch), x.outer * x.inner);
}
int64_t largest(const SoftmaxStep& x) { return x.outer * x.reduced * x.inner; }
int64_t largest(const NormalizeStep& x) { return std::max(x.rows * x.count, x.groups * x.channels); }
int64_t largest(const LocalResponseStep& x) { return x.n * x.channels * x.inner; }
int64_t largest(const SqueezeExciteStep& x) { return x.n * x.area * std::max(x.inputPitch, x.outputPitch); }
int64_t largest(const CopyStep& x) {
  return std::max({product(x.extents), reach(x.extents, x.inputStrides), reach(x.extents, x.outputStrides)});
}
int64_t largest(const FillStep& x) { return x.count; }
int64_t largest(const GatherStep& x) { return std::max(x.outer * x.axis * x.inner, x.outer * x.count * x.inner); }
int64_t largest(const InterpolateStep& x) {
  return std::max({x.outer * x.axis * x.inner, x.outer * x.count * x.inner, x.count * x.taps});
}
int64_t largest(const MapStep& x) {
  int64_t most = product(x.extents);
  for (const auto& strides : x.strides) most = std::max(most, reach(x.extents, strides));
  return most;
}
int64_t largest(const IndexedStep& x) {
  return std::max({product(x.extents), reach(x.extents, x.valueStrides), x.dataCount, x.indexCount});
}
int64_t largest(const SortStep& x) { return x.outer * x.length * x.inner; }
int64_t largest(const ScanStep& x) { return x.outer * x.length * x.inner; }
int64_t largest(const TypedReduceStep& x) { return std::max(x.outer * x.reduced * x.inner, x.outer * x.inner); }
int64_t largest(const RoiAlignStep& x) {
  return std::max({x.n * x.channels * x.h * x.w, x.regions * x.channels * x.p * x.q, 4 * x.regions});
}
int64_t largest(const RecurrentStep& x) {
  const int64_t width = x.gateCount() * x.hidden;
  return std::max(x.steps * x.batch * width + 2 * x.batch * (x.hidden + width), width * x.hidden);
}
int64_t largest(const TypedMatmulStep& x) {
  std::vector<int64_t> left = x.batch, right = x.batch, output = x.batch;
  left.insert(left.end(), {x.m, x.k}), right.insert(right.end(), {x.k, x.n}), output.insert(output.end(), {x.m, x.n});
  return std::max({reach(left, x.leftStrides), reach(right, x.rightStrides), product(output)});
}

/** Axes of a step, and how many its kernels have room for. */
struct AxisLimit {
  int64_t axes = 0, most = 0;
  const char* which = "";
};
AxisLimit axesOf(const MatmulStep& x) {
  return {static_cast<int64_t>(x.batch.size()), Strided<1>::kMostAxes, " before the matrices"};
}
AxisLimit axesOf(const ElementwiseStep& x) {
  return {static_cast<int64_t>(x.extents.size()), ElementwiseStep::kMostAxes};
}
AxisLimit axesOf(const MapStep& x) { return {static_cast<int64_t>(x.extents.size()), Strided<3>::kMostAxes}; }
AxisLimit axesOf(const IndexedStep& x) { return {static_cast<int64_t>(x.extents.size()), Strided<3>::kMostAxes}; }
AxisLimit axesOf(const TypedMatmulStep& x) {
  return {static_cast<int64_t>(x.batch.size()), Strided<2>::kMostAxes - 2, " before the matrices"};
}
AxisLimit axesOf(const CopyStep& x) { return {joinedAxes(x), Strided<2>::kMostAxes, " that cannot be joined"}; }
template <typename Kind>
AxisLimit axesOf(const Kind&) {
  return {};
}

std::string sentence(const char* kind, const std::string& limit, const std::string& found) {
  const bool isVowel = std::string("aeio").find(kind[0]) != std::string::npos;
  return (isVowel ? "an " : "a ") + std::string(kind) + " step on a GPU takes " + limit + "; this one " + found +
         "; use device 'cpu'";
}

template <typename Kind>
std::optional<std::string> refuse(const Kind& step) {
  if (const int64_t elements = largest(step); elements > kMostElements) {
    return sentence(Kind::kKind, "tensors of at most " + std::to_string(kMostElements) + " elements",
                    "reaches over " + std::to_string(elements));
  }
  if (const AxisLimit limit = axesOf(step); limit.axes > limit.most) {
    return sentence(Kind::kKind, "at most " + std::to_string(limit.most) + " axes" + limit.which,
                    "has " + std::to_string(limit.axes));
  }
  return std::nullopt;
}

}  // namespace

std::optional<std::string> refusal(const Step& step) {
  return std::visit([](const auto& kind) { return refuse(kind); }, step);
}

}  // namespace warpconv::cuda::operators
