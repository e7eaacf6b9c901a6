#include "cuda/compare/cublas_lt.h"

#include <array>
#include <utility>

#include "cuda/compare/cublas_functions.h"

namespace warpconv::cuda {
namespace {

// Values of the enumerations of cuBLASLt and of CUDA's element types.
constexpr int kFloat = 0;
constexpr int kComputeFloat = 68;
constexpr int kLayoutBatchCount = 5;
constexpr int kLayoutBatchStride = 6;
constexpr int kPreferenceWorkspace = 1;
/** Of the operands in the order A B C D, four attributes that follow each other */
constexpr int kPreferenceAlignment = 5;

/** More than the heuristics have */
constexpr int kMostAlgorithms = 32;

/** Matrices of several images or groups begin wherever the one before ends. */
constexpr uint32_t kFloatAlignment = sizeof(float);

}  // namespace

/**
 * The matrices of output = a * b as the library reads them, by columns: output' (n x m) = b' (n x k) * a' (k x m). The
 * first failure of its calls is kept.
 */
struct LtProduct::Layouts {
  explicit Layouts(const Cublas::Functions& functions, const Products& x) : call(functions) {
    step(call.createProduct(&product, kComputeFloat, kFloat));
    makeLayout(&b, x.n, x.k, x.count, x.strideB);
    makeLayout(&a, x.k, x.m, x.count, x.strideA);
    makeLayout(&output, x.n, x.m, x.count, x.strideOutput);
  }
  Layouts(const Layouts&) = delete;
  Layouts& operator=(const Layouts&) = delete;
  ~Layouts() {
    // Fails only for what is none.
    for (void* const layout : {a, b, output}) {
      if (layout != nullptr) (void)call.destroyLayout(layout);
    }
    if (product != nullptr) (void)call.destroyProduct(product);
  }

  void makeLayout(void** layout, int64_t rows, int64_t columns, int64_t count, int64_t stride) {
    step(call.createLayout(layout, kFloat, static_cast<uint64_t>(rows), static_cast<uint64_t>(columns), rows));
    if (count == 1 || failed != kCublasSuccess) return;
    const auto batches = static_cast<int32_t>(count);
    step(call.setLayoutAttribute(*layout, kLayoutBatchCount, &batches, sizeof(batches)));
    step(call.setLayoutAttribute(*layout, kLayoutBatchStride, &stride, sizeof(stride)));
  }
  void step(int code) {
    if (failed == kCublasSuccess) failed = code;
  }

  const Cublas::Functions& call;
  void* product = nullptr;
  void* a = nullptr;
  void* b = nullptr;
  void* output = nullptr;
  int failed = kCublasSuccess;
};

struct LtProduct::Algorithm {
  LtFound found;
};

LtProduct::LtProduct(std::shared_ptr<const Cublas> cublas, std::shared_ptr<const Layouts> layouts,
                     const Algorithm& algorithm)
    : cublas_(std::move(cublas)),
      layouts_(std::move(layouts)),
      algorithm_(std::make_unique<const Algorithm>(algorithm)) {}

LtProduct::~LtProduct() = default;

std::vector<std::shared_ptr<const LtProduct>> LtProduct::propose(const std::shared_ptr<const Cublas>& cublas,
                                                                 const Products& products) {
  std::vector<std::shared_ptr<const LtProduct>> proposed;
  const Cublas::Functions& call = cublas->functions();
  if (!cublas->hasLt()) return proposed;
  const auto layouts = std::make_shared<Layouts>(call, products);
  void* preference = nullptr;
  layouts->step(call.createPreference(&preference));
  if (layouts->failed != kCublasSuccess) return proposed;
  const auto workspace = static_cast<size_t>(cublas->workspace().bytes());
  layouts->step(call.setPreferenceAttribute(preference, kPreferenceWorkspace, &workspace, sizeof(workspace)));
  for (int operand = 0; operand < 4; ++operand) {
    layouts->step(call.setPreferenceAttribute(preference, kPreferenceAlignment + operand, &kFloatAlignment,
                                              sizeof(kFloatAlignment)));
  }
  std::array<LtFound, kMostAlgorithms> found{};
  int count = 0;
  layouts->step(call.findAlgorithms(cublas->handle(), layouts->product, layouts->b, layouts->a, layouts->output,
                                    layouts->output, preference, kMostAlgorithms, found.data(), &count));
  (void)call.destroyPreference(preference);
  if (layouts->failed != kCublasSuccess) return proposed;
  for (int i = 0; i < count; ++i) {
    if (found[static_cast<size_t>(i)].status != kCublasSuccess) continue;
    proposed.push_back(
        std::shared_ptr<const LtProduct>(new LtProduct(cublas, layouts, Algorithm{found[static_cast<size_t>(i)]})));
  }
  return proposed;
}

Status LtProduct::multiply(const float* a, const float* b, float* output) const {
  const float one = 1;
  const float zero = 0;
  const LtFound& found = algorithm_->found;
  const int code = layouts_->call.multiplyBy(cublas_->handle(), layouts_->product, &one, b, layouts_->b, a, layouts_->a,
                                             &zero, output, layouts_->output, output, layouts_->output, found.algorithm,
                                             cublas_->workspace().data(), found.workspaceBytes, cublas_->stream());
  return cublas_->check(code, "to multiply by an algorithm of cuBLASLt");
}

}  // namespace warpconv::cuda
