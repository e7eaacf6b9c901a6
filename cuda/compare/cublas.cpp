#include "cuda/compare/cublas.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "cuda/compare/cublas_functions.h"
#include "cuda/compare/cublas_lt.h"
#include "cuda/compare/library.h"
#include "cuda/im2col/im2col.h"
#include "cuda/planning/shape.h"

namespace warpconv::cuda {

namespace {

// Values of cuBLAS's enumerations.
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
    symbols.findOptional(all.setProductAttribute, "cublasLtMatmulDescSetAttribute");
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
         x.createProduct != nullptr && x.destroyProduct != nullptr && x.setProductAttribute != nullptr &&
         x.createPreference != nullptr && x.destroyPreference != nullptr && x.setPreferenceAttribute != nullptr &&
         x.findAlgorithms != nullptr && x.multiplyBy != nullptr;
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
  const int pitchA = narrow(x.pitchA), pitchB = narrow(x.pitchB), pitchOutput = narrow(x.pitchOutput);
  const int operation = x.isBTransposed ? kTransposed : kNotTransposed;
  // By columns, as the library reads matrices, this is output' = b' * a'.
  const int code = x.count == 1 ? functions_->multiply(handle_, operation, kNotTransposed, n, m, k, &one, b, pitchB, a,
                                                       pitchA, &zero, output, pitchOutput)
                                : functions_->multiplyAll(handle_, operation, kNotTransposed, n, m, k, &one, b, pitchB,
                                                          x.strideB, a, pitchA, x.strideA, &zero, output, pitchOutput,
                                                          x.strideOutput, narrow(x.count));
  return check(code, "to multiply");
}

namespace {

/** Elements of one image's column matrix. */
int64_t columnsOf(const ConvProblem& x) { return x.c * x.r * x.s * x.p * x.q; }

/** The image is its own column matrix. */
bool isMatrix(const ConvProblem& x) { return x.r * x.s == 1 && x.stride.h == 1 && x.stride.w == 1 && !x.hasPadding(); }

int64_t imagesAtOnce(const ConvProblem& x) {
  return isMatrix(x) ? x.n : std::clamp<int64_t>(kMostColumns / columnsOf(x), 1, x.n);
}

/**
 * In NCHW filters times column matrices: all images' products together, or where each group has filters of its own, all
 * groups' of one image.
 */
Products productsOf(const ConvProblem& x) {
  const int64_t k = x.groupOutputs(), filter = x.filterSize(), pixels = x.p * x.q;
  Products products{k, pixels, filter, x.n, 0, columnsOf(x), k * pixels, filter, pixels, pixels};
  if (x.groups == 1) return products;
  products.count = x.groups;
  products.strideA = k * filter;
  products.strideB = filter * pixels;
  return products;
}

/** In NHWC pixels of all images times filters, a group's channels beside the next one's. */
Products pixelProductsOf(const ConvProblem& x) {
  const int64_t k = x.groupOutputs(), c = x.groupInputs();
  return {x.n * x.p * x.q, k, c, x.groups, c, k * c, k, x.c, c, x.k, true};
}

/** By one way to multiply. */
class ProductContestant : public Contestant {
 public:
  /** `product`: one of cuBLASLt; null for cuBLAS's own choice, of float32. */
  ProductContestant(const ProductsRequest& request, std::shared_ptr<const LtProduct> product)
      : cublas_(request.cublas), product_(std::move(product)), x_(request.problem), tensors_(request.tensors) {}

  std::string algorithm() const override {
    return std::string(isMatrix(x_) ? "product" : "im2col") + (product_ == nullptr ? "" : ", Lt");
  }

 protected:
  const ConvProblem& problem() const { return x_; }
  const ContestTensors& tensors() const { return tensors_; }
  cudaStream_t stream() const { return cublas_->stream(); }

  Status multiply(const Products& products, const void* a, const void* b, void* output) const {
    if (product_ != nullptr) return product_->multiply(a, b, output);
    return cublas_->multiply(products, static_cast<const float*>(a), static_cast<const float*>(b),
                             static_cast<float*>(output));
  }

