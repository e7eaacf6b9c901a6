#pragma once

#include <cuda.h>

#include <cstdint>

namespace warpconv::cuda {

// Copies of boxes of tensors to shared memory by the copy engine, from compute capability 9.0 on: see phase_barrier.cuh
// for the barriers that they tell of it.

/** Tells the copy engine of a map that a copy will soon be by. */
__device__ inline void prefetchMap([[maybe_unused]] const CUtensorMap& map) {
#if __CUDA_ARCH__ >= 900
  asm volatile("prefetch.tensormap [%0];" ::"l"(&map) : "memory");
#endif
}

/** The first pixel's place in the input that a tap reads for it, less what the tap adds to it */
struct WindowPlace {
  int n, h, w;
};

/**
 * Of a map in im2col mode: channels from `c` on of the elements that a tap, `row` and `column` after a window's first
 * element, has in adjacent windows.
 */
__device__ inline void copyWindows([[maybe_unused]] uint32_t shared, [[maybe_unused]] const CUtensorMap& map,
                                   [[maybe_unused]] const WindowPlace& place, [[maybe_unused]] int c,
                                   [[maybe_unused]] int row, [[maybe_unused]] int column,
                                   [[maybe_unused]] uint32_t barrier) {
#if __CUDA_ARCH__ >= 900
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes "
      "[%0], [%1, {%2, %3, %4, %5}], [%6], {%7, %8};" ::"r"(shared),
      "l"(&map), "r"(c), "r"(place.w), "r"(place.h), "r"(place.n), "r"(barrier), "h"(static_cast<uint16_t>(column)),
      "h"(static_cast<uint16_t>(row))
      : "memory");
#endif
}

/** Of a map of rows in tiled mode: the box that begins at this row and column, zeros where there is nothing. */
__device__ inline void copyBox([[maybe_unused]] uint32_t shared, [[maybe_unused]] const CUtensorMap& map,
                               [[maybe_unused]] int row, [[maybe_unused]] int column,
                               [[maybe_unused]] uint32_t barrier) {
#if __CUDA_ARCH__ >= 900
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
      "[%0], [%1, {%2, %3}], [%4];" ::"r"(shared),
      "l"(&map), "r"(column), "r"(row), "r"(barrier)
      : "memory");
#endif
}

/** The other way, of what the tensor has of the box; see commitStores. */
__device__ inline void storeBox([[maybe_unused]] const CUtensorMap& map, [[maybe_unused]] int row,
                                [[maybe_unused]] int column, [[maybe_unused]] uint32_t shared) {
#if __CUDA_ARCH__ >= 900
  asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%0, {%1, %2}], [%3];" ::"l"(&map),
               "r"(column), "r"(row), "r"(shared)
               : "memory");
#endif
}

/** Of this thread, all that it has begun. */
__device__ inline void commitStores() {
#if __CUDA_ARCH__ >= 900
  asm volatile("cp.async.bulk.commit_group;" ::: "memory");
#endif
}

/** Until shared memory that this thread has committed stores from, but for the last kRunning times, may be written. */
template <int kRunning = 0>
__device__ inline void waitForStoresToRead() {
#if __CUDA_ARCH__ >= 900
  asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(kRunning) : "memory");
#endif
}

}  // namespace warpconv::cuda
