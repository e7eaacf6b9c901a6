#include <algorithm>
#include <array>
#include <chrono>
#include <limits>
#include <optional>
#include <utility>

#include "cuda/compare/cudnn.h"
#include "cuda/compare/cudnn_functions.h"

// cuDNN's graph interface: everything is a descriptor with attributes, and these are its header's numbers for them.

namespace warpconv::cuda {
namespace {

// cudnnBackendDescriptorType_t
constexpr int kConvolutionDescriptor = 1;
constexpr int kEngineDescriptor = 2;
constexpr int kEngineConfigDescriptor = 3;
constexpr int kEngineHeuristicsDescriptor = 4;
constexpr int kExecutionPlanDescriptor = 5;
constexpr int kConvolutionForwardDescriptor = 10;
constexpr int kOperationGraphDescriptor = 15;
constexpr int kVariantPackDescriptor = 16;
constexpr int kTensorDescriptor = 17;

// cudnnBackendAttributeType_t
constexpr int kHandleType = 0;
constexpr int kDataTypeType = 1;
constexpr int kInt64Type = 3;
constexpr int kFloatType = 4;
constexpr int kVoidPointerType = 6;
constexpr int kConvolutionModeType = 7;
constexpr int kHeuristicsModeType = 8;
constexpr int kNumericalNoteType = 11;
constexpr int kDescriptorType = 15;
constexpr int kBehaviorNoteType = 19;

// cudnnBackendAttributeName_t
constexpr int kConvolutionComputeType = 100;
constexpr int kConvolutionMode = 101;
constexpr int kConvolutionDilations = 102;
constexpr int kConvolutionStrides = 103;
constexpr int kConvolutionPostPaddings = 104;
constexpr int kConvolutionPrePaddings = 105;
constexpr int kConvolutionSpatialDims = 106;
constexpr int kHeuristicsMode = 200;
constexpr int kHeuristicsGraph = 201;
constexpr int kHeuristicsResults = 202;
constexpr int kConfigEngine = 300;
constexpr int kPlanHandle = 400;
constexpr int kPlanConfig = 401;
constexpr int kPlanWorkspaceSize = 402;
constexpr int kForwardAlpha = 700;
constexpr int kForwardBeta = 701;
constexpr int kForwardConvolution = 702;
constexpr int kForwardW = 703;
constexpr int kForwardX = 704;
constexpr int kForwardY = 705;
constexpr int kGraphHandle = 800;
constexpr int kGraphOperations = 801;
constexpr int kTensorAlignment = 900;
constexpr int kTensorDataType = 901;
constexpr int kTensorDimensions = 902;
constexpr int kTensorStrides = 903;
constexpr int kTensorUniqueId = 906;
constexpr int kPackUniqueIds = 1000;
constexpr int kPackPointers = 1001;
constexpr int kPackWorkspace = 1003;
constexpr int kEngineGlobalIndex = 1301;
constexpr int kEngineNumericalNote = 1303;
constexpr int kEngineBehaviorNote = 1305;

constexpr int kHeuristicsB = 1;
constexpr int kHeuristicsFallback = 2;
constexpr int kHeuristicsA = 3;

constexpr int kTensorCoreNote = 0;
constexpr int kDownConvertNote = 1;
constexpr int kRuntimeCompilationNote = 0;
/** More than there are */
constexpr int64_t kMostNotes = 32;

/** Of device memory, which is 256-byte aligned */
constexpr int64_t kTensorBytes = 16;

/** Tensors' names in a graph */
constexpr std::array<int64_t, 3> kUniqueIds{'x', 'w', 'y'};

/** One descriptor. The first failure of its calls is remembered, so that a sequence reads as one. */
class Descriptor {
 public:
  Descriptor(const Cudnn& cudnn, int type) : call_(&cudnn.functions()) {
    failed_ = call_->createDescriptor(type, &it_);
  }
  Descriptor(Descriptor&& other) noexcept
      : call_(other.call_), it_(std::exchange(other.it_, nullptr)), failed_(other.failed_) {}
  Descriptor& operator=(Descriptor&&) = delete;
  ~Descriptor() {
    // Fails only for what is no descriptor.
    if (it_ != nullptr) (void)call_->destroyDescriptor(it_);
  }

  void* get() const { return it_; }
  int failure() const { return failed_; }
  bool isOk() const { return failed_ == kCudnnSuccess; }

  Descriptor& set(int name, int type, int64_t count, const void* values) {
    if (isOk()) failed_ = call_->setAttribute(it_, name, type, count, values);
    return *this;
  }
  template <size_t N>
  Descriptor& set(int name, const std::array<int64_t, N>& values) {
    return set(name, kInt64Type, N, values.data());
  }
  Descriptor& set(int name, int64_t value) { return set(name, kInt64Type, 1, &value); }
  Descriptor& setEnum(int name, int type, int value) { return set(name, type, 1, &value); }
  Descriptor& set(int name, const Descriptor& other) {
    void* const descriptor = other.get();
    if (!other.isOk() && isOk()) failed_ = other.failure();
    return set(name, kDescriptorType, 1, &descriptor);
  }
  Descriptor& finalize() {
    if (isOk()) failed_ = call_->finalize(it_);
    return *this;
  }

