#include "cuda/compare/cublas.h"

#include <algorithm>
#include <utility>

#include "cuda/compare/library.h"
#include "cuda/im2col/im2col.h"
#include "cuda/planning/shape.h"

namespace warpconv::cuda {

struct Cublas::Functions {
  int (*create)(void**);
  int (*destroy)(void*);
  int (*getVersion)(void*, int*);
  int (*setStream)(void*, cudaStream_t);
  int (*setWorkspace)(void*, void*, size_t);
  int (*setMathMode)(void*, int);
  const char* (*getStatusString)(int);
  int (*multiply)(void*, int, int, int, int, int, const float*, const float*, int, const float*, int, const float*,
                  float*, int);
  int (*multiplyAll)(void*, int, int, int, int, int, const float*, const float*, int, long long, const float*, int,
                     long long, const float*, float*, int, long long, int);
};

namespace {

// Values of cuBLAS's enumerations.
constexpr int kSuccess = 0;
constexpr int kNotTransposed = 0;
constexpr int kDefaultMath = 0;

/** What NVIDIA recommends from Hopper on. Without one of its own the library would allocate while a graph is captured.
 */
constexpr int64_t kWorkspaceBytes = int64_t{32} << 20;

/** Of column matrices at a time: enough to fill any device, and offsets fit into 32 bits. */
constexpr int64_t kMostColumns = int64_t{1} << 28;

}  // namespace

Cublas::Cublas() : functions_(std::make_unique<Functions>()) {}

Cublas::~Cublas() {
  // Fails only for what is no handle.
  if (handle_ != nullptr) (void)functions_->destroy(handle_);
}

Result<std::shared_ptr<const Cublas>> Cublas::open(const std::vector<std::string>& libraries, Device& device,
                                                   cudaStream_t stream) {
  const std::shared_ptr<Cublas> cublas(new Cublas);
  Functions& all = *cublas->functions_;
  const std::string tried = loadFirst(libraries, [&](Symbols& symbols) {
    symbols.find(all.create, "cublasCreate_v2");
    symbols.find(all.destroy, "cublasDestroy_v2");
    symbols.find(all.getVersion, "cublasGetVersion_v2");
    symbols.find(all.setStream, "cublasSetStream_v2");
    symbols.find(all.setWorkspace, "cublasSetWorkspace_v2");
    symbols.find(all.setMathMode, "cublasSetMathMode");
    symbols.find(all.getStatusString, "cublasGetStatusString");
    symbols.find(all.multiply, "cublasSgemm_v2");
    symbols.find(all.multiplyAll, "cublasSgemmStridedBatched");
  });
  if (!tried.empty()) {
    return unsupported(
        "cuBLAS was not found; install it (for example pip install nvidia-cublas) or set WARPCONV_CUBLAS to the path "
        "of its library. Tried:" +
        tried);
  }
  if (Status status = cublas->start(device, stream); !status.isOk()) return status;
  return std::shared_ptr<const Cublas>(cublas);
}

Status Cublas::start(Device& device, cudaStream_t stream) {
  Result<DeviceMemory> workspace = device.allocate(kWorkspaceBytes);
  if (!workspace.isOk()) return workspace.status();
  workspace_ = std::move(workspace.value());
  int failed = functions_->create(&handle_);
  // In this order: a new stream resets the workspace.
  if (failed == kSuccess) failed = functions_->setStream(handle_, stream);
  if (failed == kSuccess) {
    failed = functions_->setWorkspace(handle_, workspace_.data(), static_cast<size_t>(workspace_.bytes()));
  }
  if (failed == kSuccess) failed = functions_->setMathMode(handle_, kDefaultMath);
  return check(failed, "to start");
}

std::string Cublas::version() const {
  int number = 0;
  if (functions_->getVersion(handle_, &number) != kSuccess) return {};
  return std::to_string(number / 10000) + "." + std::to_string(number % 10000 / 100) + "." +
         std::to_string(number % 100);
}

Status Cublas::check(int code, const char* what) const {
  if (code == kSuccess) return {};
  return unsupported(std::string("cuBLAS failed ") + what + ": " + functions_->getStatusString(code));
}

Status Cublas::multiply(const Products& x, const float* a, const float* b, float* output) const {
  const float one = 1;
  const float zero = 0;
  const auto narrow = [](int64_t value) { return static_cast<int>(value); };
  const int m = narrow(x.m), n = narrow(x.n), k = narrow(x.k);
  // By columns, as the library reads matrices, this is output' = b' * a'.
  const int code =
      x.count == 1
          ? functions_->multiply(handle_, kNotTransposed, kNotTransposed, n, m, k, &one, b, n, a, k, &zero, output, n)
          : functions_->multiplyAll(handle_, kNotTransposed, kNotTransposed, n, m, k, &one, b, n, x.strideB, a, k,
                                    x.strideA, &zero, output, n, x.strideOutput, narrow(x.count));
  return check(code, "to multiply");
}

namespace {

class Im2colProduct final : public Contestant {
 public:
  Im2colProduct(std::shared_ptr<const Cublas> cublas, const ConvProblem& problem, const ContestTensors& tensors,
                cudaStream_t stream)
      : cublas_(std::move(cublas)), x_(problem), tensors_(tensors), stream_(stream) {}

