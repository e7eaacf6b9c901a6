#include "cpu/cpu_backend.h"

#include <utility>

#include "cpu/cpu_program.h"

namespace warpconv {
namespace {

class PreparedOnCpu final : public Prepared {
 public:
  PreparedOnCpu(Executor& executor, std::unique_ptr<PreparedConvolution> convolution)
      : executor_(executor), convolution_(std::move(convolution)) {}

  Status run(const Operands& operands, const Cancellation* cancellation) const override {
    return convolution_->run({operands.input.host, operands.residual.host, operands.output.host},
                             {&executor_, cancellation});
  }
  bool canEnqueue(const Operands&) const override { return false; }
  Status enqueue(const Operands&, std::function<void(Status)>) const override {
    return {StatusCode::internal, "the CPU has no queue of its own"};
  }
  int64_t bytes() const override { return convolution_->bytes(); }

 private:
  Executor& executor_;
  const std::unique_ptr<PreparedConvolution> convolution_;
};

}  // namespace

std::vector<Candidate> CpuBackend::candidates(const PlanProblem& asked) const {
  return listCandidates(asked.problem, asked.request, cpu_);
}

Result<std::shared_ptr<const Prepared>> CpuBackend::prepare(const std::string& algorithm, const PlanProblem& asked,
                                                            const float* weight, const float* bias) {
  return std::shared_ptr<const Prepared>(std::make_shared<PreparedOnCpu>(
      executor_,
      cpuAlgorithm(algorithm).prepare(asked.problem, asked.activation, {weight, bias}, cpu_, asked.request.switches)));
}

Result<std::shared_ptr<const program::PreparedProgram>> CpuBackend::prepareProgram(program::ProgramSpec spec) {
  return prepareCpuProgram(std::move(spec), *this, executor_);
}

}  // namespace warpconv
