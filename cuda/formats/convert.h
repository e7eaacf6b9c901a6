#pragma once

#include "cuda/host/device.h"
#include "problem/conv_format.h"
#include "status.h"

namespace warpconv::cuda {

/** Extents of a tensor: images, channels of each, and pixels of each channel. */
struct FormatExtents {
  int64_t n, channels, area;
};

/**
 * Enqueues a copy of a tensor in another format: `to` = `from`, rounded to the nearest, ties to even, where its type is
 * narrower; what is beyond it becomes infinite. What lies between pixels that are apart is left as it is, with one
 * exception: in an NHWC tensor whose pitch is the number of channels rounded up to 8, the channels that are missing to
 * it may be written as zeros. Nothing is written behind the last pixel's channels. The device is current.
 */
Status convertFormat(const FormatExtents& extents, const TensorFormat& fromFormat, const void* from,
                     const TensorFormat& toFormat, void* to, cudaStream_t stream);

}  // namespace warpconv::cuda
