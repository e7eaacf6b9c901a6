#pragma once

#include "host_device.h"

namespace warpconv::cuda {

/**
 * Shared memory of each of `blocks` blocks that exchange sums (sum_exchange.cuh): of `threads` threads with `pieces`
 * pieces of `width` floats each, and room for as many pieces as any block finishes.
 */
WARPCONV_HOST_DEVICE constexpr int exchangedBytes(int pieces, int width, int threads, int blocks) {
  return (pieces + blocks - 1) / blocks * blocks * 4 * width * threads;
}

}  // namespace warpconv::cuda
