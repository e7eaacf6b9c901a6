#pragma once

#include <cstdint>
#include <string>

#include "cuda/pointwise/families.h"

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

/** One of the paper's choices: a layout, C_num, and blocks of a multiprocessor. No blocks in other families. */
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
  AnyTile tile;
  /** Block tiles that one block computes one after the other (Iter) */
  int iterations = 1;
  /** Blocks that share the channels of a tile; more than one in other families only */
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
  /** Whether it is the choice of the paper's planner, which knows no other family */
  bool ofPaper = false;
  Loss loss = Loss::none;
  /** Elements a thread would have; or registers or bytes that it would have to do with, where that ruled it out */
  int64_t limit = 0;

  bool isChosen() const { return loss == Loss::none; }
  /** The variant that asks for it (variants.h) */
  std::string name() const;
  /** Why it was not chosen; empty for the one that was */
  std::string lost() const;
};

}  // namespace warpconv::cuda::pointwise
