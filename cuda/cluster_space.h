#pragma once

#include "cuda/host_device.h"

namespace warpconv::cuda {

/** Blocks that every device with clusters, from compute capability 9.0 on, lets one have */
inline constexpr int kMostClusterBlocks = 8;

/**
 * Floats of shared memory for sums of a tile that a cluster brings together (cluster_sums.cuh): those that a block
 * stages, `parts` times rows x pitch, and those that it receives, its share of the rows from each, rounded up.
 */
WARPCONV_HOST_DEVICE constexpr int clusterFloats(int rows, int pitch, int parts) {
  return (2 * rows + kMostClusterBlocks - 1) * pitch * parts;
}

}  // namespace warpconv::cuda