  /** How many elements were read; nothing where the call fails. */
  std::optional<int64_t> read(int name, int type, int64_t most, void* into) const {
    int64_t count = 0;
    if (call_->getAttribute(it_, name, type, most, &count, into) != kCudnnSuccess) return std::nullopt;
    return std::min(count, most);
  }

 private:
  const Cudnn::Functions* call_;
  void* it_ = nullptr;
  int failed_ = kCudnnSuccess;
};

/** Extents N C H W of a tensor, or K C R S of a filter. */
Descriptor tensorOf(const Cudnn& cudnn, int64_t uniqueId, const std::array<int64_t, 4>& dims,
                    const TensorFormat& format) {
  const auto [n, c, h, w] = dims;
  const std::array<int64_t, 4> nchw{c * h * w, h * w, w, 1};
  const std::array<int64_t, 4> nhwc{h * w * c, 1, w * c, c};
  Descriptor tensor(cudnn, kTensorDescriptor);
  tensor.setEnum(kTensorDataType, kDataTypeType, cudnnTypeOf(format.type))
      .set(kTensorDimensions, dims)
      .set(kTensorStrides, format.layout == Layout::nhwc ? nhwc : nchw)
      .set(kTensorUniqueId, uniqueId)
      .set(kTensorAlignment, kTensorBytes)
      .finalize();
  return tensor;
}

/** The graph of one convolution, with what it is made of. */
class ConvolutionGraph {
 public:
  explicit ConvolutionGraph(const CudnnRequest& request)
      : input_(tensorOf(*request.cudnn, kUniqueIds[0], inputDims(request.problem), request.tensors.format)),
        filter_(tensorOf(*request.cudnn, kUniqueIds[1], filterDims(request.problem), request.tensors.format)),
        output_(tensorOf(*request.cudnn, kUniqueIds[2], request.problem.outputDims(), request.tensors.format)),
        convolution_(*request.cudnn, kConvolutionDescriptor),
        forward_(*request.cudnn, kConvolutionForwardDescriptor),
        graph_(*request.cudnn, kOperationGraphDescriptor) {
    const ConvProblem& x = request.problem;
    convolution_.setEnum(kConvolutionComputeType, kDataTypeType, kCudnnFloat)
        .setEnum(kConvolutionMode, kConvolutionModeType, kCudnnCrossCorrelation)
        .set(kConvolutionSpatialDims, 2)
        .set(kConvolutionPrePaddings, std::array{x.padding.top, x.padding.left})
        .set(kConvolutionPostPaddings, std::array{x.padding.bottom, x.padding.right})
        .set(kConvolutionStrides, std::array{x.stride.h, x.stride.w})
        .set(kConvolutionDilations, std::array{x.dilation.h, x.dilation.w})
        .finalize();
    const float one = 1;
    const float zero = 0;
    forward_.set(kForwardX, input_)
        .set(kForwardW, filter_)
        .set(kForwardY, output_)
        .set(kForwardConvolution, convolution_)
        .set(kForwardAlpha, kFloatType, 1, &one)
        .set(kForwardBeta, kFloatType, 1, &zero)
        .finalize();
    void* const handle = request.cudnn->handle();
    graph_.set(kGraphHandle, kHandleType, 1, &handle).set(kGraphOperations, forward_).finalize();
  }

  const Descriptor& get() const { return graph_; }

 private:
  static std::array<int64_t, 4> inputDims(const ConvProblem& x) { return {x.n, x.c, x.h, x.w}; }
  static std::array<int64_t, 4> filterDims(const ConvProblem& x) { return {x.k, x.groupInputs(), x.r, x.s}; }

  Descriptor input_, filter_, output_, convolution_, forward_, graph_;
};

/** Engine configurations, best first by the heuristics of that mode; none where they have nothing to say. */
std::vector<Descriptor> configurations(const Cudnn& cudnn, const Descriptor& graph, int mode) {
  // Those that are not wanted come among them.
  constexpr int64_t kMost = 32;
  Descriptor heuristics(cudnn, kEngineHeuristicsDescriptor);
  heuristics.set(kHeuristicsGraph, graph).setEnum(kHeuristicsMode, kHeuristicsModeType, mode).finalize();
  std::vector<Descriptor> configs;
  if (!heuristics.isOk()) return configs;
  std::array<void*, kMost> pointers{};
  for (void*& pointer : pointers) pointer = configs.emplace_back(cudnn, kEngineConfigDescriptor).get();
  const int64_t count = heuristics.read(kHeuristicsResults, kDescriptorType, kMost, pointers.data()).value_or(0);
  while (static_cast<int64_t>(configs.size()) > count) configs.pop_back();
  return configs;
}

class Engine {
 public:
  Engine(const Cudnn& cudnn, const Descriptor& config) : engine_(cudnn, kEngineDescriptor) {
    void* pointer = engine_.get();
    found_ = config.read(kConfigEngine, kDescriptorType, 1, &pointer).has_value();
  }

