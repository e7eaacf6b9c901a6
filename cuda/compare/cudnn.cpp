#include "cuda/compare/cudnn.h"

#include <dlfcn.h>

#include <algorithm>
#include <array>

namespace warpconv::cuda {

namespace {

// Values of cuDNN's enumerations.
constexpr int kSuccess = 0;
constexpr int kNchw = 0;
constexpr int kFloat = 0;
constexpr int kCrossCorrelation = 1;
constexpr int kDefaultMath = 0;
constexpr int kFmaMath = 3;
constexpr std::array<const char*, 8> kAlgorithms{
    "IMPLICIT_GEMM", "IMPLICIT_PRECOMP_GEMM", "GEMM", "DIRECT", "FFT", "FFT_TILING", "WINOGRAD", "WINOGRAD_NONFUSED"};

/** cudnnConvolutionFwdAlgoPerf_t */
struct Found {
  int algorithm;
  int status;
  float milliseconds;
  size_t workspaceBytes;
  int determinism;
  int math;
  int reserved[3];
};

/** Large enough for every algorithm of the layers that networks have; halved where the device has less. */
constexpr int64_t kMostWorkspaceBytes = int64_t{4} << 30;

}  // namespace

struct Cudnn::Functions {
  size_t (*getVersion)();
  const char* (*getErrorString)(int);
  int (*create)(void**);
  int (*destroy)(void*);
  int (*setStream)(void*, cudaStream_t);
  int (*createTensor)(void**);
  int (*destroyTensor)(void*);
  int (*setTensor4d)(void*, int, int, int, int, int, int);
  int (*createFilter)(void**);
  int (*destroyFilter)(void*);
  int (*setFilter4d)(void*, int, int, int, int, int, int);
  int (*createConvolution)(void**);
  int (*destroyConvolution)(void*);
  int (*setConvolution2d)(void*, int, int, int, int, int, int, int, int);
  int (*setGroupCount)(void*, int);
  int (*setMathType)(void*, int);
  int (*find)(void*, void*, const void*, void*, const void*, void*, void*, void*, int, int*, Found*, void*, size_t);
  int (*forward)(void*, const void*, void*, const void*, void*, const void*, void*, int, void*, size_t, const void*,
                 void*, void*);
};

namespace {

/** Takes one function after another out of a library, and remembers the first that is missing. */
class Symbols {
 public:
  explicit Symbols(void* library) : library_(library) {}

  template <typename Function>
  void find(Function& function, const char* name) {
    function = reinterpret_cast<Function>(dlsym(library_, name));
    if (function == nullptr && missing_.empty()) missing_ = name;
  }
  const std::string& missing() const { return missing_; }

