#include "cuda/compare/contest.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <iterator>
#include <list>
#include <optional>
#include <utility>

#include "cuda/compare/cublas.h"
#include "cuda/compare/cudnn.h"
#include "cuda/compare/oracle.h"
#include "cuda/compare/tensors.h"
#include "cuda/compare/timing.h"
#include "cuda/formats/converted.h"
#include "cuda/host/cuda_status.h"
#include "cuda/host/gpu_weights.h"
#include "cuda/host/random_floats.h"

namespace warpconv::cuda {
namespace {

// The same numbers in every run.
constexpr uint64_t kInputSeed = 1;
constexpr uint64_t kWeightSeed = 2;

class OwnConvolution final : public Contestant {
 public:
  OwnConvolution(std::string name, int64_t workspaceBytes, std::unique_ptr<GpuConvolution> convolution,
                 const ContestTensors& tensors, cudaStream_t stream)
      : name_(std::move(name)),
        workspaceBytes_(workspaceBytes),
        convolution_(std::move(convolution)),
        tensors_(tensors),
        stream_(stream) {}

  std::string algorithm() const override { return name_; }
  int64_t workspaceBytes() const override { return workspaceBytes_; }
  Status enqueue(void* workspace) const override {
    return convolution_->enqueue({tensors_.input.data(), nullptr, tensors_.output.data()}, workspace, stream_);
  }

 private:
  const std::string name_;
  const int64_t workspaceBytes_;
  const std::unique_ptr<GpuConvolution> convolution_;
  const ContestTensors& tensors_;
  const cudaStream_t stream_;
};

Result<const GpuAlgorithm*> named(const std::string& name) {
  const auto all = gpuAlgorithms();
  const auto found = std::find_if(all.begin(), all.end(), [&](const GpuAlgorithm& one) { return one.name == name; });
  if (found == all.end()) return invalidArgument("there is no algorithm '" + name + "' on a GPU");
  return &*found;
}

/** What is known of one contestant so far. */
struct Entrant {
  ContestResult result;
  TensorFormat format;
  /** Null where the entry failed before there was one */
  std::unique_ptr<Contestant> contestant;
  bool isBeaten = false;

  bool isIn() const { return result.status.isOk(); }
};

/** One contest, on one stream and thread. */
class Run {
 public:
  Run(Queue& queue, const PlanProblem& asked, const Contest& contest, cudaStream_t stream)
      : queue_(queue),
        device_(queue.device()),
        asked_(asked),
        problem_(asked.problem),
        contest_(contest),
        stream_(stream) {}

  Result<ContestReport> finish(ContestTensors plain) {
    tensors_.push_back(std::move(plain));
    Result<Oracle> oracle =
        Oracle::create(problem_, tensors().input.floats(), tensors().weight.floats(), device_, stream_);
    if (!oracle.isOk()) return oracle.status();
    for (size_t entry = 0; entry < contest_.entries.size(); ++entry) enter(entry);
    if (Status status = allocateWorkspace(); !status.isOk()) return status;
    for (Entrant& entrant : entrants_) {
      if (entrant.isIn()) judge(entrant, oracle.value());
    }
    for (size_t entry = 0; entry < contest_.entries.size(); ++entry) holdHeat(entry);
    time();
    return report();
  }

 private:
  const ContestTensors& tensors() const { return tensors_.front(); }

  void enter(size_t entry) {
    Result<Contestants> made =
        std::visit([&](const auto& one) { return contestantsFor(one); }, contest_.entries[entry]);
    const TensorFormat format = std::visit([&](const auto& one) { return formatOf(one); }, contest_.entries[entry]);
    if (!made.isOk()) {
      ContestResult result;
      result.entry = entry;
      result.status = made.status();
      entrants_.push_back({std::move(result), format, nullptr});
      return;
    }
    for (std::unique_ptr<Contestant>& contestant : made.value()) {
      ContestResult result;
      result.entry = entry;
      result.proposed = static_cast<int>(made.value().size());
      result.algorithm = contestant->algorithm();
      result.workspaceBytes = contestant->workspaceBytes();
      entrants_.push_back({std::move(result), format, std::move(contestant)});
    }
  }

  Result<Contestants> contestantsFor(const OwnEntry& entry) {
    const Result<const GpuAlgorithm*> algorithm = named(entry.algorithm);
    if (!algorithm.isOk()) return algorithm.status();
    const GpuRequest request{problem_, {}, entry.variant, device_.traits(), asked_.request.precision};
    if (auto refusal = refusalOf(*algorithm.value(), request)) return unsupported(entry.algorithm + " " + *refusal);
    const Result<const ContestTensors*> own = tensorsIn(formatOf(entry));
    if (!own.isOk()) return own.status();
    Weights forms(nullptr, problem_.k, problem_.filterSize());
    Tables tables(queue_);
    auto convolution =
        prepareConverted(*algorithm.value(), request, {forms, nullptr, queue_, tables, tensors().weight.floats()});
    if (!convolution.isOk()) return convolution.status();
    return only(std::make_unique<OwnConvolution>(entry.algorithm,
                                                 estimateOf(*algorithm.value(), request).workspaceBytes,
                                                 std::move(convolution.value()), *own.value(), stream_));
  }

