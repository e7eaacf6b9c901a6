#include "cpu/cpu_backend.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "cpu/cpu_algorithm_list.h"
#include "cpu/cpu_program.h"
#include "cpu/formats/formats.h"
#include "divide.h"
#include "memory/aligned_buffer.h"
#include "planner/measure.h"

namespace warpconv {
namespace {

class PreparedOnCpu final : public PreparedConvolution {
 public:
  /** `formBytes` are those of the weights' forms that nobody else has. */
  PreparedOnCpu(Executor& executor, const ConvProblem& problem, std::unique_ptr<CpuConvolution> convolution,
                int64_t formBytes)
      : executor_(executor), problem_(problem), convolution_(std::move(convolution)), formBytes_(formBytes) {}

  Status run(const Operands& operands, const Cancellation* cancellation) const override {
    return runFormatted(*convolution_, problem_, {operands.input.host, operands.residual.host, operands.output.host},
                        {&executor_, cancellation});
  }
  bool canEnqueue(const Operands&) const override { return false; }
  Status enqueue(const Operands&, std::function<void(Status)>) const override {
    return {StatusCode::internal, "the CPU has no queue of its own"};
  }
  int64_t bytes() const override { return formBytes_ + convolution_->bytes(); }

 private:
  Executor& executor_;
  const ConvProblem problem_;
  const std::unique_ptr<CpuConvolution> convolution_;
  const int64_t formBytes_;
};

/** What all contestants read and, one after the other, write. */
struct Arena {
  AlignedBuffer input;
  AlignedBuffer weight;
  AlignedBuffer output;

  explicit Arena(const ConvProblem& x)
      : input(floatsFor(x.inputBytes())), weight(x.weightSize()), output(floatsFor(x.outputBytes())) {
    fillWithNoise(weight.data(), weight.elements());
    AlignedBuffer plain(x.inputSize());
    fillWithNoise(plain.data(), plain.elements());
    fromPlain(x.format.input, x.n, x.c, x.h * x.w, plain.data(), input.data(), {});
  }
  static int64_t floatsFor(int64_t bytes) { return ceilDivide(bytes, sizeof(float)); }
  Operands operands() { return {.input = {input.data(), {}}, .residual = {}, .output = {output.data(), {}}}; }
};

/** Other clients' calls have their turns between what is timed, not within. */
class CpuMeasurable final : public Measurable {
 public:
  CpuMeasurable(CpuBackend& backend, Executor& executor, std::string algorithm, const PlanProblem& asked, Arena& arena)
      : backend_(backend), executor_(executor), algorithm_(std::move(algorithm)), asked_(asked), arena_(arena) {}

  Status prepare() override {
    return callToStatus([&] {
      auto prepared = backend_.prepare(algorithm_, asked_, arena_.weight.data(), nullptr);
      if (prepared.isOk()) prepared_ = std::move(prepared.value());
      return prepared.isOk() ? Status{} : prepared.status();
    });
  }

  Result<double> once(double limit, const Cancellation* cancellation) override {
    // More would overflow the clock's integers.
    constexpr double kLongest = 1e9;
    const std::chrono::duration<double, std::milli> longest(std::min(limit, kLongest));
    executor_.yield();
    const Cancellation limited(cancellation, Clock::now() + std::chrono::duration_cast<Clock::duration>(longest));
    return time(1, &limited);
  }

  Result<double> sample(int calls, const Cancellation* cancellation) override {
    executor_.yield();
    return time(calls, cancellation);
  }

 private:
  using Clock = Cancellation::Clock;

  Result<double> time(int calls, const Cancellation* cancellation) {
    const Executor::Undisturbed undisturbed;
    const Operands operands = arena_.operands();
    const Clock::time_point begin = Clock::now();
    for (int call = 0; call < calls; ++call) {
      Status status = callToStatus([&] { return prepared_->run(operands, cancellation); });
      if (!status.isOk()) return status;
    }
    return std::chrono::duration<double, std::milli>(Clock::now() - begin).count() / calls;
  }

  CpuBackend& backend_;
  Executor& executor_;
  const std::string algorithm_;
  const PlanProblem& asked_;
  Arena& arena_;
  std::shared_ptr<const PreparedConvolution> prepared_;
};

}  // namespace

std::vector<Candidate> CpuBackend::candidates(const PlanProblem& asked) const {
  return listCandidates(asked.problem, asked.request, cpu_);
}

Result<std::shared_ptr<const PreparedConvolution>> CpuBackend::prepare(const std::string& algorithm,
                                                                       const PlanProblem& asked, const float* weight,
                                                                       const float* bias) {
  Weights weights(weight, asked.problem.k, asked.problem.filterSize());
  std::unique_ptr<CpuConvolution> convolution = prepareConvolution(algorithm, asked, weights, bias);
  return std::shared_ptr<const PreparedConvolution>(
      std::make_shared<PreparedOnCpu>(executor_, asked.problem, std::move(convolution), weights.bytes()));
}

Result<std::shared_ptr<const PreparedConvolution>> CpuBackend::prepare(const std::string& algorithm,
                                                                       const PlanProblem& asked, Weights& weights,
                                                                       const float* bias) const {
  return std::shared_ptr<const PreparedConvolution>(std::make_shared<PreparedOnCpu>(
      executor_, asked.problem, prepareConvolution(algorithm, asked, weights, bias), 0));
}

std::unique_ptr<CpuConvolution> CpuBackend::prepareConvolution(const std::string& algorithm, const PlanProblem& asked,
                                                               Weights& weights, const float* bias) const {
  return cpuAlgorithm(algorithm).prepare(plainProblem(asked.problem), asked.activation, {weights, bias}, cpu_,
                                         asked.request.switches);
}

bool CpuBackend::isPacked(const std::string& algorithm, const PlanProblem& asked, const Weights& weights) const {
  return cpuAlgorithm(algorithm).isPacked(plainProblem(asked.problem), cpu_, weights);
}

Result<std::shared_ptr<program::Store>> CpuBackend::makeStore() {
  return std::shared_ptr<program::Store>(std::make_shared<CpuStore>());
}

Result<std::shared_ptr<const program::PreparedProgram>> CpuBackend::prepareProgram(
    program::ProgramSpec spec, std::shared_ptr<program::Store> store) {
  return prepareCpuProgram(std::move(spec), *this, std::static_pointer_cast<CpuStore>(std::move(store)), executor_);
}

Result<std::vector<Measurement>> CpuBackend::measure(const PlanProblem& asked, const Cancellation* cancellation) {
  const PlanProblem plain = measurable(asked);
  Arena arena(plain.problem);
  std::vector<Entrant> entrants;
  for (const Candidate& candidate : candidates(plain)) {
    if (!candidate.accepts()) continue;
    entrants.push_back({candidate.algorithm, "", candidate.estimate.milliseconds,
                        std::make_unique<CpuMeasurable>(*this, executor_, candidate.algorithm, plain, arena)});
  }
  return compete(std::move(entrants), cancellation);
}

}  // namespace warpconv
