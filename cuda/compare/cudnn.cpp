#include "cuda/compare/cudnn.h"

#include <algorithm>
#include <array>
#include <utility>

#include "cuda/compare/cudnn_functions.h"
#include "cuda/compare/library.h"

namespace warpconv::cuda {
namespace {

// Values of cuDNN's enumerations.
constexpr int kNchw = 0;
constexpr int kNhwc = 1;
constexpr int kCudnnDefaultMath = 0;
constexpr int kTensorMath = 1;
constexpr int kFmaMath = 3;
constexpr std::array<const char*, 8> kAlgorithms{
    "IMPLICIT_GEMM", "IMPLICIT_PRECOMP_GEMM", "GEMM", "DIRECT", "FFT", "FFT_TILING", "WINOGRAD", "WINOGRAD_NONFUSED"};

/** Large enough for every algorithm of the layers that networks have; halved where the device has less. */
constexpr int64_t kMostWorkspaceBytes = int64_t{4} << 30;

void findAll(Symbols& symbols, Cudnn::Functions& all) {
  symbols.find(all.getVersion, "cudnnGetVersion");
  symbols.find(all.getErrorString, "cudnnGetErrorString");
  symbols.find(all.create, "cudnnCreate");
  symbols.find(all.destroy, "cudnnDestroy");
  symbols.find(all.setStream, "cudnnSetStream");
  symbols.find(all.createTensor, "cudnnCreateTensorDescriptor");
  symbols.find(all.destroyTensor, "cudnnDestroyTensorDescriptor");
  symbols.find(all.setTensor4d, "cudnnSetTensor4dDescriptor");
  symbols.find(all.createFilter, "cudnnCreateFilterDescriptor");
  symbols.find(all.destroyFilter, "cudnnDestroyFilterDescriptor");
  symbols.find(all.setFilter4d, "cudnnSetFilter4dDescriptor");
  symbols.find(all.createConvolution, "cudnnCreateConvolutionDescriptor");
  symbols.find(all.destroyConvolution, "cudnnDestroyConvolutionDescriptor");
  symbols.find(all.setConvolution2d, "cudnnSetConvolution2dDescriptor");
  symbols.find(all.setGroupCount, "cudnnSetConvolutionGroupCount");
  symbols.find(all.setMathType, "cudnnSetConvolutionMathType");
  symbols.find(all.find, "cudnnFindConvolutionForwardAlgorithmEx");
  symbols.find(all.forward, "cudnnConvolutionForward");
  symbols.find(all.createDescriptor, "cudnnBackendCreateDescriptor");
  symbols.find(all.destroyDescriptor, "cudnnBackendDestroyDescriptor");
  symbols.find(all.setAttribute, "cudnnBackendSetAttribute");
  symbols.find(all.getAttribute, "cudnnBackendGetAttribute");
  symbols.find(all.finalize, "cudnnBackendFinalize");
  symbols.find(all.execute, "cudnnBackendExecute");
}

}  // namespace

Cudnn::Cudnn() : functions_(std::make_unique<Functions>()) {}

Cudnn::~Cudnn() {
  // Fails only for what is no handle.
  if (handle_ != nullptr) (void)functions_->destroy(handle_);
}

Result<std::shared_ptr<const Cudnn>> Cudnn::open(const std::vector<std::string>& libraries, cudaStream_t stream) {
  const std::shared_ptr<Cudnn> cudnn(new Cudnn);
  const std::string tried = loadFirst(libraries, [&](Symbols& symbols) { findAll(symbols, *cudnn->functions_); });
  if (!tried.empty()) {
    return Status{StatusCode::cudnnNotFound,
                  "cuDNN was not found; install it (for example pip install nvidia-cudnn-cu13) "
                  "or set WARPCONV_CUDNN to the path of its library. Tried:" +
                      tried};
  }
  int failed = cudnn->functions_->create(&cudnn->handle_);
  if (failed == kCudnnSuccess) failed = cudnn->functions_->setStream(cudnn->handle_, stream);
  if (Status status = cudnn->check(failed, "to start"); !status.isOk()) return status;
  return std::shared_ptr<const Cudnn>(cudnn);
}

std::string Cudnn::version() const {
  // 9 10 14 until version 8 and from 9 on 9 xx xx.
  const size_t number = functions_->getVersion();
  const size_t major = number >= 90000 ? 10000 : 1000;
  return std::to_string(number / major) + "." + std::to_string(number % major / 100) + "." +
         std::to_string(number % 100);
}

Status Cudnn::check(int code, const char* what) const {
  if (code == kCudnnSuccess) return {};
  return unsupported(std::string("cuDNN failed ") + what + ": " + functions_->getErrorString(code));
}

namespace {

/** A problem in the words of the older interface. */
class Descriptors {
 public:
  static Result<std::shared_ptr<const Descriptors>> create(const CudnnRequest& request);
  Descriptors(const Descriptors&) = delete;
  Descriptors& operator=(const Descriptors&) = delete;
  ~Descriptors();

