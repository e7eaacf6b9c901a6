#include "cuda/shape.h"

#include <algorithm>

namespace warpconv::cuda {

std::optional<std::string> refuseLarge(const ConvProblem& x) {
  // Windows may begin and end in the padding: coordinates there must fit, too.
  const int64_t rows = x.h + x.padding.top + x.padding.bottom;
  const int64_t columns = x.w + x.padding.left + x.padding.right;
  const int64_t largest = std::max({x.n * x.c * rows * columns, x.weightSize(), x.outputSize()});
  if (largest <= kMaxExtent) return std::nullopt;
  return "takes tensors of fewer than 2^31 elements, padding counted; this problem has one of " +
         std::to_string(largest);
}

Shape shapeOf(const ConvProblem& x) {
  const auto narrow = [](int64_t value) { return static_cast<int>(value); };
  return {narrow(x.n),
          narrow(x.c),
          narrow(x.h),
          narrow(x.w),
          narrow(x.k),
          narrow(x.r),
          narrow(x.s),
          narrow(x.p),
          narrow(x.q),
          narrow(x.stride.h),
          narrow(x.stride.w),
          narrow(x.dilation.h),
          narrow(x.dilation.w),
          narrow(x.padding.top),
          narrow(x.padding.left),
          narrow(x.groups),
          narrow(x.groupInputs()),
          narrow(x.groupOutputs())};
}

}  // namespace warpconv::cuda
