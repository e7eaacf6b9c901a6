#pragma once

#include <cstdint>
#include <vector>

#include "program/steps.h"

namespace warpconv::program {

/** A compiled network for inputs of fixed extents. */
struct ProgramSpec {
  /** In the order in which they run */
  std::vector<Step> steps;
  /** In CPU memory, on boundaries of their elements; the caller keeps them as long as the program */
  std::vector<const void*> constants;
  /** Those that the caller keeps, and leaves as they are, as long as the store, so that programs share what is made of
   * them */
  std::vector<bool> sharedConstants;
  /** Bytes of each constant, input and output */
  std::vector<int64_t> constantBytes, inputBytes, outputBytes;
  /** Scratch memory of one run */
  int64_t arenaBytes = 0;
};

}  // namespace warpconv::program
