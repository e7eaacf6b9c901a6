#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "backend/answer.h"
#include "backend/measurement.h"
#include "backend/operands.h"
#include "backend/prepared_program.h"
#include "backend/program_store.h"
#include "executor/cancellation.h"
#include "problem/plan_request.h"
#include "program/program_spec.h"
#include "status.h"

namespace warpconv {

/** A convolution with its weights where its device wants them. Immutable, so calls may overlap. */
class Prepared {
 public:
  virtual ~Prepared() = default;
  /** Blocks until the output is complete; `aborted` when asked to stop, the output then unfinished. */
  virtual Status run(const Operands& operands, const Cancellation* cancellation) const = 0;
  /** Whether `enqueue` takes these operands. */
  virtual bool canEnqueue(const Operands& operands) const = 0;
  /**
   * Starts the call without blocking or allocating. `done` is called once, on any thread, when the output is complete
   * or the call has failed; not where this fails itself. The caller keeps the operands and this until then.
   */
  virtual Status enqueue(const Operands& operands, std::function<void(Status)> done) const = 0;
  /** Memory held: packed weights, biases and, on a GPU, scratch memory. */
  virtual int64_t bytes() const = 0;
};

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
  virtual Result<std::shared_ptr<const Prepared>> prepare(const std::string& algorithm, const PlanProblem& asked,
                                                          const float* weight, const float* bias) = 0;
  /** For the programs of one network. */
  virtual Result<std::shared_ptr<program::Store>> makeStore() = 0;
  /**
   * Fails with what `choose` says of a convolution in it, or where a step is more than the device takes. Blocks. `store`
   * is one that this backend made, and may serve other calls at the same time.
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
