#pragma once

#include <cuda_runtime_api.h>

#include <functional>
#include <optional>
#include <vector>

#include "cuda/device.h"
#include "status.h"

namespace warpconv::cuda {

/** Enqueues one call on the stream that it was made for. */
using Enqueue = std::function<Status()>;

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
  /**
   * One call after the L2 cache was overwritten; nothing where that was not asked for or could not matter. What two
   * events take themselves is in it (`eventMilliseconds`).
   */
  std::optional<Spread> cold;
  /** Calls of one warm sample: the more, the less a launch from the CPU weighs */
  int calls = 1;
  /** Replayed as a CUDA graph, so that a launch costs what it costs inside a network */
  bool graph = false;
};

/** Not empty. */
Spread spreadOf(std::vector<double> samples);

/**
 * Times every contestant on `stream` in turns, the first one changing from round to round. Each has its own result: one
 * that fails leaves the others alone. All have run before, so that nothing is loaded or allocated any more, and whoever
 * calls holds the stream. Blocks.
 */
std::vector<Result<Timing>> timeInTurns(const std::vector<Enqueue>& contestants, const Pace& pace, Device& device,
                                        cudaStream_t stream);

/** What a cold sample of next to nothing, the clearing of a word, shows: how much of the others is events and launch.
 */
Result<double> eventMilliseconds(Device& device, cudaStream_t stream);

}  // namespace warpconv::cuda
