#include "cuda/program/program.h"

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

#include "cuda/algorithm.h"
#include "cuda/cuda_status.h"
#include "cuda/direct/direct.h"
#include "cuda/marks.h"
#include "cuda/operators/limits.h"
#include "cuda/operators/operators.h"
#include "cuda/program/actions.h"
#include "cuda/program/ports.h"
#include "cuda/resident.h"
#include "program/indices.h"

namespace warpconv::cuda {
namespace {

using namespace program;
using operators::WrongIndex;

bool isConstant(const Buffer& buffer) { return buffer.space == Buffer::Space::constant || !buffer.isGiven(); }

/** Gathers the constants among the buffers of steps. */
class ConstantFinder {
 public:
  void operator()(const Buffer& buffer) {
    if (buffer.space == Buffer::Space::constant) found_.insert(static_cast<size_t>(buffer.index));
  }
  void operator()(const char*, Buffer& buffer) { (*this)(buffer); }
  void operator()(const char*, std::vector<Buffer>& buffers) {
    for (const Buffer& buffer : buffers) (*this)(buffer);
  }
  template <typename Other>
  void operator()(const char*, Other&) {}

  const std::set<size_t>& found() const { return found_; }

 private:
  std::set<size_t> found_;
};

class GpuProgram final : public PreparedProgram {
 public:
  GpuProgram(ProgramSpec spec, std::shared_ptr<Queue> queue) : queue_(std::move(queue)), spec_(std::move(spec)) {}

  Status prepare(const Backend& backend) {
    const Status prepared = build(backend);
    // Copies may still be writing to what is given back where something failed.
    const Status waited = queue_->wait();
    return prepared.isOk() ? waited : prepared;
  }

  Status run(const Tensors& tensors, const Cancellation* cancellation,
             std::vector<double>* milliseconds) const override {
    const PortsPool::Lease ports = ports_.take();
    const Status status = runIn(*ports, tensors, cancellation, milliseconds);
    // Copies and kernels may still be using what is about to be given back.
    if (!status.isOk()) (void)queue_->wait();
    return status;
  }

  const std::vector<Candidate>& choices() const override { return choices_; }
  int64_t bytes() const override { return bytes_; }

 private:
  Status build(const Backend& backend) {
    if (Status status = queue_->device().makeCurrent(); !status.isOk()) return status;
    ConstantFinder constants;
    std::vector<Step> steps = std::move(spec_.steps);
    for (Step& step : steps) {
      if (const auto reason = operators::refusal(step)) return unsupported(*reason);
      const Status status = std::visit([&](auto& kind) { return add(kind, backend, constants); }, step);
      if (!status.isOk()) return status;
    }
    if (Status status = bringConstants(constants.found()); !status.isOk()) return status;
    if (Status status = allocate(spec_.arenaBytes, arena_); !status.isOk()) return status;
    if (Status status = allocate(workspaceBytes_, workspace_); !status.isOk()) return status;
    for (int i = 0; i < kPorts; ++i) {
      if (Status status = addPorts(); !status.isOk()) return status;
    }
    return {};
  }

  static constexpr int kPorts = 2;

  template <typename Kind>
  Status add(Kind& step, const Backend&, ConstantFinder& constants) {
    step.fields(constants);
    choices_.emplace_back();
    return addAction(step);
  }

  template <typename Kind>
  Status addAction(const Kind& step) {
    actions_.push_back(toAction(step));
    return {};
  }

  Status addAction(const MatmulStep& x) {
    actions_.push_back(
        [x, multiprocessors = queue_->device().traits().multiprocessors](const Site& site, cudaStream_t stream) {
          const Memory& m = site.memory;
          return operators::matmul(x, m.read(x.left), m.read(x.right), m.read(x.bias), m.write(x.output),
                                   multiprocessors, stream);
        });
    return {};
  }