  /** Those of all its algorithms that ran, fastest first. */
  Result<std::vector<CudnnFound>> search(Device& device) const;
  Status convolve(const CudnnFound& found, void* workspace) const;

 private:
  explicit Descriptors(const CudnnRequest& request)
      : cudnn_(request.cudnn), call_(cudnn_->functions()), tensors_(request.tensors) {}
  int describe(const ConvProblem& problem, Precision arithmetic);

  const std::shared_ptr<const Cudnn> cudnn_;
  const Cudnn::Functions& call_;
  const ContestTensors& tensors_;
  void* inputTensor_ = nullptr;
  void* outputTensor_ = nullptr;
  void* filter_ = nullptr;
  void* convolution_ = nullptr;
};

Result<std::shared_ptr<const Descriptors>> Descriptors::create(const CudnnRequest& request) {
  const Padding& padding = request.problem.padding;
  if (padding.top != padding.bottom || padding.left != padding.right) {
    return unsupported("cuDNN takes the same padding on opposite sides; pad the input first to compare this problem");
  }
  std::shared_ptr<Descriptors> made(new Descriptors(request));
  const int failed = made->describe(request.problem, request.form.arithmetic);
  Status status = request.cudnn->check(failed, "to describe the convolution");
  if (!status.isOk()) return status;
  return std::shared_ptr<const Descriptors>(std::move(made));
}

Descriptors::~Descriptors() {
  // Fails only for what is no descriptor.
  if (convolution_ != nullptr) (void)call_.destroyConvolution(convolution_);
  if (filter_ != nullptr) (void)call_.destroyFilter(filter_);
  if (outputTensor_ != nullptr) (void)call_.destroyTensor(outputTensor_);
  if (inputTensor_ != nullptr) (void)call_.destroyTensor(inputTensor_);
}

/** The descriptor keeps fp32 to multiply-adds, where the default would allow TF32. */
int mathOf(Precision arithmetic) {
  switch (arithmetic) {
    case Precision::fp32: return kFmaMath;
    case Precision::tf32: return kCudnnDefaultMath;
    case Precision::fp16:
    case Precision::bf16: return kTensorMath;
  }
  return kFmaMath;
}

int Descriptors::describe(const ConvProblem& x, Precision arithmetic) {
  const auto narrow = [](int64_t value) { return static_cast<int>(value); };
  const int layout = tensors_.format.layout == Layout::nhwc ? kNhwc : kNchw;
  const int element = cudnnTypeOf(tensors_.format.type);
  int failed = kCudnnSuccess;
  const auto step = [&](int code) {
    if (failed == kCudnnSuccess) failed = code;
    return failed == kCudnnSuccess;
  };
  step(call_.createTensor(&inputTensor_)) && step(call_.createTensor(&outputTensor_)) &&
      step(call_.createFilter(&filter_)) && step(call_.createConvolution(&convolution_)) &&
      step(call_.setTensor4d(inputTensor_, layout, element, narrow(x.n), narrow(x.c), narrow(x.h), narrow(x.w))) &&
      step(call_.setTensor4d(outputTensor_, layout, element, narrow(x.n), narrow(x.k), narrow(x.p), narrow(x.q))) &&
      step(call_.setFilter4d(filter_, element, layout, narrow(x.k), narrow(x.groupInputs()), narrow(x.r),
                             narrow(x.s))) &&
      step(call_.setConvolution2d(convolution_, narrow(x.padding.top), narrow(x.padding.left), narrow(x.stride.h),
                                  narrow(x.stride.w), narrow(x.dilation.h), narrow(x.dilation.w),
                                  kCudnnCrossCorrelation, kCudnnFloat)) &&
      step(call_.setGroupCount(convolution_, narrow(x.groups))) &&
      step(call_.setMathType(convolution_, mathOf(arithmetic)));
  return failed;
}

Result<std::vector<CudnnFound>> Descriptors::search(Device& device) const {
  Result<DeviceMemory> scratch = device.allocate(kMostWorkspaceBytes);
  for (int64_t bytes = kMostWorkspaceBytes; !scratch.isOk() && bytes > 1; bytes /= 2) scratch = device.allocate(bytes);
  if (!scratch.isOk()) return scratch.status();
  std::vector<CudnnFound> found(16);
  int count = 0;
  const int code =
      call_.find(cudnn_->handle(), inputTensor_, tensors_.input.data(), filter_, tensors_.weight.data(), convolution_,
                 outputTensor_, tensors_.output.data(), static_cast<int>(found.size()), &count, found.data(),
                 scratch.value().data(), static_cast<size_t>(scratch.value().bytes()));
  if (Status status = cudnn_->check(code, "to search its algorithms"); !status.isOk()) return status;
  found.resize(static_cast<size_t>(count));
  std::erase_if(found, [](const CudnnFound& one) { return one.status != kCudnnSuccess; });
  return found;
}

Status Descriptors::convolve(const CudnnFound& found, void* workspace) const {
  const float one = 1;
  const float zero = 0;
  // One algorithm may be found with several kinds of mathematics, and the descriptor is shared.
  int failed = call_.setMathType(convolution_, found.math);
  if (failed == kCudnnSuccess) {
    failed = call_.forward(cudnn_->handle(), &one, inputTensor_, tensors_.input.data(), filter_, tensors_.weight.data(),
                           convolution_, found.algorithm, workspace, found.workspaceBytes, &zero, outputTensor_,
                           tensors_.output.data());
  }
  return cudnn_->check(failed, "to convolve");
}

class FoundAlgorithm final : public Contestant {
 public:
  FoundAlgorithm(std::shared_ptr<const Descriptors> descriptors, const CudnnFound& found)
      : descriptors_(std::move(descriptors)), found_(found) {}

