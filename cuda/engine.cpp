#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "cuda/algorithm.h"
#include "cuda/compare/ceilings.h"
#include "cuda/compare/contest.h"
#include "cuda/formats/conversions.h"
#include "cuda/host/pinned.h"
#include "cuda/host/queue.h"
#include "cuda/host/resident.h"
#include "cuda/program/gpu_program.h"
#include "cuda/program/gpu_store.h"
#include "cuda/tune/tune.h"
#include "gpu/gpu.h"
#include "planner/measure.h"

namespace warpconv {
namespace {

using namespace cuda;

/** A device through a queue of its own. */
class Engine final : public Gpu {
 public:
  explicit Engine(std::shared_ptr<Queue> queue) : queue_(std::move(queue)) {}

  int index() const override { return queue_->device().index(); }

  Result<std::shared_ptr<const GpuMemory>> allocate(int64_t bytes) override {
    Result<DeviceMemory> memory = queue_->device().allocate(bytes);
    if (!memory.isOk()) return memory.status();
    return std::shared_ptr<const GpuMemory>(std::make_shared<ResidentMemory>(std::move(memory.value()), index()));
  }

  Result<std::shared_ptr<const PinnedMemory>> allocatePinned(int64_t bytes) override {
    return Pinned::allocate(queue_->device(), bytes);
  }

  Result<std::shared_ptr<const PinnedMemory>> pin(void* data, int64_t bytes) override {
    return Pinned::pin(queue_->device(), data, bytes);
  }

  Status upload(const void* from, const GpuMemory& to) override { return queue_->uploadAll(from, memoryOf(to)); }

  Status download(const GpuMemory& from, void* to) override { return queue_->download(memoryOf(from), to); }

  std::string device() const override { return "cuda:" + std::to_string(index()); }

  std::vector<Candidate> candidates(const PlanProblem& asked) const override {
    std::vector<Candidate> candidates;
    const GpuRequest request = toRequest(asked);
    for (const GpuAlgorithm& algorithm : gpuAlgorithms()) {
      candidates.push_back(answer(algorithm.name, refusal(algorithm, request), asked.request,
                                  [&] { return estimateOf(algorithm, request); }));
    }
    return candidates;
  }

  Result<std::shared_ptr<const PreparedConvolution>> prepare(const std::string& algorithm, const PlanProblem& asked,
                                                             const float* weight, const float* bias) override {
    auto prepared = ResidentConvolution::prepare(queue_, gpuAlgorithm(algorithm), toRequest(asked), weight, bias);
    if (!prepared.isOk()) return prepared.status();
    return std::shared_ptr<const PreparedConvolution>(std::move(prepared.value()));
  }

  Result<std::shared_ptr<program::Store>> makeStore() override {
    return std::shared_ptr<program::Store>(std::make_shared<GpuStore>(queue_, background_));
  }

  Result<std::shared_ptr<const program::PreparedProgram>> prepareProgram(
      program::ProgramSpec spec, std::shared_ptr<program::Store> store) override {
    return prepareGpuProgram(std::move(spec), *this, std::static_pointer_cast<GpuStore>(std::move(store)));
  }

  Result<std::vector<Measurement>> measure(const PlanProblem& asked, const Cancellation* cancellation) override {
    // Whoever makes a call on the engine's own would wait as long, the event loop's thread among them.
    auto queue = Queue::create(queue_->device());
    if (!queue.isOk()) return queue.status();
    return tune(*queue.value(), measurable(asked), cancellation);
  }

  Result<ContestReport> holdContest(const Contest& contest, const PlanProblem& asked) override {
    return cuda::holdContest(*queue_, asked, contest);
  }

  Result<Ceilings> ceilings() override {
    Result<Ceilings> measured = Status{StatusCode::internal, "nothing was measured"};
    const Status ran = queue_->compute([&](cudaStream_t stream) {
      measured = measureCeilings(queue_->device(), stream);
      return Status{};
    });
    return ran.isOk() ? measured : ran;
  }

  std::vector<std::string> variants(const std::string& algorithm) const override {
    const auto all = gpuAlgorithms();
    const auto found = std::find_if(all.begin(), all.end(), [&](const auto& one) { return one.name == algorithm; });
    if (found == all.end()) return {};
    return {found->variants.begin(), found->variants.end()};
  }

 private:
  static std::optional<std::string> refusal(const GpuAlgorithm& algorithm, const GpuRequest& request) {
    const auto known = algorithm.variants;
    if (request.variant.empty() || std::find(known.begin(), known.end(), request.variant) != known.end()) {
      return refusalOf(algorithm, request);
    }
    std::string names;
    for (const std::string_view name : known) names += (names.empty() ? "" : ", ") + std::string(name);
    return "has " + (names.empty() ? "no variants" : "variants " + names) + "; options.variant is '" + request.variant +
           "'";
  }

  static const DeviceMemory& memoryOf(const GpuMemory& memory) {
    return static_cast<const ResidentMemory&>(memory).memory();
  }

  GpuRequest toRequest(const PlanProblem& asked) const {
    return {asked.problem, asked.activation, asked.request.variant, queue_->device().traits(), asked.request.precision};
  }

  const std::shared_ptr<Queue> queue_;
  const std::shared_ptr<Background> background_ = std::make_shared<Background>();
};

}  // namespace

Result<std::shared_ptr<Gpu>> openGpu(int index) {
  Result<Device*> device = Device::open(index);
  if (!device.isOk()) return device.status();
  auto queue = Queue::create(*device.value());
  if (!queue.isOk()) return queue.status();
  return std::shared_ptr<Gpu>(std::make_shared<Engine>(std::move(queue.value())));
}

int64_t gpuBytesInUse(int index) { return Device::bytesInUse(index); }

}  // namespace warpconv