  bool suits(const CudnnRequest& request) const {
    if (!found_) return false;
    if (!request.isCompared && has(kEngineBehaviorNote, kBehaviorNoteType, kRuntimeCompilationNote)) return false;
    return request.form.arithmetic != Precision::fp32 ||
           !(has(kEngineNumericalNote, kNumericalNoteType, kTensorCoreNote) ||
             has(kEngineNumericalNote, kNumericalNoteType, kDownConvertNote));
  }

  int64_t index() const {
    int64_t value = -1;
    (void)engine_.read(kEngineGlobalIndex, kInt64Type, 1, &value);
    return value;
  }

 private:
  bool has(int name, int type, int note) const {
    std::array<int, kMostNotes> notes{};
    const int64_t count = engine_.read(name, type, kMostNotes, notes.data()).value_or(0);
    return std::find(notes.begin(), notes.begin() + count, note) != notes.begin() + count;
  }

  Descriptor engine_;
  bool found_ = false;
};

class PlannedEngine final : public Contestant {
 public:
  PlannedEngine(const CudnnRequest& request, std::shared_ptr<const ConvolutionGraph> graph, Descriptor config,
                Descriptor plan, int64_t engine)
      : cudnn_(request.cudnn),
        tensors_(request.tensors),
        graph_(std::move(graph)),
        config_(std::move(config)),
        plan_(std::move(plan)),
        engine_(engine) {
    (void)plan_.read(kPlanWorkspaceSize, kInt64Type, 1, &workspaceBytes_);
  }

  std::string algorithm() const override { return "ENGINE_" + std::to_string(engine_); }
  int64_t workspaceBytes() const override { return workspaceBytes_; }

  Status enqueue(void* workspace) const override {
    const std::array<void*, 3> pointers{tensors_.input.data(), tensors_.weight.data(), tensors_.output.data()};
    Descriptor pack(*cudnn_, kVariantPackDescriptor);
    pack.set(kPackUniqueIds, kUniqueIds)
        .set(kPackPointers, kVoidPointerType, 3, pointers.data())
        .set(kPackWorkspace, kVoidPointerType, 1, &workspace)
        .finalize();
    const int failed =
        pack.isOk() ? cudnn_->functions().execute(cudnn_->handle(), plan_.get(), pack.get()) : pack.failure();
    return cudnn_->check(failed, "to convolve");
  }

 private:
  const std::shared_ptr<const Cudnn> cudnn_;
  const ContestTensors& tensors_;
  // What a plan is made of is not said to be copied into it.
  const std::shared_ptr<const ConvolutionGraph> graph_;
  const Descriptor config_;
  const Descriptor plan_;
  const int64_t engine_;
  int64_t workspaceBytes_ = 0;
};

using Clock = std::chrono::steady_clock;

/** Of the configurations of one mode, those that suit and can be planned, until there are `most` or time is up. */
void addPlans(const CudnnRequest& request, const std::shared_ptr<const ConvolutionGraph>& graph, int mode, size_t most,
              Clock::time_point end, Contestants& contestants) {
  const Cudnn& cudnn = *request.cudnn;
  for (Descriptor& config : configurations(cudnn, graph->get(), mode)) {
    if (contestants.size() == most || (contestants.size() >= kFewestPlans && Clock::now() > end)) return;
    const Engine engine(cudnn, config);
    if (!engine.suits(request)) continue;
    void* const handle = cudnn.handle();
    Descriptor plan(cudnn, kExecutionPlanDescriptor);
    plan.set(kPlanHandle, kHandleType, 1, &handle).set(kPlanConfig, config).finalize();
    if (!plan.isOk()) continue;
    contestants.push_back(
        std::make_unique<PlannedEngine>(request, graph, std::move(config), std::move(plan), engine.index()));
  }
}

}  // namespace

Result<Contestants> proposeCudnnEngines(const CudnnRequest& request) {
  const auto graph = std::make_shared<const ConvolutionGraph>(request);
  Status status = request.cudnn->check(graph->get().failure(), "to describe the graph of the convolution");
  if (!status.isOk()) return status;
  constexpr size_t kMostForInformation = 2;
  const size_t most = request.isCompared ? std::numeric_limits<size_t>::max() : kMostForInformation;
  const Clock::time_point end = Clock::now() + kLongestPlanning;
  Contestants contestants;
  for (const int mode : {kHeuristicsA, kHeuristicsB, kHeuristicsFallback}) {
    addPlans(request, graph, mode, most, end, contestants);
  }
  if (contestants.empty()) return unsupported("cuDNN's heuristics have no engine for this problem and layout");
  return contestants;
}

}  // namespace warpconv::cuda