  /** Indices that are constant are checked once; a network with a wrong one fails when it runs, as on the CPU. */
  Status addAction(const GatherStep& x) {
    if (isConstant(x.indices)) {
      const Status checked = checkIndices(x, hostConstants().read<int64_t>(x.indices));
      actions_.push_back([x, checked](const Site& site, cudaStream_t stream) {
        return checked.isOk() ? enqueueGather(x, site, stream) : checked;
      });
      return {};
    }
    const size_t report = checkedGathers_.size();
    checkedGathers_.push_back(x);
    actions_.push_back([x, report](const Site& site, cudaStream_t stream) {
      const auto* indices = site.memory.read<int64_t>(x.indices);
      const Status status = operators::findWrongIndex(x, indices, site.wrongIndices + report, stream);
      return status.isOk() ? enqueueGather(x, site, stream) : status;
    });
    return {};
  }

  Status addAction(const InterpolateStep& x) {
    const std::vector<int32_t> positions(x.positions.begin(), x.positions.end());
    const std::vector<float> weights(x.weights.begin(), x.weights.end());
    auto places = keep(positions.data(), positions.size() * sizeof(int32_t));
    if (!places.isOk()) return places.status();
    auto factors = keep(weights.data(), weights.size() * sizeof(float));
    if (!factors.isOk()) return factors.status();
    actions_.push_back([x, places = static_cast<const int32_t*>(places.value()),
                        factors = static_cast<const float*>(factors.value())](const Site& site, cudaStream_t stream) {
      return operators::interpolate(x, places, factors, site.memory.read(x.input), site.memory.write(x.output), stream);
    });
    return {};
  }

  Status add(ConvolutionStep& step, const Backend& backend, ConstantFinder& constants) {
    const bool isPrepared = isConstant(step.weight) && isConstant(step.bias);
    constants(step.input), constants(step.residual);
    PlanProblem asked{step.problem, step.activation, step.request};
    // Weights that a run brings are used as they are, which only the direct algorithm does.
    const bool isOpen = asked.request.algorithm == "auto" || asked.request.algorithm == "tune";
    if (!isPrepared && isOpen) asked.request.algorithm = kDirect.name;
    std::vector<Candidate> candidates = backend.candidates(asked);
    const Result<size_t> chosen = choose(candidates, asked.request, backend.device());
    if (!chosen.isOk()) return chosen.status();
    Candidate& choice = candidates[chosen.value()];
    if (!isPrepared && choice.algorithm != kDirect.name) {
      return unsupported("algorithm '" + choice.algorithm +
                         "' on a GPU takes weights and biases that are constants of " + "the network; '" +
                         kDirect.name + "' takes those that are brought or computed by a run");
    }
    if (!isPrepared) {
      constants(step.weight), constants(step.bias);
      actions_.push_back([step](const Site& site, cudaStream_t stream) {
        const Memory& m = site.memory;
        return launchDirect(step.problem, step.activation, tensorsOf(step, m), m.read(step.weight), m.read(step.bias),
                            stream);
      });
    } else if (Status status = addPrepared(step, choice.algorithm); !status.isOk()) {
      return status;
    }
    choices_.push_back(std::move(choice));
    return {};
  }

  Status addPrepared(const ConvolutionStep& step, const std::string& algorithm) {
    const GpuRequest request{step.problem, step.activation, step.request.variant, queue_->device().traits()};
    const Memory host = hostConstants();
    Result<PlacedConvolution> placed =
        placeConvolution(*queue_, gpuAlgorithm(algorithm), request, host.read(step.weight), host.read(step.bias));
    if (!placed.isOk()) return placed.status();
    const std::shared_ptr<const GpuConvolution> convolution = std::move(placed.value().convolution);
    bytes_ += convolution->bytes();
    workspaceBytes_ = std::max(workspaceBytes_, placed.value().workspaceBytes);
    actions_.push_back([this, step, convolution](const Site& site, cudaStream_t stream) {
      return convolution->enqueue(tensorsOf(step, site.memory), workspace_.data(), stream);
    });
    return {};
  }

