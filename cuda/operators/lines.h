#pragma once

#include <algorithm>
#include <cstdint>

#include "cuda/kernel/fast_divisor.h"
#include "host_device.h"

namespace warpconv::cuda::operators {

/**
 * How blocks share the lines of a tensor [outer, length, inner] along its middle axis. A block of lanes * workers *
 * rows threads owns `lanes` neighbouring lines, by their place in `inner`, of each of `rows` places in `outer`;
 * `workers` threads share each line, worker w having the elements w, w + workers, … of it. Thread t is lane t % lanes
 * and worker t / lanes % workers of row t / (lanes * workers): neighbouring threads read neighbouring elements,
 * whatever `inner` is.
 */
struct Lines {
  static constexpr int kLeastThreads = 256, kMostThreads = 1024;

  int outer, length, inner;
  /** Powers of two */
  int lanes, workers, rows;
  /** Groups of lanes that `inner` has */
  FastDivisor tiles;
  int blocks;

  int threads() const { return lanes * workers * rows; }

  /** Where a thread's line begins and which worker it is; `exists` is false beyond the last line. */
  struct Place {
    bool exists;
    int row, column;
    int worker;
  };

  WARPCONV_HOST_DEVICE Place place(int block, int thread) const {
    const int lane = thread & (lanes - 1);
    const int worker = thread / lanes & (workers - 1);
    int tile = block * rows + thread / (lanes * workers);
    // tile = tile % tiles, row = tile / tiles
    const int row = tiles.divide(tile);
    const int column = tile * lanes + lane;
    return {row < outer && column < inner, row, column, worker};
  }
};

/** For at least one line. */
inline Lines shareLines(int64_t outer, int64_t length, int64_t inner) {
  const auto powerOfTwo = [](int64_t least, int64_t most) {
    int power = 1;
    while (power < least && power < most) power *= 2;
    return power;
  };
  constexpr int kWarp = 32;
  // A thread with fewer elements of its own would spend its time adding up what others have.
  constexpr int kElements = 16;
  Lines x{static_cast<int>(outer), static_cast<int>(length), static_cast<int>(inner), 0, 0, 0, FastDivisor(), 0};
  x.lanes = powerOfTwo(inner, kWarp);
  const int64_t coalescing = std::min<int64_t>(length, kWarp / x.lanes);
  x.workers = powerOfTwo(std::max(coalescing, length / kElements), Lines::kMostThreads / x.lanes);
  const int64_t tiles = (inner + x.lanes - 1) / x.lanes;
  x.rows = std::max(1, Lines::kLeastThreads / (x.lanes * x.workers));
  x.tiles = FastDivisor(static_cast<int>(tiles));
  x.blocks = static_cast<int>((outer * tiles + x.rows - 1) / x.rows);
  return x;
}

}  // namespace warpconv::cuda::operators
