#include "cuda/program/gpu_program.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <mutex>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "cuda/algorithm.h"
#include "cuda/direct/direct.h"
#include "cuda/formats/converted.h"
#include "cuda/host/cuda_status.h"
#include "cuda/host/expected_time.h"
#include "cuda/host/own_stream.h"
#include "cuda/host/resident.h"
#include "cuda/host/stream_timer.h"
#include "cuda/operators/limits.h"
#include "cuda/operators/operators.h"
#include "cuda/planning/packed_choice.h"
#include "cuda/program/actions.h"
#include "cuda/program/run_graph.h"
#include "divide.h"
#include "planner/choose.h"
#include "planner/known_candidates.h"
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
  template <typename Other>
  void optional(const char*, Other&) {}

  const std::set<size_t>& found() const { return found_; }

 private:
  std::set<size_t> found_;
};

/** Positions and weights of a resize, as its kernel has them. */
struct Interpolation {
  explicit Interpolation(const InterpolateStep& x)
      : positions(x.positions.begin(), x.positions.end()), weights(x.weights.begin(), x.weights.end()) {}

  template <typename T>
  static HostBytes bytesOf(const std::vector<T>& values) {
    return {values.data(), static_cast<int64_t>(values.size() * sizeof(T))};
  }

  std::vector<int32_t> positions;
  std::vector<float> weights;
};

/** Where a program's inputs, outputs and reports lie from the beginning of its ports. */
struct PortsLayout {
  std::vector<int64_t> inputs, outputs;
  int64_t reports = 0;
  int64_t bytes = 0;

  int64_t add(int64_t portBytes) {
    const int64_t offset = bytes;
    bytes += roundUp(portBytes, DeviceMemory::kAlignment);
    return offset;
  }
};

/** Where a run has its tensors, in blocks of these numbers. */
struct Place {
  std::vector<const void*> inputs;
  std::vector<void*> outputs;
  void* arena;
  void* workspace;
  WrongIndex* wrongIndices;
  size_t set;
  bool isAlone;
  uint64_t arenaNumber, portsNumber;
};

void* at(const Block& block, int64_t offset) {
  // A block of no bytes has no address.
  return block.memory.data() == nullptr ? nullptr : static_cast<char*>(block.memory.data()) + offset;
}

class GpuProgram final : public PreparedProgram {
 public:
  GpuProgram(ProgramSpec spec, std::shared_ptr<GpuStore> store)
      : store_(std::move(store)), queue_(*store_->queue), spec_(std::move(spec)) {}

  ~GpuProgram() override {
    isEnding_ = true;
    store_->background->forget(this);
  }

  Status prepare(const Backend& backend) {
    if (Status status = queue_.device().makeCurrent(); !status.isOk()) return status;
    std::vector<Step> steps = std::move(spec_.steps);
    if (Status status = bringConstants(steps); !status.isOk()) return status;
    KnownCandidates candidates(backend);
    for (Step& step : steps) {
      const Status status = std::visit([&](auto& kind) { return add(kind, candidates); }, step);
      if (!status.isOk()) return status;
    }
    layOut();
    // Had now, so that a network for which there is no room is refused here.
    const Result<Scratch::Lease> lease = store_->scratch.take(scratchBytes_);
    return lease.isOk() ? Status{} : lease.status();
  }

  Status run(const Tensors& tensors, const Cancellation* cancellation,
             std::vector<double>* milliseconds) const override {
    const Result<Scratch::Lease> lease = store_->scratch.take(scratchBytes_);
    if (!lease.isOk()) return lease.status();
    const Place place = placeIn(lease.value());
    const Status status = runIn(place, tensors, cancellation, milliseconds);
    if (status.isOk()) {
      captureLater(place);
    } else {
      // Copies and kernels may still be using what is about to be given back.
      (void)queue_.wait();
    }
    return status;
  }

  const std::vector<Candidate>& choices() const override { return choices_; }
  int64_t bytes() const override { return bytes_; }