  std::string algorithm() const override {
    const auto index = static_cast<size_t>(found_.algorithm);
    return index < kAlgorithms.size() ? kAlgorithms[index] : "ALGORITHM_" + std::to_string(index);
  }
  int64_t workspaceBytes() const override { return static_cast<int64_t>(found_.workspaceBytes); }
  Status enqueue(void* workspace) const override { return descriptors_->convolve(found_, workspace); }

 private:
  const std::shared_ptr<const Descriptors> descriptors_;
  const CudnnFound found_;
};

}  // namespace

Result<Contestants> findCudnnAlgorithms(const CudnnRequest& request, Device& device) {
  const auto descriptors = Descriptors::create(request);
  if (!descriptors.isOk()) return descriptors.status();
  Result<std::vector<CudnnFound>> searched = descriptors.value()->search(device);
  if (!searched.isOk()) return searched.status();
  std::vector<CudnnFound>& found = searched.value();
  const bool strict = request.form.arithmetic == Precision::fp32;
  // One that was timed with tensor cores would run otherwise when it is kept to multiply-adds.
  std::erase_if(found,
                [&](const CudnnFound& one) { return strict && one.math != kFmaMath && one.math != kCudnnDefaultMath; });
  if (found.empty()) return unsupported("cuDNN's search has no algorithm for this problem and layout");
  // The default of an algorithm without a choice; set again, it would allow TF32.
  if (strict) std::for_each(found.begin(), found.end(), [](CudnnFound& one) { one.math = kFmaMath; });
  // What is for information needs no more than the fastest.
  if (!request.isCompared) found.resize(1);
  Contestants contestants;
  for (const CudnnFound& one : found) {
    contestants.push_back(std::make_unique<FoundAlgorithm>(descriptors.value(), one));
  }
  return contestants;
}

}  // namespace warpconv::cuda