  static GpuTensors tensorsOf(const ConvolutionStep& step, const Memory& m) {
    return {m.read(step.input), m.read(step.residual), m.write(step.output)};
  }

  Memory hostConstants() const { return {{}, spec_.constants, nullptr}; }

  Status allocate(int64_t bytes, DeviceMemory& memory) {
    Result<DeviceMemory> allocated = queue_->device().allocate(bytes);
    if (!allocated.isOk()) return allocated.status();
    memory = std::move(allocated.value());
    bytes_ += bytes;
    return {};
  }

  /** The address of a copy on the device that lives as long as the program. */
  Result<const void*> keep(const void* from, size_t bytes) {
    Result<DeviceMemory> copy = copyToDevice(*queue_, from, static_cast<int64_t>(bytes));
    if (!copy.isOk()) return copy.status();
    kept_.push_back(std::move(copy.value()));
    bytes_ += kept_.back().bytes();
    return static_cast<const void*>(kept_.back().data());
  }

  Status bringConstants(const std::set<size_t>& indices) {
    constants_.resize(spec_.constants.size());
    for (const size_t index : indices) {
      const auto kept = keep(spec_.constants[index], static_cast<size_t>(spec_.constantBytes[index]));
      if (!kept.isOk()) return kept.status();
      constants_[index] = kept.value();
    }
    return {};
  }

  Status addPorts() {
    auto ports = std::make_unique<Ports>();
    for (const int64_t bytes : spec_.inputBytes) {
      if (Status status = allocate(bytes, ports->inputs.emplace_back()); !status.isOk()) return status;
      ports->inputAddresses.push_back(ports->inputs.back().data());
    }
    for (const int64_t bytes : spec_.outputBytes) {
      if (Status status = allocate(bytes, ports->outputs.emplace_back()); !status.isOk()) return status;
      ports->outputAddresses.push_back(ports->outputs.back().data());
    }
    const auto reportBytes = static_cast<int64_t>(checkedGathers_.size() * sizeof(WrongIndex));
    if (Status status = allocate(reportBytes, ports->wrongIndices); !status.isOk()) return status;
    ports_.add(std::move(ports));
    return {};
  }

  Status runIn(Ports& ports, const Tensors& tensors, const Cancellation* cancellation,
               std::vector<double>* milliseconds) const {
    for (size_t i = 0; i < ports.inputs.size(); ++i) {
      if (ports.inputs[i].bytes() == 0) continue;
      const GpuMemory* const resident = tensors.residentInputs.empty() ? nullptr : tensors.residentInputs[i].get();
      const Status status = resident == nullptr ? queue_->upload(tensors.inputs[i], ports.inputs[i])
                                                : copyWithin(*resident, ports.inputs[i]);
      if (!status.isOk()) return status;
    }
    if (cancellation != nullptr && cancellation->isRequested()) return stoppedWhileRunning();
    const Status launched = milliseconds == nullptr ? launch(ports) : profile(ports, *milliseconds);
    if (!launched.isOk()) return launched;
    ports.hasRun = true;
    if (Status status = checkGathers(ports); !status.isOk()) return status;
    bool isAwaited = false;
    for (size_t i = 0; i < ports.outputs.size(); ++i) {
      if (ports.outputs[i].bytes() == 0) continue;
      if (Status status = queue_->download(ports.outputs[i], tensors.outputs[i]); !status.isOk()) return status;
      isAwaited = true;
    }
    return isAwaited ? Status{} : queue_->wait();
  }

  /** All memory of a GPU is made by its engine. */
  Status copyWithin(const GpuMemory& from, const DeviceMemory& to) const {
    const void* const source = static_cast<const ResidentMemory&>(from).memory().data();
    return queue_->compute([&](cudaStream_t stream) {
      return toStatus(
          cudaMemcpyAsync(to.data(), source, static_cast<size_t>(to.bytes()), cudaMemcpyDeviceToDevice, stream),
          "copying an input within the GPU");
    });
  }