  std::string algorithm() const override { return isMatrix() ? "product" : "im2col"; }

  int64_t workspaceBytes() const override {
    return isMatrix() ? 0 : imagesAtOnce() * columns() * static_cast<int64_t>(sizeof(float));
  }

  Status enqueue(void* workspace) const override {
    const int64_t most = imagesAtOnce();
    for (int64_t first = 0; first < x_.n; first += most) {
      const int64_t count = std::min(most, x_.n - first);
      const float* images = tensors_.input.floats() + first * x_.c * x_.h * x_.w;
      const float* matrices = isMatrix() ? images : static_cast<const float*>(workspace);
      if (!isMatrix()) {
        ConvProblem some = x_;
        some.n = count;
        Status status = launchIm2col(shapeOf(some), images, static_cast<float*>(workspace), stream_);
        if (!status.isOk()) return status;
      }
      float* output = tensors_.output.floats() + first * x_.k * pixels();
      if (Status status = multiply(count, matrices, output); !status.isOk()) return status;
    }
    return {};
  }

 private:
  int64_t pixels() const { return x_.p * x_.q; }
  /** Floats of one image's column matrix. */
  int64_t columns() const { return x_.c * x_.r * x_.s * pixels(); }
  /** The image is its own column matrix. */
  bool isMatrix() const { return x_.r * x_.s == 1 && x_.stride.h == 1 && x_.stride.w == 1 && !x_.hasPadding(); }
  int64_t imagesAtOnce() const { return isMatrix() ? x_.n : std::clamp<int64_t>(kMostColumns / columns(), 1, x_.n); }

  /** All images' products together, or where each group has filters of its own, all groups' of one image after another.
   */
  Status multiply(int64_t images, const float* matrices, float* output) const {
    const int64_t k = x_.groupOutputs(), filter = x_.filterSize();
    if (x_.groups == 1) {
      return cublas_->multiply({k, pixels(), filter, images, 0, columns(), k * pixels()}, tensors_.weight.floats(),
                               matrices, output);
    }
    for (int64_t image = 0; image < images; ++image) {
      const Cublas::Products products{k, pixels(), filter, x_.groups, k * filter, filter * pixels(), k * pixels()};
      Status status = cublas_->multiply(products, tensors_.weight.floats(), matrices + image * columns(),
                                        output + image * x_.k * pixels());
      if (!status.isOk()) return status;
    }
    return {};
  }

  const std::shared_ptr<const Cublas> cublas_;
  const ConvProblem x_;
  const ContestTensors& tensors_;
  const cudaStream_t stream_;
};

}  // namespace

Result<std::unique_ptr<Contestant>> makeIm2colProduct(std::shared_ptr<const Cublas> cublas, const ConvProblem& x,
                                                      const ContestTensors& tensors, cudaStream_t stream) {
  if (auto large = refuseLarge(x)) return unsupported("im2col " + *large);
  const int64_t columns = x.c * x.r * x.s * x.p * x.q;
  if (columns > kMaxExtent) {
    return unsupported("im2col takes column matrices of fewer than 2^31 elements for an image; this problem's has " +
                       std::to_string(columns));
  }
  return std::unique_ptr<Contestant>(std::make_unique<Im2colProduct>(std::move(cublas), x, tensors, stream));
}

}  // namespace warpconv::cuda
