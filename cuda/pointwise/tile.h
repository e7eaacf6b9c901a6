#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <string_view>

#include "backend/tiles.h"
#include "host_device.h"
#include "cuda/planning/traits.h"

namespace warpconv::cuda::pointwise {

/**
 * A family of kernels is a type of tile; its values are the kernels that there are. What a planner and a launch have to
 * know of a family its type says (a new one goes into the list in families.h):
 *
 *   kFamily          its name, and where its filters come from
 *   kernels()        the tiles for which kernels are compiled, in the order in which they are offered
 *   isFor(matrix, traits)            whether it is for the problem and the device at all
 *   takes(channels, blockChannels)   whether there is room for so many channels
 *   sizes()          what its variants are named by
 *   patch()          the outputs of a block
 *   threads(), registers()           of a block, and of a thread, as planned
 *   residentBlocks   blocks of a multiprocessor that the registers leave room for; a member or a function
 *   sharedBytes()    of a block, 0 for none; may take (channels), (channels, split) or (channels, split, aligned)
 *   offsetBytes()    shared memory for offsets of pixels, beside that
 *   unitChannels()   what a block's channels are a multiple of
 *   mayBeSplit(split)                whether blocks may share channels
 *   stepChannels()   what counts as a step where they do
 *   Model, defaultModel()            the constants of its prediction (model.h, with constantsOf(Model&))
 *   predict(matrix, candidate, traits, model)  milliseconds (tile.cpp)
 *   describe(candidate)              what explain() shows of it
 *   kernel(given)    the compiled one (kernels.cu); it may ignore parts of the case
 *   operator==       by which kernels.cu finds it
 */

/** Where a block's filters come from. */
enum class FilterSource {
  /** Transposed ones, step by step, usually through stages of shared memory */
  stages,
  /** Transposed ones, of all of the block's channels at once; blocks read copies of small ones in turns */
  whole,
  /** Likewise, but split into the parts that warpgroups multiply (HalvesLayout); tiles of pixels are of even size */
  parts,
};

struct Family {
  /** What names of variants begin with; empty where they begin with sizes */
  std::string_view name;
  FilterSource filters;

  constexpr bool isStreamed() const { return filters != FilterSource::stages; }
};

/** Outputs of a block */
struct Patch {
  int filters, pixels;
};

/** The numbers of a variant's name: filters, pixels, and how channels are cut, with 0 for none. */
struct NameSizes {
  int filters, pixels, cut;
};

struct Arguments;
struct Candidate;
struct GemmModel;
struct Matrix;

using Kernel = void (*)(Arguments);

/** What a kernel is compiled for. */
struct KernelCase {
  /** Blocks of a cluster that share a tile's channels: 1, 2, 4 or 8 */
  int split;
  /** Of a block */
  int64_t channels;
  /** Arguments::aligned. A kernel without it takes any case. */
  bool aligned;
  /**
   * isBounded. A kernel without it takes any case. In kernels of a few microseconds even skipped instructions cost
   * fetch time, so the common case is compiled separately.
   */
  bool bounded;
};

inline constexpr int kWarpSize = 32;

/** Registers per thread under `__launch_bounds__(threads, residentBlocks)`, rounded down to the allocation unit. */
constexpr int registersFor(int residentBlocks, int threads) {
  const int registers = 65536 / (residentBlocks * threads) / 8 * 8;
  return registers < 255 ? registers : 255;
}

/** Of `channels` that `split` blocks share, those of a block, in whole units of so many. */
constexpr int64_t channelsOfBlock(int64_t channels, int unit, int split) {
  const int64_t units = (channels + unit - 1) / unit;
  return (units + split - 1) / split * unit;
}

/**
 * Shared memory that blocks of streaming kernels may have: one of the next kernel's fits beside it. Half of 228 KB,
 * less the 1 KB that the system takes and 2 KB for what a kernel has in fixed places.
 */
inline constexpr int64_t kMostStreamedBytes = 111 * 1024;

/** Blocks of a multiprocessor that the kernel's registers leave room for. */
template <typename Tile>
constexpr int residentBlocksOf(const Tile& tile) {
  if constexpr (requires { tile.residentBlocks(); }) {
    return tile.residentBlocks();
  } else {
    return tile.residentBlocks;
  }
}

/** Shared memory that each block takes besides its own, from compute capability 8.0 on. */
inline constexpr int64_t kReservedBytes = 1024;

/** Blocks of a tile with so much shared memory that a multiprocessor holds. */
template <typename Tile>
int64_t blocksHeld(const Tile& tile, int64_t sharedBytes, const GpuTraits& traits) {
  const int64_t byShared = traits.sharedBytesPerMultiprocessor / (sharedBytes + kReservedBytes);
  return std::clamp<int64_t>(byShared, 1, residentBlocksOf(tile));
}

/**
 * Of shared memory, of a block of any tile that has so many channels, of `split` that share them. `aligned`: as
 * Arguments says.
 */
template <typename Tile>
constexpr int64_t sharedBytesFor(const Tile& tile, int64_t channels, int split, bool aligned) {
  if constexpr (requires { tile.sharedBytes(channels, split, aligned); }) {
    return tile.sharedBytes(channels, split, aligned);
  } else if constexpr (requires { tile.sharedBytes(channels, split); }) {
    return tile.sharedBytes(channels, split);
  } else if constexpr (requires { tile.sharedBytes(channels); }) {
    return tile.sharedBytes(channels);
  } else {
    return tile.sharedBytes();
  }
}

}  // namespace warpconv::cuda::pointwise
