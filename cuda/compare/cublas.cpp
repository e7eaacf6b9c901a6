#include "cuda/compare/cublas.h"

#include <algorithm>
#include <utility>

#include "cuda/compare/cublas_functions.h"
#include "cuda/compare/cublas_lt.h"
#include "cuda/compare/library.h"
#include "cuda/im2col/im2col.h"
#include "cuda/planning/shape.h"

namespace warpconv::cuda {

namespace {

// Values of cuBLAS's enumerations.
constexpr int kNotTransposed = 0;
constexpr int kCublasDefaultMath = 0;

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
    // The loader looks for these in what the library depends on, too.
    symbols.findOptional(all.createLayout, "cublasLtMatrixLayoutCreate");
    symbols.findOptional(all.destroyLayout, "cublasLtMatrixLayoutDestroy");
    symbols.findOptional(all.setLayoutAttribute, "cublasLtMatrixLayoutSetAttribute");
    symbols.findOptional(all.createProduct, "cublasLtMatmulDescCreate");
    symbols.findOptional(all.destroyProduct, "cublasLtMatmulDescDestroy");
    symbols.findOptional(all.createPreference, "cublasLtMatmulPreferenceCreate");
    symbols.findOptional(all.destroyPreference, "cublasLtMatmulPreferenceDestroy");
    symbols.findOptional(all.setPreferenceAttribute, "cublasLtMatmulPreferenceSetAttribute");
    symbols.findOptional(all.findAlgorithms, "cublasLtMatmulAlgoGetHeuristic");
    symbols.findOptional(all.multiplyBy, "cublasLtMatmul");
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
  stream_ = stream;
  int failed = functions_->create(&handle_);
  // In this order: a new stream resets the workspace.
  if (failed == kCublasSuccess) failed = functions_->setStream(handle_, stream);
  if (failed == kCublasSuccess) {
    failed = functions_->setWorkspace(handle_, workspace_.data(), static_cast<size_t>(workspace_.bytes()));
  }
  if (failed == kCublasSuccess) failed = functions_->setMathMode(handle_, kCublasDefaultMath);
  return check(failed, "to start");
}

bool Cublas::hasLt() const {
  const Functions& x = *functions_;
  return x.createLayout != nullptr && x.destroyLayout != nullptr && x.setLayoutAttribute != nullptr &&
         x.createProduct != nullptr && x.destroyProduct != nullptr && x.createPreference != nullptr &&
         x.destroyPreference != nullptr && x.setPreferenceAttribute != nullptr && x.findAlgorithms != nullptr &&
         x.multiplyBy != nullptr;
}

std::string Cublas::version() const {
  int number = 0;
  if (functions_->getVersion(handle_, &number) != kCublasSuccess) return {};
  return std::to_string(number / 10000) + "." + std::to_string(number % 10000 / 100) + "." +
         std::to_string(number % 100);
}

Status Cublas::check(int code, const char* what) const {
  if (code == kCublasSuccess) return {};
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

/** Floats of one image's column matrix. */
int64_t columnsOf(const ConvProblem& x) { return x.c * x.r * x.s * x.p * x.q; }

/** The image is its own column matrix. */
bool isMatrix(const ConvProblem& x) { return x.r * x.s == 1 && x.stride.h == 1 && x.stride.w == 1 && !x.hasPadding(); }

int64_t imagesAtOnce(const ConvProblem& x) {
  return isMatrix(x) ? x.n : std::clamp<int64_t>(kMostColumns / columnsOf(x), 1, x.n);
}

/** All images' products together, or where each group has filters of its own, all groups' of one image. */
Products productsOf(const ConvProblem& x) {
  const int64_t k = x.groupOutputs(), filter = x.filterSize(), pixels = x.p * x.q;
  if (x.groups == 1) return {k, pixels, filter, x.n, 0, columnsOf(x), k * pixels};
  return {k, pixels, filter, x.groups, k * filter, filter * pixels, k * pixels};
}

class Im2colProduct final : public Contestant {
 public:
  /** `product`: one of cuBLASLt for productsOf(problem); null for cuBLAS's own choice. */
  Im2colProduct(std::shared_ptr<const Cublas> cublas, std::shared_ptr<const LtProduct> product,
                const ConvProblem& problem, const ContestTensors& tensors, cudaStream_t stream)
      : cublas_(std::move(cublas)), product_(std::move(product)), x_(problem), tensors_(tensors), stream_(stream) {}

  std::string algorithm() const override {
    return std::string(isMatrix(x_) ? "product" : "im2col") + (product_ == nullptr ? "" : ", Lt");
  }

  int64_t workspaceBytes() const override {
    return isMatrix(x_) ? 0 : imagesAtOnce() * columns() * static_cast<int64_t>(sizeof(float));
  }

  Status enqueue(void* workspace) const override {
    const int64_t most = imagesAtOnce();
    for (int64_t first = 0; first < x_.n; first += most) {
      const int64_t count = std::min(most, x_.n - first);
      const float* images = tensors_.input.floats() + first * x_.c * x_.h * x_.w;
      const float* matrices = isMatrix(x_) ? images : static_cast<const float*>(workspace);
      if (!isMatrix(x_)) {
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
  int64_t imagesAtOnce() const { return warpconv::cuda::imagesAtOnce(x_); }
  int64_t pixels() const { return x_.p * x_.q; }
  int64_t columns() const { return columnsOf(x_); }

  Status multiply(int64_t images, const float* matrices, float* output) const {
    Products products = productsOf(x_);
    if (x_.groups == 1) {
      products.count = images;
      return multiply(products, matrices, output);
    }
    for (int64_t image = 0; image < images; ++image) {
      Status status = multiply(products, matrices + image * columns(), output + image * x_.k * pixels());
      if (!status.isOk()) return status;
    }
    return {};
  }

  Status multiply(const Products& products, const float* matrices, float* output) const {
    const float* const filters = tensors_.weight.floats();
    return product_ == nullptr ? cublas_->multiply(products, filters, matrices, output)
                               : product_->multiply(filters, matrices, output);
  }

  const std::shared_ptr<const Cublas> cublas_;
  const std::shared_ptr<const LtProduct> product_;
  const ConvProblem x_;
  const ContestTensors& tensors_;
  const cudaStream_t stream_;
};

}  // namespace

Result<Contestants> makeIm2colProducts(std::shared_ptr<const Cublas> cublas, const ConvProblem& x,
                                       const ContestTensors& tensors, cudaStream_t stream) {
  if (auto large = refuseLarge(x)) return unsupported("im2col " + *large);
  if (columnsOf(x) > kMaxExtent) {
    return unsupported("im2col takes column matrices of fewer than 2^31 elements for an image; this problem's has " +
                       std::to_string(columnsOf(x)));
  }
  Contestants contestants;
  const auto add = [&](std::shared_ptr<const LtProduct> product) {
    contestants.push_back(std::make_unique<Im2colProduct>(cublas, std::move(product), x, tensors, stream));
  };
  add(nullptr);
  // A proposal is for a number of matrices, which the last images may be fewer than.
  if (x.groups > 1 || imagesAtOnce(x) == x.n) {
    for (auto& product : LtProduct::propose(cublas, productsOf(x))) add(std::move(product));
  }
  return contestants;
}

}  // namespace warpconv::cuda