 private:
  /** To the device: constants that steps read there, and tables of resizes. */
  Status bringConstants(std::vector<Step>& steps) {
    ConstantFinder constants;
    std::vector<Interpolation> interpolations;
    for (Step& step : steps) {
      if (const auto reason = operators::refusal(step)) return unsupported(*reason);
      std::visit([&](auto& kind) { find(kind, constants); }, step);
      if (const auto* resize = std::get_if<InterpolateStep>(&step)) interpolations.emplace_back(*resize);
    }
    std::vector<size_t> sharedIndices, ownIndices;
    std::vector<HostBytes> shared, own;
    for (const size_t index : constants.found()) {
      (isShared(index) ? sharedIndices : ownIndices).push_back(index);
      (isShared(index) ? shared : own).push_back({spec_.constants[index], spec_.constantBytes[index]});
    }
    for (const Interpolation& one : interpolations) {
      own.push_back(Interpolation::bytesOf(one.positions));
      own.push_back(Interpolation::bytesOf(one.weights));
    }
    Result<PlacedConstants> placed = store_->constants.place(shared);
    if (!placed.isOk()) return placed.status();
    std::vector<const void*> ownAddresses;
    Result<DeviceMemory> block = bringTogether(queue_, own, ownAddresses);
    if (!block.isOk()) return block.status();

    constants_.resize(spec_.constants.size());
    for (size_t i = 0; i < shared.size(); ++i) constants_[sharedIndices[i]] = placed.value().addresses[i];
    for (size_t i = 0; i < ownIndices.size(); ++i) constants_[ownIndices[i]] = ownAddresses[i];
    interpolations_.assign(ownAddresses.begin() + static_cast<ptrdiff_t>(ownIndices.size()), ownAddresses.end());
    sharedBlocks_ = std::move(placed.value().blocks);
    ownBlock_ = std::move(block.value());
    bytes_ += ownBlock_.bytes();
    return {};
  }

  template <typename Kind>
  static void find(Kind& step, ConstantFinder& constants) {
    step.fields(constants);
  }
  /** Filters that are constant come in the form that their algorithm takes. */
  static void find(ConvolutionStep& step, ConstantFinder& constants) {
    constants(step.input), constants(step.bias), constants(step.residual);
  }

  bool isShared(size_t index) const { return index < spec_.sharedConstants.size() && spec_.sharedConstants[index]; }