  Result<Contestants> contestantsFor(const CublasEntry& entry) {
    if (!cublas_) cublas_ = Cublas::open(contest_.cublasLibraries, device_, stream_);
    if (!cublas_->isOk()) return cublas_->status();
    const Result<const ContestTensors*> tensors = tensorsIn(formatOf(entry));
    if (!tensors.isOk()) return tensors.status();
    return makeProducts({cublas_->value(), problem_, entry.form.arithmetic, *tensors.value()});
  }

  /** By the older search and by the graph interface: one may lack what the other has. */
  Result<Contestants> contestantsFor(const CudnnEntry& entry) {
    if (!cudnn_) cudnn_ = Cudnn::open(contest_.cudnnLibraries, stream_);
    if (!cudnn_->isOk()) return cudnn_->status();
    const Result<const ContestTensors*> tensors = tensorsIn(formatOf(entry));
    if (!tensors.isOk()) return tensors.status();
    const bool isCompared = entry.form.arithmetic == asked_.request.precision;
    const CudnnRequest request{cudnn_->value(), problem_, entry.form, isCompared, *tensors.value()};
    Result<Contestants> found = findCudnnAlgorithms(request, device_);
    Result<Contestants> proposed = proposeCudnnEngines(request);
    if (!proposed.isOk()) return found;
    if (!found.isOk()) return proposed;
    std::move(proposed.value().begin(), proposed.value().end(), std::back_inserter(found.value()));
    return found;
  }

  static Contestants only(std::unique_ptr<Contestant> contestant) {
    Contestants contestants;
    contestants.push_back(std::move(contestant));
    return contestants;
  }

  static TensorFormat formatOf(const CudnnEntry& entry) { return formatOf(entry.form); }
  static TensorFormat formatOf(const CublasEntry& entry) { return formatOf(entry.form); }
  static TensorFormat formatOf(const RivalForm& form) { return {typeFor(form.arithmetic), form.layout, 0}; }
  TensorFormat formatOf(const OwnEntry&) const { return problem_.format.input; }

  /** Those that there are in that format. */
  const ContestTensors* find(const TensorFormat& format) const {
    const auto found =
        std::find_if(tensors_.begin(), tensors_.end(), [&](const ContestTensors& one) { return one.format == format; });
    return found == tensors_.end() ? nullptr : &*found;
  }

  /** The operands in that format, made when they are first asked for. */
  Result<const ContestTensors*> tensorsIn(const TensorFormat& format) {
    if (const ContestTensors* const found = find(format); found != nullptr) return found;
    Result<ContestTensors> made = ContestTensors::allocate(problem_, format, device_);
    if (!made.isOk()) return made.status();
    if (Status status = convertOperands(problem_, tensors(), made.value(), stream_); !status.isOk()) return status;
    return &tensors_.emplace_back(std::move(made.value()));
  }

  /** One for all, since only one runs at a time. Whoever wants more than there is drops out. */
  Status allocateWorkspace() {
    while (true) {
      const auto largest = std::max_element(entrants_.begin(), entrants_.end(), [](const Entrant& a, const Entrant& b) {
        return a.result.workspaceBytes < b.result.workspaceBytes;
      });
      if (largest == entrants_.end()) return {};
      Result<DeviceMemory> workspace = device_.allocate(largest->result.workspaceBytes);
      if (workspace.isOk()) {
        workspace_ = std::move(workspace.value());
        return {};
      }
      largest->result.status = workspace.status();
      largest->result.workspaceBytes = 0;
    }
  }

  void judge(Entrant& entrant, const Oracle& oracle) {
    const Result<Errors> errors = judged(entrant, oracle);
    if (!errors.isOk()) {
      entrant.result.status = errors.status();
      return;
    }
    entrant.result.maxError = errors.value().absolute;
    entrant.result.maxRelativeError = errors.value().relative;
  }

  Result<Errors> judged(const Entrant& entrant, const Oracle& oracle) {
    const ContestTensors& own = *find(entrant.format);
    // All bits set are NaN in every type: what is not written shows.
    const cudaError_t error =
        cudaMemsetAsync(own.output.data(), 0xff, static_cast<size_t>(own.output.bytes()), stream_);
    if (error != cudaSuccess) return toStatus(error, "clearing the output");
    if (Status status = entrant.contestant->enqueue(workspace_.data()); !status.isOk()) return status;
    if (&own != &tensors()) {
      if (Status status = convertOutput(problem_, own, tensors(), stream_); !status.isOk()) return status;
    }
    return oracle.judge(tensors().output.floats(), device_, stream_);
  }