 private:
  void* library_;
  std::string missing_;
};

std::string findAll(void* library, Cudnn::Functions& all) {
  Symbols symbols(library);
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
  return symbols.missing();
}

}  // namespace

Result<std::shared_ptr<const Cudnn>> Cudnn::load(const std::vector<std::string>& libraries) {
  std::string tried;
  for (const std::string& name : libraries) {
    const std::shared_ptr<Cudnn> cudnn(new Cudnn);
    cudnn->library_ = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (cudnn->library_ == nullptr) {
      tried += "\n  " + std::string(dlerror());
      continue;
    }
    auto functions = std::make_unique<Functions>();
    const std::string missing = findAll(cudnn->library_, *functions);
    cudnn->functions_ = std::move(functions);
    if (missing.empty()) return std::shared_ptr<const Cudnn>(cudnn);
    tried += "\n  " + name + ": has no " + missing;
  }
  return Status{StatusCode::cudnnNotFound,
                "cuDNN was not found; install it (for example pip install nvidia-cudnn-cu13) "
                "or set WARPCONV_CUDNN to the path of its library. Tried:" +
                    tried};
}

Cudnn::~Cudnn() {
  if (library_ != nullptr) dlclose(library_);
}

std::string Cudnn::version() const {
  // 9 10 14 until version 8 and from 9 on 9 xx xx.
  const size_t number = functions_->getVersion();
  const size_t major = number >= 90000 ? 10000 : 1000;
  return std::to_string(number / major) + "." + std::to_string(number % major / 100) + "." +
         std::to_string(number % 100);
}

Result<std::unique_ptr<CudnnConvolution>> CudnnConvolution::create(std::shared_ptr<const Cudnn> cudnn,
                                                                   const ConvProblem& problem, const float* input,
                                                                   const float* weight, float* output, Device& device,
                                                                   cudaStream_t stream) {
  if (problem.padding.top != problem.padding.bottom || problem.padding.left != problem.padding.right) {
    return unsupported("cuDNN takes the same padding on opposite sides; pad the input first to compare this problem");
  }
  std::unique_ptr<CudnnConvolution> made(new CudnnConvolution(std::move(cudnn)));
  if (Status status = made->describe(problem, stream); !status.isOk()) return status;
  if (Status status = made->search(input, weight, output, device); !status.isOk()) return status;
  return made;
}

CudnnConvolution::~CudnnConvolution() {
  const Cudnn::Functions& call = cudnn_->functions();
  // Fails only for what is no descriptor.
  if (convolution_ != nullptr) (void)call.destroyConvolution(convolution_);
  if (filter_ != nullptr) (void)call.destroyFilter(filter_);
  if (outputTensor_ != nullptr) (void)call.destroyTensor(outputTensor_);
  if (inputTensor_ != nullptr) (void)call.destroyTensor(inputTensor_);
  if (handle_ != nullptr) (void)call.destroy(handle_);
}

namespace {

Status toStatus(const Cudnn& cudnn, int code, const char* what) {
  if (code == kSuccess) return {};
  return {StatusCode::unsupported, std::string("cuDNN failed ") + what + ": " + cudnn.functions().getErrorString(code)};
}

}  // namespace

Status CudnnConvolution::describe(const ConvProblem& x, cudaStream_t stream) {
  const Cudnn::Functions& call = cudnn_->functions();
  const auto narrow = [](int64_t value) { return static_cast<int>(value); };
  int failed = kSuccess;
  const auto step = [&](int code) {
    if (failed == kSuccess) failed = code;
    return failed == kSuccess;
  };
  step(call.create(&handle_)) && step(call.setStream(handle_, stream)) && step(call.createTensor(&inputTensor_)) &&
      step(call.createTensor(&outputTensor_)) && step(call.createFilter(&filter_)) &&
      step(call.createConvolution(&convolution_)) &&
      step(call.setTensor4d(inputTensor_, kNchw, kFloat, narrow(x.n), narrow(x.c), narrow(x.h), narrow(x.w))) &&
      step(call.setTensor4d(outputTensor_, kNchw, kFloat, narrow(x.n), narrow(x.k), narrow(x.p), narrow(x.q))) &&
      step(call.setFilter4d(filter_, kFloat, kNchw, narrow(x.k), narrow(x.groupInputs()), narrow(x.r), narrow(x.s))) &&
      step(call.setConvolution2d(convolution_, narrow(x.padding.top), narrow(x.padding.left), narrow(x.stride.h),
                                 narrow(x.stride.w), narrow(x.dilation.h), narrow(x.dilation.w), kCrossCorrelation,
                                 kFloat)) &&
      step(call.setGroupCount(convolution_, narrow(x.groups))) && step(call.setMathType(convolution_, kFmaMath));
  return toStatus(*cudnn_, failed, "to describe the convolution");
}

Status CudnnConvolution::search(const float* input, const float* weight, float* output, Device& device) {
  Result<DeviceMemory> scratch = device.allocate(kMostWorkspaceBytes);
  for (int64_t bytes = kMostWorkspaceBytes; !scratch.isOk() && bytes > 1; bytes /= 2) scratch = device.allocate(bytes);
  if (!scratch.isOk()) return scratch.status();
  std::array<Found, 16> found{};
  int count = 0;
  const int code = cudnn_->functions().find(handle_, inputTensor_, input, filter_, weight, convolution_, outputTensor_,
                                            output, static_cast<int>(found.size()), &count, found.data(),
                                            scratch.value().data(), static_cast<size_t>(scratch.value().bytes()));
  if (Status status = toStatus(*cudnn_, code, "to search its algorithms"); !status.isOk()) return status;
  // Fastest first. The descriptor keeps it to multiply-adds; one that was timed with tensor cores would run otherwise.
  const auto best = std::find_if(found.begin(), found.begin() + count, [](const Found& one) {
    return one.status == kSuccess && (one.math == kFmaMath || one.math == kDefaultMath);
  });
  if (best == found.begin() + count) return unsupported("cuDNN has no algorithm for this problem in float32");
  algorithm_ = best->algorithm;
  Result<DeviceMemory> workspace = device.allocate(static_cast<int64_t>(best->workspaceBytes));
  if (!workspace.isOk()) return workspace.status();
  workspace_ = std::move(workspace.value());
  return {};
}

Status CudnnConvolution::enqueue(const float* input, const float* weight, float* output) const {
  const float one = 1;
  const float zero = 0;
  return toStatus(*cudnn_,
                  cudnn_->functions().forward(handle_, &one, inputTensor_, input, filter_, weight, convolution_,
                                              algorithm_, workspace_.data(), static_cast<size_t>(workspace_.bytes()),
                                              &zero, outputTensor_, output),
                  "to convolve");
}

const char* CudnnConvolution::algorithm() const { return kAlgorithms.at(static_cast<size_t>(algorithm_)); }

}  // namespace warpconv::cuda
