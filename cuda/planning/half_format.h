#pragma once

#include "cuda/algorithm.h"

namespace warpconv::cuda {

/**
 * The format of algorithms that compute with 16-bit floats in NHWC: that of the request, where kernels take its tensors
 * as they are, or else as they would. The input is of its own type, or of what the precision lets products be
 * of; where neither is of 16 bits it is the request's format, which such algorithms refuse. Residual and output are of
 * that type, or of float32 where another is asked for, lest they are rounded twice or beyond its range. Pixels lie a
 * multiple of `elements` apart.
 */
ConvFormat halfFormat(const GpuRequest& request, int64_t elements);

/** The same for an input of `type`, of which there are kernels whatever the input's own is. */
ConvFormat pixelsFormat(const ConvProblem& problem, FloatType type, int64_t elements);

inline bool isHalf(FloatType type) { return type != FloatType::float32; }

/** Elements from one pixel to the next of an NHWC tensor. */
inline int64_t pitchOf(const TensorFormat& format, int64_t channels) {
  return format.pitch == 0 ? channels : format.pitch;
}

}  // namespace warpconv::cuda
