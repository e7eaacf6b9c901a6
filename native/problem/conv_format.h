#pragma once

#include <cstdint>

namespace warpconv {

/** Of elements in memory. Sums are made in float32, or more exactly, whatever it is. */
enum class FloatType { float32, float16, bfloat16 };

constexpr int64_t widthOf(FloatType type) { return type == FloatType::float32 ? 4 : 2; }

/** Maps one after the other, or the channels of a pixel next to each other. */
enum class Layout { nchw, nhwc };

/** How a tensor of four axes lies in memory. */
struct TensorFormat {
  FloatType type = FloatType::float32;
  Layout layout = Layout::nchw;
  /** In NHWC, elements from one pixel to the next where that is more than its channels; 0 where it is not */
  int64_t pitch = 0;

  bool operator==(const TensorFormat&) const = default;
};

/** Elements from the first of a tensor to behind its last: what lies between pixels that are apart is not touched. */
constexpr int64_t spanOf(const TensorFormat& format, int64_t n, int64_t channels, int64_t area) {
  return format.pitch == 0 ? n * channels * area : (n * area - 1) * format.pitch + channels;
}

/** How the tensors of a convolution lie in memory. Filters, factors and biases are float32, K x C/groups x R x S. */
struct ConvFormat {
  TensorFormat input, residual, output;

  /** What every algorithm takes: float32 in NCHW */
  bool isPlain() const { return *this == ConvFormat{}; }
  bool operator==(const ConvFormat&) const = default;
};

}  // namespace warpconv
