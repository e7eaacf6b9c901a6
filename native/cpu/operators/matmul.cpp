#include "cpu/epilogue.h"
#include "cpu/operators/operators.h"
#include "cpu/operators/ranges.h"

namespace warpconv::operators {
namespace {

/** The offset of matrix `index` of the batch, whose axes have the first of `strides`. */
int64_t batchOffset(const MatmulStep& step, const std::vector<int64_t>& strides, int64_t index) {
  int64_t offset = 0;
  for (size_t axis = step.batch.size(); axis-- > 0; index /= step.batch[axis]) {
    offset += index % step.batch[axis] * strides[axis];
  }
  return offset;
}

}  // namespace

void matmul(const MatmulStep& step, const float* left, const float* right, const float* bias, float* output,
            const RunContext& context) {
  int64_t matrices = 1;
  for (const int64_t extent : step.batch) matrices *= extent;
  const size_t rows = step.batch.size();
  const auto alpha = static_cast<float>(step.alpha);
  const auto beta = static_cast<float>(step.beta);
  forEachRange(context, matrices * step.m, step.n * step.k, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const int64_t matrix = row / step.m;
      const int64_t i = row % step.m;
      const float* a = left + batchOffset(step, step.leftStrides, matrix) + i * step.leftStrides[rows];
      const float* b = right + batchOffset(step, step.rightStrides, matrix);
      float* to = output + row * step.n;
      for (int64_t j = 0; j < step.n; ++j) {
        double sum = 0;
        for (int64_t k = 0; k < step.k; ++k) {
          sum += double{a[k * step.leftStrides[rows + 1]]} *
                 double{b[k * step.rightStrides[rows] + j * step.rightStrides[rows + 1]]};
        }
        to[j] = alpha * static_cast<float>(sum);
      }
      if (bias != nullptr) {
        const float* added = bias + batchOffset(step, step.biasStrides, matrix) + i * step.biasStrides[rows];
        for (int64_t j = 0; j < step.n; ++j) to[j] += beta * added[j * step.biasStrides[rows + 1]];
      }
      finishOutputs(to, step.n, 0.0f, nullptr, step.activation);
    }
  });
}

}  // namespace warpconv::operators
