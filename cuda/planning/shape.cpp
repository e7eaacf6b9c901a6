#include "cuda/planning/shape.h"

#include <algorithm>
#include <iomanip>
#include <sstream>

namespace warpconv::cuda {

std::optional<std::string> refuseLarge(const ConvProblem& x) {
  // Windows may begin and end in the padding: coordinates there must fit, too. Their number may not fit into 64 bits.
  const auto rows = static_cast<double>(x.h + x.padding.top + x.padding.bottom);
  const auto columns = static_cast<double>(x.w + x.padding.left + x.padding.right);
  const auto elements = static_cast<double>(std::max(x.weightSize(), x.outputSize()));
  const double largest = std::max(static_cast<double>(x.n * x.c) * rows * columns, elements);
  if (largest <= kMostElements) return std::nullopt;
  std::ostringstream refusal;
  refusal << std::setprecision(15)
          << "takes tensors of at most " << kMostElements << " elements, padding counted; this problem has one of "
          << largest;
  return refusal.str();
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