  /** Of an entry that proposed many, the fastest stay. */
  void holdHeat(size_t entry) {
    // A heat is short, and what rounds too much may be among the fastest.
    constexpr size_t kFinalists = 4;
    constexpr Pace kHeat{3, 0};
    std::vector<Entrant*> own;
    for (Entrant& entrant : entrants_) {
      if (entrant.result.entry == entry && entrant.isIn()) own.push_back(&entrant);
    }
    if (own.size() <= kFinalists) return;
    timeThem(own, kHeat);
    std::erase_if(own, [](const Entrant* one) { return !one->isIn(); });
    std::sort(own.begin(), own.end(), [](const Entrant* a, const Entrant* b) {
      return a->result.timing.warm.median < b->result.timing.warm.median;
    });
    for (size_t i = kFinalists; i < own.size(); ++i) own[i]->isBeaten = true;
    std::erase_if(entrants_, [](const Entrant& one) { return one.isBeaten; });
  }

  void time() {
    std::vector<Entrant*> all;
    for (Entrant& entrant : entrants_) {
      if (entrant.isIn()) all.push_back(&entrant);
    }
    timeThem(all, contest_.pace);
  }

  void timeThem(const std::vector<Entrant*>& entrants, const Pace& pace) {
    std::vector<Enqueue> calls;
    for (Entrant* const one : entrants) {
      calls.push_back([this, one] { return one->contestant->enqueue(workspace_.data()); });
    }
    const std::vector<Result<Timing>> timings = timeInTurns(calls, pace, device_, stream_);
    for (size_t i = 0; i < entrants.size(); ++i) {
      if (timings[i].isOk()) {
        entrants[i]->result.timing = timings[i].value();
      } else {
        entrants[i]->result.status = timings[i].status();
      }
    }
  }

  ContestReport report() const {
    ContestReport report;
    for (const Entrant& entrant : entrants_) report.results.push_back(entrant.result);
    if (cudnn_ && cudnn_->isOk()) report.cudnnVersion = cudnn_->value()->version();
    if (cublas_ && cublas_->isOk()) report.cublasVersion = cublas_->value()->version();
    return report;
  }

  Queue& queue_;
  Device& device_;
  const PlanProblem& asked_;
  const ConvProblem& problem_;
  const Contest& contest_;
  const cudaStream_t stream_;
  /** The first are NCHW in float32. Contestants hold references to these. */
  std::list<ContestTensors> tensors_;
  std::optional<Result<std::shared_ptr<const Cudnn>>> cudnn_;
  std::optional<Result<std::shared_ptr<const Cublas>>> cublas_;
  std::vector<Entrant> entrants_;
  DeviceMemory workspace_;
};

/** The contest's own operands, or random ones. */
Status fillOperands(Queue& queue, const Contest& contest, const ContestTensors& tensors) {
  const auto fill = [&](const float* from, const DeviceMemory& to, uint64_t seed) {
    if (from != nullptr) return queue.upload(from, to);
    return queue.compute([&](cudaStream_t stream) { return fillRandomly(to, seed, stream); });
  };
  if (Status status = fill(contest.input, tensors.input, kInputSeed); !status.isOk()) return status;
  if (Status status = fill(contest.weight, tensors.weight, kWeightSeed); !status.isOk()) return status;
  return queue.wait();
}

}  // namespace

Result<ContestReport> holdContest(Queue& queue, const PlanProblem& asked, const Contest& contest) {
  const ConvProblem& problem = asked.problem;
  const TensorFormat& input = problem.format.input;
  if (input.pitch != 0 || input != problem.format.output) {
    return unsupported("a contest takes tensors of one format, whose pixels are not apart");
  }
  Result<ContestTensors> tensors = ContestTensors::allocate(problem, {}, queue.device());
  if (!tensors.isOk()) return tensors.status();
  if (Status status = fillOperands(queue, contest, tensors.value()); !status.isOk()) return status;

  Result<ContestReport> report = Status{StatusCode::internal, "the contest did not take place"};
  Status ran = queue.compute([&](cudaStream_t stream) {
    Run run(queue, asked, contest, stream);
    report = run.finish(std::move(tensors.value()));
    // Before what the run holds is let go.
    return toStatus(cudaStreamSynchronize(stream), "holding a contest");
  });
  if (!report.isOk() || ran.isOk()) return report;
  return ran;
}

}  // namespace warpconv::cuda
