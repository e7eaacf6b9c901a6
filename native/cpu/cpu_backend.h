#pragma once

#include <memory>

#include "backend/backend.h"
#include "cpu/algorithm/cpu_algorithm.h"

namespace warpconv {

/** The CPU as `cpu` describes it, with the threads of an executor, which must outlive every call. */
class CpuBackend final : public Backend {
 public:
  CpuBackend(Executor& executor, CpuInfo cpu) : executor_(executor), cpu_(std::move(cpu)) {}

  /** The widest instruction set that may be used */
  Isa isa() const { return cpu_.isaLevel; }

  std::string device() const override { return "cpu"; }
  std::vector<Candidate> candidates(const PlanProblem& asked) const override;
  Result<std::shared_ptr<const PreparedConvolution>> prepare(const std::string& algorithm, const PlanProblem& asked,
                                                             const float* weight, const float* bias) override;
  /** The same for weights whose forms may be shared; unless null, K biases. */
  Result<std::shared_ptr<const PreparedConvolution>> prepare(const std::string& algorithm, const PlanProblem& asked,
                                                             Weights& weights, const float* bias) const;
  /** Whether that would take no memory but for a few numbers. */
  bool isPacked(const std::string& algorithm, const PlanProblem& asked, const Weights& weights) const;
  Result<std::shared_ptr<program::Store>> makeStore() override;
  Result<std::shared_ptr<const program::PreparedProgram>> prepareProgram(
      program::ProgramSpec spec, std::shared_ptr<program::Store> store) override;
  Result<std::vector<Measurement>> measure(const PlanProblem& asked, const Cancellation* cancellation) override;

 private:
  std::unique_ptr<CpuConvolution> prepareConvolution(const std::string& algorithm, const PlanProblem& asked,
                                                     Weights& weights, const float* bias) const;

  Executor& executor_;
  const CpuInfo cpu_;
};

}  // namespace warpconv