  template <typename Kind>
  Status add(Kind& step, KnownCandidates&) {
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
        [x, multiprocessors = queue_.device().traits().multiprocessors](const Site& site, cudaStream_t stream) {
          const Memory& m = site.memory;
          return operators::matmul(x, m.read(x.left), m.read(x.right), m.read(x.bias), m.write(x.output),
                                   multiprocessors, stream);
        });
    return {};
  }

  Status addAction(const RecurrentStep& x) {
    actions_.push_back(
        [x, multiprocessors = queue_.device().traits().multiprocessors](const Site& site, cudaStream_t stream) {
          const Memory& m = site.memory;
          const operators::RecurrentTensors tensors{
              m.read(x.gates),         m.read(x.recurrent),   m.read(x.productBias),      m.read(x.peepholes),
              m.read(x.initialHidden), m.read(x.initialCell), m.read<int32_t>(x.lengths), m.write(x.output)};
          return operators::recurrent(x, tensors, multiprocessors, stream);
        });
    return {};
  }

  /** Indices that are constant are checked once; a network with a wrong one fails when it runs, as on the CPU. */
  Status addAction(const GatherStep& x) { return addIndexed(x); }
  Status addAction(const IndexedStep& x) { return addIndexed(x); }
  Status addAction(const RoiAlignStep& x) { return addIndexed(x); }

  template <typename Kind>
  Status addIndexed(const Kind& x) {
    const CheckedIndices checked = checkedIndices(x);
    if (isConstant(checked.indices)) {
      const Status status = checkIndices(checked, hostConstants().read<int64_t>(checked.indices));
      actions_.push_back([x, status](const Site& site, cudaStream_t stream) {
        return status.isOk() ? enqueueIndexed(x, site, stream) : status;
      });
      return {};
    }
    const size_t report = checkedIndices_.size();
    checkedIndices_.push_back(checked);
    actions_.push_back([x, checked, report](const Site& site, cudaStream_t stream) {
      const auto* indices = site.memory.read<int64_t>(checked.indices);
      const Status status = operators::findWrongIndex(checked, indices, site.wrongIndices + report, stream);
      return status.isOk() ? enqueueIndexed(x, site, stream) : status;
    });
    return {};
  }

  Status addAction(const InterpolateStep& x) {
    const auto* const positions = static_cast<const int32_t*>(interpolations_[2 * interpolationsAdded_]);
    const auto* const weights = static_cast<const float*>(interpolations_[2 * interpolationsAdded_ + 1]);
    ++interpolationsAdded_;
    actions_.push_back([x, positions, weights](const Site& site, cudaStream_t stream) {
      const Memory& m = site.memory;
      return x.type == FloatType::float32
                 ? operators::interpolate(x, positions, weights, m.read(x.input), m.write(x.output), stream)
                 : operators::interpolateHalves(x, positions, weights, m.read<void>(x.input), m.write<void>(x.output),
                                                stream);
    });
    return {};
  }

  Status add(ConvolutionStep& step, KnownCandidates& known) {
    const bool isPrepared = isConstant(step.weight) && isConstant(step.bias);
    PlanProblem asked{step.problem, step.activation, step.request};
    // Weights that a run brings are used as they are, which only the direct algorithm does.
    const bool isOpen = asked.request.algorithm == "auto" || asked.request.algorithm == "tune";
    if (!isPrepared && isOpen) asked.request.algorithm = kDirect.name;
    const std::vector<Candidate>& candidates = known.of(asked);
    const Result<size_t> chosen = choose(candidates, asked.request, known.device());
    if (!chosen.isOk()) return chosen.status();
    if (isPrepared) return addPrepared(step, candidates, chosen.value());
    const Candidate& choice = candidates[chosen.value()];
    if (choice.algorithm != kDirect.name) {
      return unsupported("algorithm '" + choice.algorithm +
                         "' on a GPU takes weights and biases that are constants of the network; '" + kDirect.name +
                         "' takes those that are brought or computed by a run");
    }
    choices_.push_back(choice);
    return addUnprepared(step);
  }

  Status addPrepared(const ConvolutionStep& step, const std::vector<Candidate>& candidates, size_t fastest) {
    GpuRequest request{step.problem, step.activation, step.request.variant, queue_.device().traits(),
                       step.request.precision};
    const WeightsOfStep weights(*this, step);
    PackedChoice choice = choosePacked(gpuAlgorithms(), candidates, fastest, step.request, request, weights.filters());
    request.variant = choice.variant;
    Result<PlacedConvolution> placed =
        placeConvolution(gpuAlgorithms()[choice.algorithm], request, weights.onDevice(deviceConstants()));
    if (!placed.isOk()) return placed.status();
    const std::shared_ptr<const GpuConvolution> convolution = std::move(placed.value().convolution);
    if (Status status = convolution->load(step.residual.isGiven()); !status.isOk()) return status;
    bytes_ += weights.ownBytes();
    workspaceBytes_ = std::max(workspaceBytes_, placed.value().workspaceBytes);
    choices_.push_back(std::move(choice.candidate));
    actions_.push_back([step, convolution](const Site& site, cudaStream_t stream) {
      return convolution->enqueue(tensorsOf(step, site.memory), site.workspace, stream);
    });
    return {};
  }

  /** By the direct algorithm, with filters or biases that each run brings or computes. */
  Status addUnprepared(const ConvolutionStep& step) {
    std::shared_ptr<const DeviceFilters> filters;
    if (isConstant(step.weight)) {
      const WeightsOfStep weights(*this, step);
      auto given = givenFilters(weights.onDevice(deviceConstants()), step.problem);
      if (!given.isOk()) return given.status();
      filters = std::move(given.value());
      bytes_ += weights.ownBytes();
    }
    const Conversions conversions = conversionsTo({}, step.problem);
    workspaceBytes_ = std::max(workspaceBytes_, conversions.bytes);
    actions_.push_back([step, filters, conversions](const Site& site, cudaStream_t stream) {
      const Memory& m = site.memory;
      const float* const weight = filters == nullptr ? m.read(step.weight) : filters->floats();
      const auto compute = [&](const GpuTensors& tensors, void*) {
        return launchDirect(step.problem, step.activation, floatsOf(tensors), weight, m.read(step.bias), stream);
      };
      return enqueueConverted(conversions, tensorsOf(step, m), site.workspace, stream, compute);
    });
    return {};
  }

  /** The filters of a convolution: of the store, where they are there as long as it, or else the program's own. */
  class WeightsOfStep {
   public:
    WeightsOfStep(const GpuProgram& program, const ConvolutionStep& step)
        : store_(*program.store_),
          bias_(step.bias),
          isShared_(program.isShared(static_cast<size_t>(step.weight.index))) {
      const Memory host = program.hostConstants();
      const ConvProblem& x = step.problem;
      std::span<const float> factors;
      if (step.scale.isGiven()) factors = {host.read(step.scale), static_cast<size_t>(x.k)};
      const float* const given = host.read(step.weight);
      filters_ = isShared_ ? store_.weights.of(given, x.k, x.filterSize(), factors)
                           : std::make_shared<Weights>(given, x.k, x.filterSize(),
                                                       std::vector<float>(factors.begin(), factors.end()));
    }

    Weights& filters() const { return *filters_; }
    /** A bias that a run brings comes with each launch. */
    GpuWeights onDevice(const Memory& constants) const {
      return {*filters_, isConstant(bias_) ? constants.read(bias_) : nullptr, *store_.queue, store_.tables};
    }
    /** Of forms that are the program's own */
    int64_t ownBytes() const { return isShared_ ? 0 : filters_->bytes(); }

   private:
    GpuStore& store_;
    const Buffer bias_;
    const bool isShared_;
    std::shared_ptr<Weights> filters_;
  };

  static GpuTensors tensorsOf(const ConvolutionStep& step, const Memory& m) {
    return {m.read<void>(step.input), m.read<void>(step.residual), m.write<void>(step.output)};
  }

  Memory hostConstants() const { return {{}, spec_.constants, nullptr}; }
  Memory deviceConstants() const { return {{}, constants_, nullptr}; }

  void layOut() {
    for (const int64_t bytes : spec_.inputBytes) ports_.inputs.push_back(ports_.add(bytes));
    for (const int64_t bytes : spec_.outputBytes) ports_.outputs.push_back(ports_.add(bytes));
    ports_.reports = ports_.add(reportBytes());
    workspaceAt_ = roundUp(spec_.arenaBytes, DeviceMemory::kAlignment);
    scratchBytes_ = {workspaceAt_ + workspaceBytes_, ports_.bytes};
  }

  int64_t reportBytes() const { return static_cast<int64_t>(checkedIndices_.size() * sizeof(WrongIndex)); }

  Place placeIn(const Scratch::Lease& lease) const {
    Place place{{},
                {},
                at(lease.arena(), 0),
                at(lease.arena(), workspaceAt_),
                static_cast<WrongIndex*>(at(lease.ports(), ports_.reports)),
                lease.set(),
                lease.isAlone(),
                lease.arena().number,
                lease.ports().number};
    for (const int64_t offset : ports_.inputs) place.inputs.push_back(at(lease.ports(), offset));
    for (const int64_t offset : ports_.outputs) place.outputs.push_back(at(lease.ports(), offset));
    return place;
  }

  Site siteOf(const Place& place) const {
    return {Memory({place.inputs, place.outputs}, constants_, place.arena), place.workspace, place.wrongIndices};
  }

  Status runIn(const Place& place, const Tensors& tensors, const Cancellation* cancellation,
               std::vector<double>* milliseconds) const {
    if (Status status = queue_.device().makeCurrent(); !status.isOk()) return status;
    // Steps that are timed are launched one by one.
    const std::shared_ptr<RunGraph> graph = milliseconds == nullptr ? graphFor(place) : nullptr;
    for (size_t i = 0; i < place.inputs.size(); ++i) {
      if (spec_.inputBytes[i] == 0) continue;
      if (Status status = bring(i, tensors, const_cast<void*>(place.inputs[i]), graph.get()); !status.isOk())
        return status;
    }
    if (cancellation != nullptr && cancellation->isRequested()) return stoppedWhileRunning();
    if (graph != nullptr) return runGraph(*graph, place, tensors);
    const Status launched = milliseconds == nullptr ? launch(place) : profile(place, *milliseconds);
    if (!launched.isOk()) return launched;
    if (Status status = checkRunIndices(place); !status.isOk()) return status;
    return handOver(place, tensors);
  }

  Status runGraph(RunGraph& graph, const Place& place, const Tensors& tensors) const {
    if (Status status = addressOutputs(graph, place, tensors); !status.isOk()) return status;
    const Status launched = queue_.compute([&](cudaStream_t stream) { return graph.launch(stream); });
    if (!launched.isOk()) return launched;
    const Clock::time_point begun = Clock::now();
    // When a run ends that waits for others is not known, and nobody waits for it alone.
    const Waited waited = graph.wait(place.isAlone ? begun + expectedTime_.get() : begun);
    if (place.isAlone) expectedTime_.note(Clock::now() - begun, waited.hasOverslept);
    if (Status status = toStatus(waited.error, "running a network"); !status.isOk()) return status;
    if (graph.copiesOutputs()) return fetch(graph, place, tensors);
    if (Status status = checkRunIndices(place); !status.isOk()) return status;
    return handOver(place, tensors);
  }

  /** Where another run's kernels can follow, they had better not wait for a copy to CPU memory. */
  Status addressOutputs(RunGraph& graph, const Place& place, const Tensors& tensors) const {
    if (!graph.copiesOutputs()) return {};
    for (size_t i = 0; i < spec_.outputBytes.size(); ++i) {
      const DeviceMemory* const to = residentAt(tensors.residentOutputs, i);
      if (Status status = graph.handOver(i, to == nullptr ? nullptr : to->data()); !status.isOk()) return status;
      if (Status status = graph.land(i, place.isAlone && tensors.outputs[i] != nullptr); !status.isOk()) return status;
    }
    return {};
  }

  /** The outputs that are wanted in CPU memory, once the graph has ended. */
  Status fetch(const RunGraph& graph, const Place& place, const Tensors& tensors) const {
    for (size_t i = 0; i < place.outputs.size(); ++i) {
      const int64_t bytes = spec_.outputBytes[i];
      if (bytes == 0 || tensors.outputs[i] == nullptr) continue;
      if (const void* const landed = place.isAlone ? graph.landed(i) : nullptr) {
        std::memcpy(tensors.outputs[i], landed, static_cast<size_t>(bytes));
      } else if (Status status = queue_.fetch(place.outputs[i], tensors.outputs[i], bytes); !status.isOk()) {
        return status;
      }
    }
    return {};
  }

  /** To a port; what lies on the GPU by a graph, unless there is none. */
  Status bring(size_t input, const Tensors& tensors, void* to, RunGraph* graph) const {
    const DeviceMemory* const from = residentAt(tensors.residentInputs, input);
    if (graph != nullptr) {
      const Status status = graph->bring(input, from == nullptr ? nullptr : from->data());
      if (from != nullptr || !status.isOk()) return status;
    }
    if (from != nullptr) return copyWithin(from->data(), to, from->bytes());
    if (const void* const whole = tensors.inputs[input]) return queue_.upload(whole, to, spec_.inputBytes[input]);
    return queue_.upload(tensors.inputParts[input], to);
  }

  /** The outputs, to where they are wanted. When it returns all of them are there, for other queues, too. */
  Status handOver(const Place& place, const Tensors& tensors) const {
    for (size_t i = 0; i < place.outputs.size(); ++i) {
      const DeviceMemory* const to = residentAt(tensors.residentOutputs, i);
      if (to == nullptr || to->bytes() == 0) continue;
      if (Status status = copyWithin(place.outputs[i], to->data(), to->bytes()); !status.isOk()) return status;
    }
    // A download waits for all that was enqueued before it, and so for the copies, too.
    bool isAwaited = false;
    for (size_t i = 0; i < place.outputs.size(); ++i) {
      if (spec_.outputBytes[i] == 0 || tensors.outputs[i] == nullptr) continue;
      const Status status = queue_.download(place.outputs[i], tensors.outputs[i], spec_.outputBytes[i]);
      if (!status.isOk()) return status;
      isAwaited = true;
    }
    return isAwaited ? Status{} : queue_.wait();
  }

  /** Null for a tensor that is in CPU memory. All memory of a GPU is made by its engine. */
  static const DeviceMemory* residentAt(std::span<const std::shared_ptr<const GpuMemory>> resident, size_t index) {
    if (resident.empty() || resident[index] == nullptr) return nullptr;
    return &static_cast<const ResidentMemory&>(*resident[index]).memory();
  }

  Status copyWithin(const void* from, void* to, int64_t bytes) const {
    return queue_.compute([&](cudaStream_t stream) {
      return toStatus(cudaMemcpyAsync(to, from, static_cast<size_t>(bytes), cudaMemcpyDeviceToDevice, stream),
                      "copying a tensor within the GPU");
    });
  }

  Status launch(const Place& place) const {
    return queue_.compute([&](cudaStream_t stream) { return enqueueAll(place, stream); });
  }

  /** The launches as a graph, or null. */
  std::shared_ptr<RunGraph> graphFor(const Place& place) const {
    const std::lock_guard lock(graphsMutex_);
    const Captured& captured = graphs_[place.set];
    return captured.isOf(place) ? captured.graph : nullptr;
  }

  /** Has the launches captured once the program has run twice, unless they have been for this place. */
  void captureLater(const Place& place) const noexcept {
    if (++runs_ < 2) return;
    const std::lock_guard lock(graphsMutex_);
    if (graphs_[place.set].isOf(place)) return;
    try {
      // A graph for other memory goes on that thread, too.
      store_->background->add(this, [this, place, stale = graphs_[place.set].graph]() mutable {
        stale.reset();
        capture(place);
      });
      graphs_[place.set] = {place.arenaNumber, place.portsNumber, nullptr};
    } catch (const std::bad_alloc&) {
      // The next run asks again.
    }
  }

  /** Where something cannot be captured, every run in that place launches its kernels one by one. */
  void capture(const Place& place) const {
    if (!queue_.device().makeCurrent().isOk()) return;
    std::shared_ptr<RunGraph> graph;
    const RunGraph::Ports ports = portsOf(place);
    // On a stream of its own: others go on enqueueing on that of the queue.
    const Status captured = runOnOwnStream("capturing a network's launches", [&](cudaStream_t stream) {
      graph = RunGraph::captured(
          ports, [&] { return enqueueAll(place, stream); }, stream);
      return cudaSuccess;
    });
    if (!captured.isOk() || graph == nullptr) return;
    const std::lock_guard lock(graphsMutex_);
    if (graphs_[place.set].isOf(place)) graphs_[place.set].graph = std::move(graph);
  }

  RunGraph::Ports portsOf(const Place& place) const {
    RunGraph::Ports ports{{}, {}, nullptr, Landings::kBytes};
    for (size_t i = 0; i < place.inputs.size(); ++i)
      ports.inputs.push_back({const_cast<void*>(place.inputs[i]), spec_.inputBytes[i]});
    // A run that finds a wrong index writes no outputs.
    if (!checkedIndices_.empty()) return ports;
    for (size_t i = 0; i < place.outputs.size(); ++i) ports.outputs.push_back({place.outputs[i], spec_.outputBytes[i]});
    ports.landing = store_->landings.of(place.set);
    return ports;
  }

  Status enqueueAll(const Place& place, cudaStream_t stream) const {
    const Site site = siteOf(place);
    for (const Action& action : actions_) {
      // Only ever while its launches are captured, for which the end must not wait.
      if (isEnding_.load(std::memory_order_relaxed)) return stoppedWhileRunning();
      if (Status status = action(site, stream); !status.isOk()) return status;
    }
    return {};
  }

  Status profile(const Place& place, std::vector<double>& milliseconds) const {
    const Site site = siteOf(place);
    StreamTimer timer;
    const Status enqueued = queue_.compute([&](cudaStream_t stream) {
      Status status = timer.mark(stream);
      for (size_t i = 0; i < actions_.size() && status.isOk(); ++i) {
        status = actions_[i](site, stream);
        if (status.isOk()) status = timer.mark(stream);
      }
      return status;
    });
    if (!enqueued.isOk()) return enqueued;
    Result<std::vector<double>> times = timer.times();
    if (!times.isOk()) return times.status();
    milliseconds = std::move(times.value());
    return {};
  }

  Status checkRunIndices(const Place& place) const {
    if (checkedIndices_.empty()) return {};
    std::vector<WrongIndex> reports(checkedIndices_.size());
    if (Status status = queue_.download(place.wrongIndices, reports.data(), reportBytes()); !status.isOk()) {
      return status;
    }
    for (size_t i = 0; i < reports.size(); ++i) {
      const WrongIndex& wrong = reports[i];
      if (wrong.place >= 0) return wrongIndex(wrong.place, wrong.index, checkedIndices_[i].axisOf(wrong.place));
    }
    return {};
  }

  /** Launches as a graph, for memory of these numbers: null while it is made, or where it cannot be. */
  struct Captured {
    uint64_t arenaNumber = 0, portsNumber = 0;
    std::shared_ptr<RunGraph> graph;

    bool isOf(const Place& place) const { return arenaNumber == place.arenaNumber && portsNumber == place.portsNumber; }
  };

  const std::shared_ptr<GpuStore> store_;
  Queue& queue_;
  ProgramSpec spec_;
  std::vector<Action> actions_;
  std::vector<Candidate> choices_;
  /** Those whose indices a run brings or computes; each reports what it finds wrong */
  std::vector<CheckedIndices> checkedIndices_;
  /** Where each constant is on the device; null for those that no step reads there */
  std::vector<const void*> constants_;
  /** Positions and weights of each resize */
  std::vector<const void*> interpolations_;
  size_t interpolationsAdded_ = 0;
  /** What keeps the two there: of the store, and the program's own */
  std::vector<std::shared_ptr<const DeviceMemory>> sharedBlocks_;
  DeviceMemory ownBlock_;
  /** For all convolutions, of which one runs at a time, behind the other tensors in the arena */
  int64_t workspaceBytes_ = 0, workspaceAt_ = 0;
  PortsLayout ports_;
  Scratch::Bytes scratchBytes_;
  int64_t bytes_ = 0;

  /** Of runs as a graph that no other run was before */
  mutable ExpectedTime expectedTime_;
  mutable std::atomic<int64_t> runs_{0};
  std::atomic<bool> isEnding_{false};
  mutable std::mutex graphsMutex_;
  /** For each set of ports */
  mutable std::array<Captured, Scratch::kPorts> graphs_;
};

}  // namespace

Result<std::shared_ptr<const PreparedProgram>> prepareGpuProgram(ProgramSpec spec, const Backend& backend,
                                                                 std::shared_ptr<GpuStore> store) {
  auto made = std::make_shared<GpuProgram>(std::move(spec), std::move(store));
  if (Status status = made->prepare(backend); !status.isOk()) return status;
  return std::shared_ptr<const PreparedProgram>(std::move(made));
}

}  // namespace warpconv::cuda
