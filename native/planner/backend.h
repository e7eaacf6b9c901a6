#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "executor/cancellation.h"
#include "planner/measure.h"
#include "planner/planner.h"
#include "problem/activation.h"
#include "problem/conv_problem.h"
#include "program/program.h"
#include "program/store.h"
#include "status.h"

namespace warpconv {

/** Elements in a GPU's memory. Let go of it when no call uses it any more, and not on a thread of the driver. */
class GpuMemory {
 public:
  virtual ~GpuMemory() = default;
  virtual int64_t bytes() const = 0;
  /** The number N of `cuda:N` */
  virtual int device() const = 0;
};

/** A tensor's elements: in CPU memory, or on a GPU where `resident` is set. Both are null for no tensor. */
struct Operand {
  float* host = nullptr;
  std::shared_ptr<const GpuMemory> resident;
};

struct Operands {
  Operand input;
  Operand residual;
  Operand output;

  /** Nothing has to be copied to a GPU. */
  bool areResident() const { return input.host == nullptr && residual.host == nullptr && output.host == nullptr; }
};

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

/** What is asked of a device. */
struct PlanProblem {
  ConvProblem problem;
  Activation activation;
  PlanRequest request;

  bool operator==(const PlanProblem&) const = default;
};

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

/** What a backend answers to the problems of one network. Each is asked once: most layers are like another one. */
class KnownCandidates {
 public:
  explicit KnownCandidates(const Backend& backend) : backend_(backend) {}

  std::string device() const { return backend_.device(); }

  /** Valid as long as this */
  const std::vector<Candidate>& of(const PlanProblem& asked) {
    for (const auto& [problem, candidates] : known_) {
      if (problem == asked) return candidates;
    }
    return known_.emplace_back(asked, backend_.candidates(asked)).second;
  }

 private:
  const Backend& backend_;
  std::deque<std::pair<PlanProblem, std::vector<Candidate>>> known_;
};

}  // namespace warpconv
