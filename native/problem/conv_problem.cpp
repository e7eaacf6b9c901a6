#include "problem/conv_problem.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>
#include <string>

namespace warpconv {
namespace {

std::string text(int64_t value) { return std::to_string(value); }

/** Which of a caller's dims has an extent of N, C, H and W. */
int64_t placeOf(size_t axis, Layout layout) {
  constexpr int64_t kNhwc[] = {0, 3, 1, 2};
  return layout == Layout::nhwc ? kNhwc[axis] : static_cast<int64_t>(axis);
}

Status checkDims(const char* name, std::span<const int64_t> dims, Layout layout = Layout::nchw) {
  for (size_t i = 0; i < dims.size(); ++i) {
    if (dims[i] < 1 || dims[i] > kMaxExtent) {
      return invalidArgument(std::string(name) + ".dims[" + text(placeOf(i, layout)) + "] is " + text(dims[i]) +
                             "; a convolution needs extents from 1 to " + text(kMaxExtent));
    }
  }
  return {};
}

Status checkRange(const char* name, int64_t value, int64_t lowest) {
  if (value >= lowest && value <= kMaxExtent) return {};
  return invalidArgument(std::string(name) + " is " + text(value) + "; it must lie between " + text(lowest) + " and " +
                         text(kMaxExtent));
}

Status checkElements(const char* name, std::span<const int64_t> dims) {
  int64_t elements = 1;
  for (int64_t dim : dims) {
    if (elements > kMaxElements / dim) {
      return invalidArgument(std::string(name) +
                             " would have more than 2^40 elements; split the problem along its batch");
    }
    elements *= dim;
  }
  return {};
}

Status firstFailure(std::initializer_list<Status> statuses) {
  for (const Status& status : statuses) {
    if (!status.isOk()) return status;
  }
  return {};
}

Status checkChannels(const ConvRequest& request) {
  const int64_t c = request.inputDims[1];
  const int64_t k = request.weightDims[0];
  const int64_t groups = request.groups;
  if (c % groups != 0) {
    return invalidArgument("options.groups is " + text(groups) + ", which does not divide the input's " + text(c) +
                           " channels (input.dims[" + text(placeOf(1, request.format.input.layout)) + "])");
  }
  if (k % groups != 0) {
    return invalidArgument("options.groups is " + text(groups) + ", which does not divide the " + text(k) +
                           " filters (weight.dims[0])");
  }
  if (request.weightDims[1] != c / groups) {
    return invalidArgument("weight.dims[1] is " + text(request.weightDims[1]) + "; the input has " + text(c) +
                           " channels in " + text(groups) + (groups == 1 ? " group" : " groups") + ", so it must be " +
                           text(c / groups));
  }
  return {};
}

/** Whether pixels that are apart leave room for their channels, and elements can be counted. */
Status checkFormat(const char* name, const TensorFormat& format, int64_t n, int64_t channels, int64_t area) {
  if (format.pitch == 0) return {};
  if (format.layout == Layout::nhwc && format.pitch >= channels && format.pitch <= kMaxElements / (n * area)) return {};
  return invalidArgument(std::string(name) + ".pitch is " + text(format.pitch) + "; it is 0, or in NHWC at least the " +
                         text(channels) + " channels, and leaves at most 2^40 elements");
}

/** Padding along one axis: before and after. */
struct AxisPadding {
  int64_t before;
  int64_t after;
};

AxisPadding samePadding(int64_t extent, int64_t filter, int64_t stride, int64_t dilation) {
  const int64_t outputs = (extent + stride - 1) / stride;
  const int64_t reach = (outputs - 1) * stride + dilation * (filter - 1) + 1;
  const int64_t total = std::max<int64_t>(0, reach - extent);
  return {total / 2, total - total / 2};
}

Padding resolvePadding(const ConvRequest& request) {
  if (request.paddingMode == PaddingMode::given) return request.padding;
  if (request.paddingMode == PaddingMode::valid) return {};
  const AxisPadding rows =
      samePadding(request.inputDims[2], request.weightDims[2], request.stride.h, request.dilation.h);
  const AxisPadding columns =
      samePadding(request.inputDims[3], request.weightDims[3], request.stride.w, request.dilation.w);
  return {rows.before, columns.before, rows.after, columns.after};
}

Status checkSamePadding(const char* axis, int64_t most, int64_t filter, int64_t dilation) {
  if (most <= kMaxExtent) return {};
  return invalidArgument(std::string("options.padding 'same' would be ") + text(most) + " " + axis +
                         " on one side of the input, for a filter of " + text(filter) + " " + axis + " at dilation " +
                         text(dilation) + "; it can be at most " + text(kMaxExtent) +
                         ": use a smaller filter or dilation");
}

/** Given padding has been checked with the rest of the request. */
Status checkResolved(const Padding& padding, const ConvRequest& request) {
  // The odd row is below and the odd column to the right.
  return firstFailure({checkSamePadding("rows", padding.bottom, request.weightDims[2], request.dilation.h),
                       checkSamePadding("columns", padding.right, request.weightDims[3], request.dilation.w)});
}

/** Windows along one axis; 0 or less when not one fits. */
int64_t outputExtent(int64_t extent, AxisPadding padding, int64_t filter, int64_t stride, int64_t dilation) {
  const int64_t slack = extent + padding.before + padding.after - dilation * (filter - 1) - 1;
  return slack < 0 ? 0 : slack / stride + 1;
}

Status checkOutputExtent(const char* axis, int64_t windows, AxisPadding padding, int64_t stride) {
  if (windows <= kMaxExtent) return {};
  return invalidArgument("the output would have " + text(windows) + " " + axis + " with padding " +
                         text(padding.before) + " + " + text(padding.after) + " at stride " + text(stride) +
                         "; it can have at most " + text(kMaxExtent) +
                         ": use less of options.padding or a larger options.stride");
}

std::string emptyOutput(const char* axis, int64_t extent, AxisPadding padding, int64_t filter, int64_t dilation) {
  return std::string("the output would be empty: a filter of ") + text(filter) + " " + axis + " at dilation " +
         text(dilation) + " spans more than the input's " + text(extent) + " " + axis + " plus padding " +
         text(padding.before) + " + " + text(padding.after) + "; enlarge input or options.padding";
}

Status checkRequest(const ConvRequest& request) {
  const Status ranges = firstFailure({
      checkDims("input", request.inputDims, request.format.input.layout),
      checkDims("weight", request.weightDims),
      checkRange("options.stride[0]", request.stride.h, 1),
      checkRange("options.stride[1]", request.stride.w, 1),
      checkRange("options.dilation[0]", request.dilation.h, 1),
      checkRange("options.dilation[1]", request.dilation.w, 1),
      checkRange("options.padding[0]", request.padding.top, 0),
      checkRange("options.padding[1]", request.padding.left, 0),
      checkRange("options.padding[2]", request.padding.bottom, 0),
      checkRange("options.padding[3]", request.padding.right, 0),
      checkRange("options.groups", request.groups, 1),
  });
  return ranges.isOk() ? checkChannels(request) : ranges;
}

}  // namespace

Result<ConvProblem> makeConvProblem(const ConvRequest& request) {
  if (Status status = checkRequest(request); !status.isOk()) return status;
  const auto& [n, c, h, w] = request.inputDims;
  const auto& [k, groupInputs, r, s] = request.weightDims;
  const Padding padding = resolvePadding(request);
  if (Status status = checkResolved(padding, request); !status.isOk()) return status;
  const AxisPadding rows{padding.top, padding.bottom};
  const AxisPadding columns{padding.left, padding.right};
  const int64_t p = outputExtent(h, rows, r, request.stride.h, request.dilation.h);
  const int64_t q = outputExtent(w, columns, s, request.stride.w, request.dilation.w);
  if (p < 1) return invalidArgument(emptyOutput("rows", h, rows, r, request.dilation.h));
  if (q < 1) return invalidArgument(emptyOutput("columns", w, columns, s, request.dilation.w));
  const Status extents = firstFailure({checkOutputExtent("rows", p, rows, request.stride.h),
                                       checkOutputExtent("columns", q, columns, request.stride.w)});
  if (!extents.isOk()) return extents;

  const std::array<int64_t, 4> outputDims{n, k, p, q};
  const Status sizes =
      firstFailure({checkElements("input", request.inputDims), checkElements("weight", request.weightDims),
                    checkElements("the output", outputDims)});
  if (!sizes.isOk()) return sizes;
  const Status formats = firstFailure({checkFormat("options.format.input", request.format.input, n, c, h * w),
                                       checkFormat("options.format.residual", request.format.residual, n, k, p * q),
                                       checkFormat("options.format.output", request.format.output, n, k, p * q)});
  if (!formats.isOk()) return formats;
  return ConvProblem{.n = n,
                     .c = c,
                     .h = h,
                     .w = w,
                     .k = k,
                     .r = r,
                     .s = s,
                     .p = p,
                     .q = q,
                     .stride = request.stride,
                     .dilation = request.dilation,
                     .padding = padding,
                     .groups = request.groups,
                     .format = request.format};
}

std::string describe(const ConvProblem& x) {
  const auto times = [](std::initializer_list<int64_t> extents) {
    std::string joined;
    for (int64_t extent : extents) joined += (joined.empty() ? "" : "x") + text(extent);
    return joined;
  };
  return times({x.n, x.c, x.h, x.w}) + " * " + times({x.k, x.groupInputs(), x.r, x.s}) + ", stride " +
         times({x.stride.h, x.stride.w}) + ", padding " + text(x.padding.top) + "," + text(x.padding.left) + "," +
         text(x.padding.bottom) + "," + text(x.padding.right) + ", dilation " + times({x.dilation.h, x.dilation.w}) +
         ", groups " + text(x.groups);
}

}  // namespace warpconv
