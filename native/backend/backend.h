#pragma once

#include <memory>
#include <string>
#include <vector>

#include "backend/answer.h"
#include "backend/measurement.h"
#include "backend/prepared_convolution.h"
#include "backend/prepared_program.h"
#include "backend/program_store.h"
#include "executor/cancellation.h"
#include "problem/plan_request.h"
#include "program/program_spec.h"
#include "status.h"

namespace warpconv {

/** What computes convolutions: the CPU, or one GPU. Any thread may call it. */
class Backend {
 public:
  virtual ~Backend() = default;
  /** As callers name the device: `cpu`, `cuda:0` */
  virtual std::string device() const = 0;
  /** Every algorithm's answer, in order of preference. */
  virtual std::vector<Candidate> candidates(const PlanProblem& asked) const = 0;
  /**
   * For an algorithm that accepted. Weights K x C/groups x R x S and, unless null, K biases, in CPU memory; blocks
   * until they are no longer needed.
   */
  virtual Result<std::shared_ptr<const PreparedConvolution>> prepare(const std::string& algorithm,
                                                                     const PlanProblem& asked, const float* weight,
                                                                     const float* bias) = 0;
  /** For the programs of one network. */
  virtual Result<std::shared_ptr<program::Store>> makeStore() = 0;
  /**
   * Fails with what `choose` says of a convolution in it, or where a step is more than the device takes. Blocks.
   * `store` is one that this backend made, and may serve other calls at the same time.
   */
  virtual Result<std::shared_ptr<const program::PreparedProgram>> prepareProgram(
      program::ProgramSpec spec, std::shared_ptr<program::Store> store) = 0;
  /**
   * Times every algorithm that takes the measurable part, in its promising variants, on weights and inputs of its own:
   * what is found serves others, too. The fastest comes first; which ones are missing `compete` says. Blocks.
   */
  virtual Result<std::vector<Measurement>> measure(const PlanProblem& asked, const Cancellation* cancellation) = 0;
};

}  // namespace warpconv
