#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "backend/estimate.h"
#include "devices/cpu_info.h"
#include "executor/cancellation.h"
#include "executor/executor.h"
#include "problem/activation.h"
#include "problem/conv_problem.h"
#include "problem/sconv_switches.h"
#include "status.h"
#include "weights/weights.h"

namespace warpconv {

/** One call's tensors: dense NCHW float32. `residual` has the output's extents, or is null. */
struct ConvTensors {
  const float* input = nullptr;
  const float* residual = nullptr;
  float* output = nullptr;
};

/** Filters K x C/groups x R x S and, unless null, K biases: dense float32. */
struct ConvWeights {
  Weights& filters;
  const float* bias = nullptr;
};

/** Where a call runs and how it is told to stop. */
struct RunContext {
  /** Threads that help; null to stay on the calling one */
  Executor* executor = nullptr;
  const Cancellation* cancellation = nullptr;
  /** The widest instruction set that a network's steps may use; convolutions were prepared for one. */
  Isa isa = cpuInfo().isaLevel;

  /** A look at the cancellation, at which the call also yields to others. */
  bool isCancelled() const {
    if (executor != nullptr) executor->yield();
    return cancellation != nullptr && cancellation->isRequested();
  }
  unsigned threads() const { return executor == nullptr ? 1 : executor->threads(); }
  void parallelFor(int64_t tasks, TaskBody body, Executor::Sleepers sleepers = Executor::Sleepers::wake) const;
};

/** A convolution with its weights in the layout its algorithm wants. Immutable, so calls may overlap. */
class CpuConvolution {
 public:
  virtual ~CpuConvolution() = default;
  /** output = activation(input * weight + bias + residual); `aborted` when asked to stop, the output then unfinished.
   */
  virtual Status run(const ConvTensors& tensors, const RunContext& context) const = 0;
  /** Held besides the forms of the weights. */
  virtual int64_t bytes() const = 0;
};

/** One way to compute a convolution on the CPU. The switches are for experiments; only sconv has any. */
struct CpuAlgorithm {
  const char* name;
  /** The sentence that refuses the problem, or nothing. */
  std::optional<std::string> (*refusal)(const ConvProblem&, const sconv::Switches&);
  Estimate (*estimate)(const ConvProblem&, const CpuInfo&, const sconv::Switches&);
  /** Whether there are the forms of the weights that it takes. */
  bool (*isPacked)(const ConvProblem&, const CpuInfo&, const Weights&);
  std::unique_ptr<CpuConvolution> (*prepare)(const ConvProblem&, const Activation&, const ConvWeights&, const CpuInfo&,
                                             const sconv::Switches&);
  /** Whether products and sums of integers are those of the definition */
  bool keepsIntegers = true;
};

/** Filters as they are given. */
struct CopiedFilters {
  AlignedBuffer data;
  int64_t bytes() const { return data.bytes(); }
};

std::shared_ptr<const CopiedFilters> copiedFilters(const ConvProblem& problem, Weights& weights);
bool hasCopiedFilters(const ConvProblem& problem, const CpuInfo& cpu, const Weights& weights);

/** The biases, or zeros where there are none: K floats. */
void copyBias(const ConvProblem& problem, const ConvWeights& weights, float* dst);

}  // namespace warpconv
