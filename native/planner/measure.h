#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "backend/measurement.h"
#include "executor/cancellation.h"
#include "problem/plan_request.h"
#include "status.h"

namespace warpconv {

/** Milliseconds of a call, or why there are none. */
using Sample = std::function<Result<double>()>;

/**
 * Medians of `rounds` samples of each, at least one, taken in turns, so that what slows the machine down for a while
 * slows all alike.
 */
Result<std::vector<double>> mediansInTurns(const std::vector<Sample>& samples, int rounds);

/** One way to compute a problem, to be timed against others. */
class Measurable {
 public:
  virtual ~Measurable() = default;
  /** Packs weights and the like; comes first, and is not timed. */
  virtual Status prepare() = 0;
  /** Milliseconds of one call. `aborted` where it can be stopped and takes longer than `limit`, or when cancelled. */
  virtual Result<double> once(double limit, const Cancellation* cancellation) = 0;
  /** Milliseconds of a call, on average of `calls` in a row, which is the same number each time. */
  virtual Result<double> sample(int calls, const Cancellation* cancellation) = 0;
};

/** A contestant, and what is known of it beforehand. */
struct Entrant {
  std::string algorithm;
  /** Of the algorithm; empty for its own choice */
  std::string variant;
  double predictedMilliseconds = 0;
  std::unique_ptr<Measurable> contestant;
};

/**
 * Times the entrants in turns, within some two seconds unless a single call of each takes longer, and returns the
 * fastest first. Missing are those that failed, for want of memory, say, or took several times as long as the fastest,
 * or many times by prediction. Fails where all have, with the first one's failure, and with `aborted` when cancelled.
 */
Result<std::vector<Measurement>> compete(std::vector<Entrant> entrants, const Cancellation* cancellation);

/**
 * The part of a problem that is measured: the convolution alone, since bias, residual and activation cost every
 * algorithm the same. Where the caller sets no limit, algorithms may try a gibibyte of scratch memory, so that a
 * measurement does not take what its process lives on.
 */
inline PlanProblem measurable(const PlanProblem& asked) {
  constexpr int64_t kMostWorkspaceBytes = int64_t{1} << 30;
  PlanProblem plain{asked.problem, {}, asked.request};
  if (!plain.request.workspaceLimit) plain.request.workspaceLimit = kMostWorkspaceBytes;
  return plain;
}

/** Numbers to compute with: random ones in [-1, 1) that repeat after some thousands. */
void fillWithNoise(float* values, int64_t count);

}  // namespace warpconv
