#pragma once

#include <cuda.h>

#include "problem/conv_problem.h"
#include "status.h"

namespace warpconv::cuda::implicit {

/**
 * The map by which the copy engine finds a problem's windows in its input: `channels` of them, of `pixels` adjacent
 * windows, as rows of 128 bytes that are swizzled; float32 is rounded to TF32. By the driver's own function, which is
 * looked up when it is first needed.
 */
Status mapWindows(const ConvProblem& problem, const void* input, int channels, int pixels, CUtensorMap& map);

/** A tensor in NHWC as rows, one for each pixel of all images. */
struct PixelRows {
  FloatType type;
  int64_t pixels, channels;
};

/** The map of boxes of 64 rows by `columns`, 128 or 64 bytes, that are swizzled; rows are `pitch` elements apart. */
Status mapBoxes(const PixelRows& rows, int64_t pitch, const void* tensor, int columns, CUtensorMap& map);

}  // namespace warpconv::cuda::implicit
