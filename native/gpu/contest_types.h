#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "problem/conv_format.h"
#include "problem/plan_request.h"
#include "status.h"

/** One convolution computed in several ways on a GPU, each judged and timed. No CUDA type appears here. */
namespace warpconv {

/** How thoroughly calls are timed. */
struct Pace {
  /** Samples of each contestant, fewer of slow ones; the first, which warms up, comes on top */
  int rounds = 11;
  /** The same with the L2 cache overwritten before every call; 0 for none */
  int coldRounds = 0;
};

/** Milliseconds of one call: a median and its quartiles. */
struct Spread {
  double median = 0;
  double lowerQuartile = 0;
  double upperQuartile = 0;
};

/** What was measured of one contestant. */
struct Timing {
  /** Calls back to back, with what they leave in the L2 cache */
  Spread warm;
  /** One call after the L2 cache was overwritten; nothing where that was not asked for or could not matter */
  std::optional<Spread> cold;
  /** Calls of one warm sample: the more, the less a launch from the CPU weighs */
  int calls = 1;
  /** Replayed as a CUDA graph, so that a launch costs what it costs inside a network */
  bool graph = false;
};

/** An algorithm of this package, and its variant or nothing. */
struct OwnEntry {
  std::string algorithm;
  std::string variant;
};

/** How a rival computes: on tensors in its layout, of 16 bits for fp16 and bf16, with sums of float32. */
struct RivalForm {
  Layout layout = Layout::nchw;
  Precision arithmetic = Precision::fp32;
};

/**
 * Of cuDNN in the contest's precision: all that its search over algorithms finds, and its heuristics propose. In
 * another one, which is for information, the first few of them.
 */
struct CudnnEntry {
  RivalForm form;
};

/**
 * Matrix products by what cuBLASLt's heuristics propose, in float32 by cuBLAS, too. In NCHW and float32 those of a
 * column matrix, the textbook's; otherwise only where the input is that matrix.
 */
struct CublasEntry {
  RivalForm form;
};

using ContestEntry = std::variant<OwnEntry, CudnnEntry, CublasEntry>;

struct Contest {
  std::vector<ContestEntry> entries;
  /** In CPU memory; null for random ones, made on the device */
  const float* input = nullptr;
  const float* weight = nullptr;
  /** File names that NVIDIA's libraries may have */
  std::vector<std::string> cudnnLibraries;
  std::vector<std::string> cublasLibraries;
  Pace pace;
};

/**
 * What came of an entry. A rival's entry proposes many, each of which is judged; the fastest few of a short heat are
 * timed like all others.
 */
struct ContestResult {
  /** Of Contest::entries */
  size_t entry = 0;
  /** How many its entry proposed */
  int proposed = 1;
  /** Why nothing was measured, or ok. What follows is then empty. */
  Status status;
  std::string algorithm;
  Timing timing;
  int64_t workspaceBytes = 0;
  /** The largest |output - exact|; NaN when an output is */
  double maxError = 0;
  /** The largest |output - exact| / (|input| * |weight|): float32 algorithms stay within 4e-6 */
  double maxRelativeError = 0;
};

struct ContestReport {
  std::vector<ContestResult> results;
  /** Empty where nothing of them was asked for, or found */
  std::string cudnnVersion;
  std::string cublasVersion;
};

/** What the device does at best, measured by kernels that do nothing else. */
struct Ceilings {
  /** Of float32 multiply-adds, counted as two operations */
  double flopsPerSecond = 0;
  /** Of a copy within device memory, read and written bytes together */
  double bytesPerSecond = 0;
  /** A cold sample of next to nothing, the clearing of a word: what events and a launch add to each */
  double eventMilliseconds = 0;
};

}  // namespace warpconv