 private:
  const std::shared_ptr<const Cublas> cublas_;
  const std::shared_ptr<const LtProduct> product_;
  const ConvProblem x_;
  const ContestTensors& tensors_;
};

/** NHWC, with filters that visit every pixel. */
class PixelProduct final : public ProductContestant {
 public:
  using ProductContestant::ProductContestant;

  int64_t workspaceBytes() const override { return 0; }
  Status enqueue(void*) const override {
    return multiply(pixelProductsOf(problem()), tensors().input.data(), tensors().weight.data(),
                    tensors().output.data());
  }
};

/** NCHW. What is not its own column matrix is float32. */
class Im2colProduct final : public ProductContestant {
 public:
  using ProductContestant::ProductContestant;

  int64_t workspaceBytes() const override {
    return isMatrix(problem()) ? 0 : imagesAtOnce(problem()) * columns() * static_cast<int64_t>(sizeof(float));
  }

  Status enqueue(void* workspace) const override {
    const ConvProblem& x = problem();
    const int64_t most = imagesAtOnce(x);
    for (int64_t first = 0; first < x.n; first += most) {
      const int64_t count = std::min(most, x.n - first);
      const std::byte* matrices = at(static_cast<const std::byte*>(tensors().input.data()), first * x.c * x.h * x.w);
      if (!isMatrix(x)) {
        ConvProblem some = x;
        some.n = count;
        Status status = launchIm2col(shapeOf(some), reinterpret_cast<const float*>(matrices),
                                     static_cast<float*>(workspace), stream());
        if (!status.isOk()) return status;
        matrices = static_cast<const std::byte*>(workspace);
      }
      std::byte* output = at(static_cast<std::byte*>(tensors().output.data()), first * x.k * pixels());
      if (Status status = multiply(count, matrices, output); !status.isOk()) return status;
    }
    return {};
  }

 private:
  int64_t pixels() const { return problem().p * problem().q; }
  int64_t columns() const { return columnsOf(problem()); }
  /** Elements from the tensor's first to this one */
  template <typename Byte>
  Byte* at(Byte* first, int64_t elements) const {
    return first + elements * widthOf(tensors().format.type);
  }

  using ProductContestant::multiply;
  Status multiply(int64_t images, const std::byte* matrices, std::byte* output) const {
    const ConvProblem& x = problem();
    const void* const filters = tensors().weight.data();
    Products products = productsOf(x);
    if (x.groups == 1) {
      products.count = images;
      return multiply(products, filters, matrices, output);
    }
    for (int64_t image = 0; image < images; ++image) {
      Status status = multiply(products, filters, at(matrices, image * columns()), at(output, image * x.k * pixels()));
      if (!status.isOk()) return status;
    }
    return {};
  }
};

template <typename Product>
Contestants contestantsBy(const ProductsRequest& request, const Products& products) {
  Contestants contestants;
  if (request.arithmetic == Precision::fp32) contestants.push_back(std::make_unique<Product>(request, nullptr));
  // A proposal is for a number of matrices, which the last images may be fewer than.
  if (request.problem.groups == 1 && imagesAtOnce(request.problem) < request.problem.n) return contestants;
  for (auto& product : LtProduct::propose(request.cublas, products, request.arithmetic)) {
    contestants.push_back(std::make_unique<Product>(request, std::move(product)));
  }
  return contestants;
}

}  // namespace

Result<Contestants> makeProducts(const ProductsRequest& request) {
  const ConvProblem& x = request.problem;
  const TensorFormat& format = request.tensors.format;
  if (auto large = refuseLarge(x)) return unsupported("im2col " + *large);
  if (columnsOf(x) > kMaxExtent) {
    return unsupported("im2col takes column matrices of fewer than 2^31 elements for an image; this problem's has " +
                       std::to_string(columnsOf(x)));
  }
  if (!isMatrix(x) && format != TensorFormat{}) {
    return unsupported("im2col takes float32 in NCHW; other tensors are multiplied only by 1 x 1 filters, stride 1");
  }
  Contestants contestants = format.layout == Layout::nhwc ? contestantsBy<PixelProduct>(request, pixelProductsOf(x))
                                                          : contestantsBy<Im2colProduct>(request, productsOf(x));
  if (contestants.empty()) return unsupported("cuBLASLt has no algorithm for this product");
  return contestants;
}

}  // namespace warpconv::cuda
