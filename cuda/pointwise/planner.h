#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "cuda/pointwise/model.h"
#include "cuda/pointwise/tiles.h"
#include "cuda/traits.h"
#include "problem/conv_problem.h"

namespace warpconv::cuda::pointwise {

/** Why a candidate was not chosen */
enum class Loss {
  none,
  halfOfLanes,
  noKernel,
  registers,
  sharedBytes,
  lowerIntensity,
  moreBlocks,
  slowerOfPaper,
  slower,
};

/** One of the paper's choices: a layout, C_num, and blocks of a multiprocessor. No blocks in the extension. */
struct PaperChoice {
  Layout layout = Layout::filtersAcrossLanes;
  int channels = 0, blocks = 0;
};

/**
 * One kernel that could compute a problem, and how it fares in the choice. Texts are made where they are asked for:
 * there are more than a hundred candidates, and a plan looks at none but one.
 */
struct Candidate {
  PaperChoice paper;
  /** Nothing where the blocking leads to no kernel */
  std::variant<std::monostate, DynamicTile, GemmTile, TensorTile, StreamTile, StreamTensorTile, WarpgroupTile,
               RowsTile, Tf32RowsTile, Bf16RowsTile>
      tile;
  /** Block tiles that one block computes one after the other (Iter) */
  int iterations = 1;
  /** Blocks that share the channels of a tile; more than one in the extension only */
  int split = 1;
  /** M_A, multiply-adds for each element that a thread copies */
  double intensity = 0;
  /** M_B, the block tiles of the whole output */
  int64_t blocks = 0;
  /** Of a thread, as planned; bytes of a block */
  int registers = 0;
  int64_t sharedBytes = 0;
  /** Predicted, with the launch */
  double milliseconds = 0;
  /** Whether it is the choice of the paper's planner, which knows nothing of the extension */
  bool ofPaper = false;
  Loss loss = Loss::none;
  /** Elements a thread would have; or registers or bytes that it would have to do with, where that ruled it out */
  int64_t limit = 0;

  bool isChosen() const { return loss == Loss::none; }
  /**
   * The variant that asks for it: layout, C_num and blocks per multiprocessor, as in L1-c8-b2; or the extension's tile
   * with its slices and its split, as in 32x64x2-s4, or tensor-32x64x2-s4 on tensor cores, stream-8x128x4 and
   * stream-tensor-32x32x8-s2 where pixels go straight to registers, and by warpgroups' products warpgroup-64x32-s8, or
   * rows-32x64x3-s8, rows-tf32-32x64x3-s8 and rows-bf16-24x64x2, of so many steps a chunk, where pixels are their rows
   */
  std::string name() const;
  /** Why it was not chosen; empty for the one that was */
  std::string lost() const;
};

/**
 * Dynamic blocking (Lu, Zhang, Wang: Optimizing Depthwise Separable Convolution Operations on GPUs): every candidate,
 * of which exactly one is chosen. The paper's candidates compete by M_A and M_B; the best of them and those of the
 * extension, by predicted time. Only for problems with 1 x 1 filters.
 */
std::vector<Candidate> planPointwise(const ConvProblem& problem, const GpuTraits& traits,
                                     const Models& models = kModels);

/** Of `pixels`, those that each of as few tiles as can be, of up to `most`, has: whole fours. */
int64_t pixelsOfTile(int64_t pixels, int most);

/**
 * How often filters of so many bytes should lie in memory, a power of two. Blocks that begin together read the same
 * filters: each line of them from one slice of the L2 cache, once for each tile of pixels. Few lines keep few slices
 * busy, and some of these with several: on an H100 the same kernel took 2.97 or 3.34 us on pw_112_16_96, by where its 6
 * KB of filters lay. So small filters lie there several times, up to so many bytes together, and tiles of pixels read
 * the copies in turns: 2.94 there, 2.07 for 2.14 to 2.28 on pw_56_144_24, 1.88 for 1.98 on pw_112_32_16. With a quarter
 * of these bytes pw_112_16_96 took 2.75 for 2.69, pw_56_64_256 3.09 for 3.04 and pw_14_384_96 2.00 for 1.98; with twice
 * as many, seventeen kernels took 0.3 % less on average.
 */
inline constexpr int64_t kMostCopiedBytes = 512 * 1024;
constexpr int copiesOf(int64_t bytes, int64_t pixelTiles) {
  int copies = 1;
  while (2 * copies * bytes <= kMostCopiedBytes && 2 * copies <= pixelTiles) copies *= 2;
  return copies;
}

/** The variant that is the paper's choice */
inline constexpr std::string_view kPaperVariant = "paper";

/** The chosen one for the empty variant, else the one of that name; nothing where it has no kernel. */
std::optional<Candidate> findCandidate(const std::vector<Candidate>& candidates, std::string_view variant);

}  // namespace warpconv::cuda::pointwise
