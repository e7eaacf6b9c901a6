#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "problem/conv_format.h"
#include "status.h"

namespace warpconv {

/** A height and a width: strides, dilations, filter and map extents. */
struct Extent {
  int64_t h = 1;
  int64_t w = 1;

  bool operator==(const Extent&) const = default;
};

/** Rows and columns of zeros around the input. */
struct Padding {
  int64_t top = 0;
  int64_t left = 0;
  int64_t bottom = 0;
  int64_t right = 0;

  bool operator==(const Padding&) const = default;
};

enum class PaddingMode { given, same, valid };

/** A convolution as a caller states it, nothing checked yet: dims N, C, H, W in any format, K x C/groups x R x S
 * filters. */
struct ConvRequest {
  std::array<int64_t, 4> inputDims{};
  std::array<int64_t, 4> weightDims{};
  Extent stride;
  Extent dilation;
  PaddingMode paddingMode = PaddingMode::given;
  Padding padding;
  int64_t groups = 1;
  ConvFormat format;
};

/**
 * A legal convolution (as cross-correlation), with its output extents. Made only by makeConvProblem, so whoever
 * holds one may rely on every extent, the output's included, lying between 1 and kMaxExtent, and on no tensor having
 * more than kMaxElements. Products of other extents may have no room in 64 bits: see saturatedProduct.
 */
struct ConvProblem {
  int64_t n, c, h, w;
  int64_t k, r, s;
  int64_t p, q;
  Extent stride;
  Extent dilation;
  Padding padding;
  int64_t groups;
  ConvFormat format = {};

  int64_t groupInputs() const { return c / groups; }
  int64_t groupOutputs() const { return k / groups; }
  int64_t filterSize() const { return groupInputs() * r * s; }
  int64_t inputSize() const { return n * c * h * w; }
  int64_t weightSize() const { return k * filterSize(); }
  int64_t outputSize() const { return n * k * p * q; }
  /** Elements of memory that the tensors of these formats take */
  int64_t inputSpan() const { return spanOf(format.input, n, c, h * w); }
  int64_t residualSpan() const { return spanOf(format.residual, n, k, p * q); }
  int64_t outputSpan() const { return spanOf(format.output, n, k, p * q); }
  int64_t inputBytes() const { return inputSpan() * widthOf(format.input.type); }
  int64_t residualBytes() const { return residualSpan() * widthOf(format.residual.type); }
  int64_t outputBytes() const { return outputSpan() * widthOf(format.output.type); }
  double multiplyAdds() const { return static_cast<double>(outputSize()) * static_cast<double>(filterSize()); }
  bool hasPadding() const { return padding.top > 0 || padding.left > 0 || padding.bottom > 0 || padding.right > 0; }
  std::array<int64_t, 4> outputDims() const { return {n, k, p, q}; }
  bool operator==(const ConvProblem&) const = default;
};

/** Extents, strides, dilations and paddings lie below this, so that sums of their products fit into 64 bits. */
inline constexpr int64_t kMaxExtent = (int64_t{1} << 31) - 1;

/** Elements in one tensor: 4 TiB of float32, more than a machine holds; offsets in bytes stay far from overflow. */
inline constexpr int64_t kMaxElements = int64_t{1} << 40;

/**
 * The only place in native code where output extents are computed and problems are checked:
 * P = floor((H + top + bottom - dilation * (R - 1) - 1) / stride) + 1, Q likewise.
 * 'same' gives P = ceil(H / stride), the odd row of padding below and the odd column to the right.
 * Fails with invalidArgument and a sentence that names the argument.
 */
Result<ConvProblem> makeConvProblem(const ConvRequest& request);

/** For messages and logs: `1x64x56x56 * 64x64x3x3, stride 1x1, …`. */
std::string describe(const ConvProblem& problem);

}  // namespace warpconv