  Status launch(Ports& ports) const {
    if (ports.hasRun && !ports.hasCaptured) {
      ports.graph = captured(ports);
      ports.hasCaptured = true;
    }
    return queue_->compute([&](cudaStream_t stream) {
      return ports.graph.isGiven() ? ports.graph.launch(stream) : enqueueAll(ports, stream);
    });
  }

  /** None where something cannot be captured; then every run launches its kernels one by one. */
  Graph captured(const Ports& ports) const {
    if (!queue_->device().makeCurrent().isOk()) return {};
    // A stream of its own: others go on enqueueing on that of the queue.
    cudaStream_t stream = nullptr;
    const cudaError_t created = cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
    if (!toStatus(created, "creating a stream").isOk()) return {};
    Graph graph = Graph::captured([&] { return enqueueAll(ports, stream); }, stream);
    (void)cudaStreamDestroy(stream);
    return graph;
  }

  Status enqueueAll(const Ports& ports, cudaStream_t stream) const {
    const Site site = siteOf(ports);
    for (const Action& action : actions_) {
      if (Status status = action(site, stream); !status.isOk()) return status;
    }
    return {};
  }

  Status profile(const Ports& ports, std::vector<double>& milliseconds) const {
    const Site site = siteOf(ports);
    Marks marks;
    const Status enqueued = queue_->compute([&](cudaStream_t stream) {
      Status status = marks.set(stream);
      for (size_t i = 0; i < actions_.size() && status.isOk(); ++i) {
        status = actions_[i](site, stream);
        if (status.isOk()) status = marks.set(stream);
      }
      return status;
    });
    if (!enqueued.isOk()) return enqueued;
    Result<std::vector<double>> times = marks.times();
    if (!times.isOk()) return times.status();
    milliseconds = std::move(times.value());
    return {};
  }

  Site siteOf(const Ports& ports) const {
    return {Memory({ports.inputAddresses, ports.outputAddresses}, constants_, arena_.data()),
            static_cast<WrongIndex*>(ports.wrongIndices.data())};
  }

  Status checkGathers(const Ports& ports) const {
    if (checkedGathers_.empty()) return {};
    std::vector<WrongIndex> reports(checkedGathers_.size());
    if (Status status = queue_->download(ports.wrongIndices, reports.data()); !status.isOk()) return status;
    for (size_t i = 0; i < reports.size(); ++i) {
      if (reports[i].place >= 0) return wrongIndex(checkedGathers_[i], reports[i].place, reports[i].index);
    }
    return {};
  }

  const std::shared_ptr<Queue> queue_;
  ProgramSpec spec_;
  std::vector<Action> actions_;
  std::vector<Candidate> choices_;
  /** Those whose indices a run brings or computes; each reports what it finds wrong */
  std::vector<GatherStep> checkedGathers_;
  /** Constants and tables, and where each constant is; null for those that no step reads on the device */
  std::vector<DeviceMemory> kept_;
  std::vector<const void*> constants_;
  DeviceMemory arena_;
  /** For all convolutions, of which one runs at a time */
  DeviceMemory workspace_;
  int64_t workspaceBytes_ = 0;
  int64_t bytes_ = 0;
  mutable PortsPool ports_;
};

}  // namespace

Result<std::shared_ptr<const PreparedProgram>> prepareGpuProgram(ProgramSpec spec, const Backend& backend,
                                                                 std::shared_ptr<Queue> queue) {
  auto made = std::make_shared<GpuProgram>(std::move(spec), std::move(queue));
  if (Status status = made->prepare(backend); !status.isOk()) return status;
  return std::shared_ptr<const PreparedProgram>(std::move(made));
}

}  // namespace warpconv::cuda
