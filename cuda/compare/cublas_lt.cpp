#include "cuda/compare/cublas_lt.h"

#include <array>
#include <numeric>
#include <utility>

#include "cuda/compare/cublas_functions.h"

namespace warpconv::cuda {
namespace {

// Values of the enumerations of cuBLASLt and of CUDA's element types.
constexpr int kFloat = 0;
constexpr int kHalf = 2;
constexpr int kBfloat16 = 14;
constexpr int kComputeFloat = 68;
constexpr int kComputeTf32 = 77;
constexpr int kProductTransposeA = 3;
constexpr int kLayoutBatchCount = 5;
constexpr int kLayoutBatchStride = 6;
constexpr int kPreferenceWorkspace = 1;
/** Of the operands in the order A B C D, four attributes that follow each other */
constexpr int kPreferenceAlignment = 5;

/** More than the heuristics have */
constexpr int kMostAlgorithms = 32;

int elementOf(FloatType type) {
  switch (type) {
    case FloatType::float32: return kFloat;
    case FloatType::float16: return kHalf;
    case FloatType::bfloat16: return kBfloat16;
  }
  return kFloat;
}

/**
 * Bytes that each of an operand's matrices begins at a multiple of: one of several begins wherever the one before ends.
 * Tensor cores want 16. Multiply-adds are asked for the least, by which all stored results were found.
 */
uint32_t alignmentOf(int64_t count, int64_t stride, Precision arithmetic) {
  if (arithmetic == Precision::fp32) return sizeof(float);
  if (count == 1) return DeviceMemory::kAlignment;
  return static_cast<uint32_t>(std::gcd(DeviceMemory::kAlignment, stride * widthOf(typeFor(arithmetic))));
}

}  // namespace

/**
 * The matrices of output = a * b as the library reads them, by columns: output' (n x m) = b' (n x k) * a' (k x m). The
 * first failure of its calls is kept.
 */
struct LtProduct::Layouts {
  explicit Layouts(const Cublas::Functions& functions, const Products& x, Precision arithmetic)
      : call(functions), element(elementOf(typeFor(arithmetic))) {
    step(call.createProduct(&product, arithmetic == Precision::tf32 ? kComputeTf32 : kComputeFloat, kFloat));
    if (x.isBTransposed) {
      const int32_t transposed = kTransposed;
      step(call.setProductAttribute(product, kProductTransposeA, &transposed, sizeof(transposed)));
      makeLayout(&b, x.k, x.n, x.pitchB, x.count, x.strideB);
    } else {
      makeLayout(&b, x.n, x.k, x.pitchB, x.count, x.strideB);
    }
    makeLayout(&a, x.k, x.m, x.pitchA, x.count, x.strideA);
    makeLayout(&output, x.n, x.m, x.pitchOutput, x.count, x.strideOutput);
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

  void makeLayout(void** layout, int64_t rows, int64_t columns, int64_t pitch, int64_t count, int64_t stride) {
    if (failed != kCublasSuccess) return;
    step(call.createLayout(layout, element, static_cast<uint64_t>(rows), static_cast<uint64_t>(columns), pitch));
    if (count == 1 || failed != kCublasSuccess) return;
    const auto batches = static_cast<int32_t>(count);
    step(call.setLayoutAttribute(*layout, kLayoutBatchCount, &batches, sizeof(batches)));
    step(call.setLayoutAttribute(*layout, kLayoutBatchStride, &stride, sizeof(stride)));
  }
  void step(int code) {
    if (failed == kCublasSuccess) failed = code;
  }

  const Cublas::Functions& call;
  const int element;
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
                                                                 const Products& x, Precision arithmetic) {
  std::vector<std::shared_ptr<const LtProduct>> proposed;
  const Cublas::Functions& call = cublas->functions();
  if (!cublas->hasLt()) return proposed;
  const auto layouts = std::make_shared<Layouts>(call, x, arithmetic);
  void* preference = nullptr;
  layouts->step(call.createPreference(&preference));
  if (layouts->failed != kCublasSuccess) return proposed;
  const auto workspace = static_cast<size_t>(cublas->workspace().bytes());
  layouts->step(call.setPreferenceAttribute(preference, kPreferenceWorkspace, &workspace, sizeof(workspace)));
  const std::array<int64_t, 4> strides{x.strideB, x.strideA, x.strideOutput, x.strideOutput};
  for (int operand = 0; operand < 4; ++operand) {
    const uint32_t alignment = alignmentOf(x.count, strides[static_cast<size_t>(operand)], arithmetic);
    layouts->step(
        call.setPreferenceAttribute(preference, kPreferenceAlignment + operand, &alignment, sizeof(alignment)));
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

Status LtProduct::multiply(const void* a, const void* b, void* output) const {
  const float one = 1;
  const float zero = 0;
  const LtFound& found = algorithm_->found;
  const int code = layouts_->call.multiplyBy(cublas_->handle(), layouts_->product, &one, b, layouts_->b, a, layouts_->a,
                                             &zero, output, layouts_->output, output, layouts_->output, found.algorithm,
                                             cublas_->workspace().data(), found.workspaceBytes, cublas_->stream());
  return cublas_->check(code, "to multiply by an algorithm of cuBLASLt");
}

}  // namespace warpconv::cuda
