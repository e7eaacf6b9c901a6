#include <array>

#include "cpu/algorithm/epilogue.h"
#include "cpu/microkernels/microkernel.h"
#include "cpu/operators/cpu_operators.h"
#include "cpu/operators/ranges.h"
#include "cpu/operators/transpose.h"
#include "cpu/vector_loops/vector_loops.h"
#include "divide.h"
#include "memory/aligned_buffer.h"

namespace warpconv::operators {
namespace {

/** One matrix of an operand. */
struct Matrix {
  const float* data;
  int64_t rowStride;
  int64_t columnStride;

  const float* at(int64_t row, int64_t column) const { return data + row * rowStride + column * columnStride; }
  Matrix transposed() const { return {data, columnStride, rowStride}; }
};

/** One product of the batch. */
struct Product {
  Matrix left, right;
  /** Null data for none */
  Matrix bias;
  /** m x n */
  float* output;
};

struct Operands {
  const MatmulStep& step;
  const float* left;
  const float* right;
  const float* bias;
  float* output;

  int64_t count() const {
    int64_t matrices = 1;
    for (const int64_t extent : step.batch) matrices *= extent;
    return matrices;
  }

  Product product(int64_t index) const {
    return {matrix(left, step.leftStrides, index), matrix(right, step.rightStrides, index),
            bias == nullptr ? Matrix{} : matrix(bias, step.biasStrides, index), output + index * step.m * step.n};
  }

 private:
  Matrix matrix(const float* data, const std::vector<int64_t>& strides, int64_t index) const {
    const size_t axes = step.batch.size();
    for (size_t axis = axes; axis-- > 0; index /= step.batch[axis]) data += index % step.batch[axis] * strides[axis];
    return {data, strides[axes], strides[axes + 1]};
  }
};

/** output = activation(alpha * sums + beta * bias) for `count` outputs of row i from column j on; sums may be it. */
void finishRow(const MatmulStep& step, const Product& product, int64_t i, int64_t j, int64_t count, const float* sums,
               float* output) {
  const auto alpha = static_cast<float>(step.alpha);
  const auto beta = static_cast<float>(step.beta);
  if (product.bias.data == nullptr) {
    for (int64_t c = 0; c < count; ++c) output[c] = alpha * sums[c];
  } else {
    const float* bias = product.bias.at(i, j);
    const int64_t stride = product.bias.columnStride;
    if (stride == 1) {
      for (int64_t c = 0; c < count; ++c) output[c] = alpha * sums[c] + beta * bias[c];
    } else {
      for (int64_t c = 0; c < count; ++c) output[c] = alpha * sums[c] + beta * bias[c * stride];
    }
  }
  if (step.activation.kind != ActivationKind::none) finishOutputs(output, count, 0.0f, nullptr, step.activation);
}

// ------------------------------------------------------------------------------------------- few rows, or columns

/**
 * Products of at most FewRows::kMost rows with a matrix, or of a matrix with so few columns, which is the transpose of
 * such a product: the matrix is read once, as it lies.
 */
class FewRowsMatmul {
 public:
  static bool takes(const MatmulStep& step) {
    const size_t axes = step.batch.size();
    const bool isTurned = turns(step);
    const auto& strides = isTurned ? step.leftStrides : step.rightStrides;
    return std::min(step.m, step.n) <= FewRows::kMost && (strides[axes] == 1 || strides[axes + 1] == 1);
  }

  FewRowsMatmul(const Operands& operands, const VectorLoops& loops)
      : operands_(operands),
        loops_(loops),
        isTurned_(turns(operands.step)),
        rows_(std::min(operands.step.m, operands.step.n)),
        columns_(std::max(operands.step.m, operands.step.n)),
        isByRows_(isAdjacentInRows(operands.step)) {}

  void run(const RunContext& context) const {
    const int64_t width = blockColumns(context.threads());
    const int64_t blocks = ceilDivide(columns_, width);
    forEachRange(context, operands_.count() * blocks, width * operands_.step.k, [&](int64_t begin, int64_t end) {
      AlignedBuffer sums(rows_ * width);
      for (int64_t i = begin; i < end; ++i) {
        const int64_t column = i % blocks * width;
        multiplyBlock(operands_.product(i / blocks), column, std::min(width, columns_ - column), sums);
      }
    });
  }

 private:
  /** Sums that fit the L1 cache beside what they are made of */
  static constexpr int64_t kMostSums = 4096;
  /** Of a row no thread takes less than 1 KB. */
  static constexpr int64_t kLeastColumns = 256;

  /** A column's sums are the same in a block of any width, so that this may depend on the threads. */
  int64_t blockColumns(int64_t threads) const {
    // Where a thread walks along rows, the longer its part of them is, the better the memory foresees it.
    const int64_t share = ceilDivide(columns_, threads == 1 || isByRows_ ? threads : kPartsPerThread * threads);
    const int64_t least = std::min(isByRows_ ? kLeastColumns : 1, columns_);
    return std::clamp(share, least, std::max(kMostSums / rows_, least));
  }

  static bool isAdjacentInRows(const MatmulStep& step) {
    const size_t axes = step.batch.size();
    const int64_t rowStride = turns(step) ? step.leftStrides[axes + 1] : step.rightStrides[axes];
    const int64_t columnStride = turns(step) ? step.leftStrides[axes] : step.rightStrides[axes + 1];
    // Where both are adjacent, one extent is 1: along the longer one.
    return columnStride == 1 && (rowStride != 1 || std::max(step.m, step.n) > step.k);
  }

  static bool turns(const MatmulStep& step) { return step.n < step.m; }

  void multiplyBlock(const Product& product, int64_t column, int64_t count, AlignedBuffer& sums) const {
    const MatmulStep& step = operands_.step;
    const Matrix few = isTurned_ ? product.right.transposed() : product.left;
    const Matrix right = isTurned_ ? product.left.transposed() : product.right;
    AlignedBuffer packed(few.columnStride == 1 ? 0 : rows_ * step.k);
    for (int64_t i = 0; i < rows_ && few.columnStride != 1; ++i) {
      for (int64_t k = 0; k < step.k; ++k) packed.data()[i * step.k + k] = *few.at(i, k);
    }
    const FewRows request{.left = few.columnStride == 1 ? few.data : packed.data(),
                          .leftStride = few.columnStride == 1 ? few.rowStride : step.k,
                          .rows = rows_,
                          .right = right.at(0, column),
                          .rightStride = isByRows_ ? right.rowStride : right.columnStride,
                          .columns = count,
                          .k = step.k,
                          .sums = sums.data(),
                          .sumsStride = count};
    isByRows_ ? loops_.multiplyRows(request) : loops_.multiplyColumns(request);
    isTurned_ ? storeTurned(product, column, count, sums.data()) : store(product, column, count, sums.data());
  }

  void store(const Product& product, int64_t column, int64_t count, const float* sums) const {
    for (int64_t i = 0; i < rows_; ++i) {
      finishRow(operands_.step, product, i, column, count, sums + i * count, product.output + i * columns_ + column);
    }
  }

  void storeTurned(const Product& product, int64_t column, int64_t count, const float* sums) const {
    for (int64_t i = column; i < column + count; ++i) {
      std::array<float, FewRows::kMost> row;
      for (int64_t j = 0; j < rows_; ++j) row[static_cast<size_t>(j)] = sums[j * count + i - column];
      finishRow(operands_.step, product, i, 0, rows_, row.data(), product.output + i * rows_);
    }
  }

  const Operands& operands_;
  const VectorLoops& loops_;
  const bool isTurned_;
  const int64_t rows_;
  const int64_t columns_;
  /** Whether it is along its rows that the large matrix has adjacent elements */
  const bool isByRows_;
};

// ------------------------------------------------------------------------------------------------------ any other

const Microkernel& chooseKernel(Isa isa) {
  const Microkernel* best = microkernels().front();
  for (const Microkernel* kernel : microkernels()) {
    if (kernel->isa <= isa) best = kernel;
  }
  return *best;
}

/** dst[i * width + v] = element i < k of vector v < count, both with a stride of their own, and zeros in lanes beyond.
 */
void packVectors(const Microkernel& kernel, const float* from, int64_t stride, int64_t elementStride, int64_t count,
                 int64_t k, int64_t width, float* dst) {
  if (elementStride == 1 && kernel.turn != nullptr) return kernel.turn(from, stride, count, k, width, dst);
  if (count < width) {
    for (int64_t i = 0; i < k; ++i) std::fill(dst + i * width + count, dst + (i + 1) * width, 0.0f);
  }
  if (elementStride == 1) {
    for (int64_t i = 0; i < k; i += kStripColumns) {
      transposeStrip(from + i, stride, count, std::min(kStripColumns, k - i), dst + i * width, width);
    }
  } else if (stride == 1) {
    for (int64_t i = 0; i < k; ++i) std::copy_n(from + i * elementStride, count, dst + i * width);
  } else {
    for (int64_t i = 0; i < k; ++i) {
      for (int64_t v = 0; v < count; ++v) dst[i * width + v] = from[v * stride + i * elementStride];
    }
  }
}

/** Part of a product: rows of the right matrix and its columns, in tiles. */
struct Block {
  int64_t k;
  int64_t kCount;
  int64_t column;
  int64_t columnCount;
};

/**
 * Blocks of the right matrix are packed into panels for the micro-kernel, whose filters they are; rows of the left one,
 * packed too, are its windows. The sums of an output are the same whoever computes it.
 */
class BlockedMatmul {
 public:
  BlockedMatmul(const Operands& operands, const Microkernel& kernel) : operands_(operands), kernel_(kernel) {}

  void run(const RunContext& context) const {
    const MatmulStep& step = operands_.step;
    const int64_t products = operands_.count();
    const double work = static_cast<double>(products * step.m) * static_cast<double>(step.n * step.k);
    const RunContext alone{.executor = nullptr, .cancellation = context.cancellation};
    const RunContext& helpers = work < kLeastParallelMultiplyAdds ? alone : context;
    if (products < kProductsPerThread * helpers.threads()) {
      const auto sleepers = work < kLeastWakingMultiplyAdds ? Executor::Sleepers::leave : Executor::Sleepers::wake;
      for (int64_t i = 0; i < products; ++i) multiply(operands_.product(i), helpers, sleepers);
    } else {
      helpers.parallelFor(products,
                          [&](int64_t i) { multiply(operands_.product(i), alone, Executor::Sleepers::leave); });
    }
  }

 private:
  /** As for sconv, whose micro-kernel this is. */
  static constexpr double kLeastParallelMultiplyAdds = 1e6;
  static constexpr double kLeastWakingMultiplyAdds = 4e6;
  /** From so many on, threads take whole products. */
  static constexpr int64_t kProductsPerThread = 2;
  /** A block of 512 KB stays in the L2 cache, while a panel of it and the windows stay in the L1 cache. */
  static constexpr int64_t kBlockRows = 256;
  static constexpr int64_t kBlockColumns = 512;

  void multiply(const Product& product, const RunContext& context, Executor::Sleepers sleepers) const {
    const MatmulStep& step = operands_.step;
    AlignedBuffer panels(std::min(step.k, kBlockRows) * roundUp(std::min(step.n, kBlockColumns)));
    if (step.k == 0) return finish(product, {0, 0, 0, step.n}, 0, step.m);
    for (int64_t column = 0; column < step.n; column += kBlockColumns) {
      for (int64_t k = 0; k < step.k; k += kBlockRows) {
        const Block block{k, std::min(kBlockRows, step.k - k), column, std::min(kBlockColumns, step.n - column)};
        const auto forEach = [&](int64_t count, const auto& body) {
          context.parallelFor(
              count,
              [&](int64_t i) {
                if (!context.isCancelled()) body(i);
              },
              sleepers);
        };
        forEach(ceilDivide(block.columnCount, kernel_.filters),
                [&](int64_t panel) { packPanel(product, block, panel, panels.data()); });
        forEach(ceilDivide(step.m, kernel_.windows),
                [&](int64_t tile) { multiplyRows(product, block, tile * kernel_.windows, panels.data()); });
      }
    }
  }

  /** In whole vectors */
  int64_t roundUp(int64_t columns) const { return ceilDivide(columns, kernel_.lanes) * kernel_.lanes; }

  int64_t widthOf(const Block& block, int64_t panel) const {
    return std::min(kernel_.filters, roundUp(block.columnCount - panel * kernel_.filters));
  }

  void packPanel(const Product& product, const Block& block, int64_t panel, float* panels) const {
    const int64_t first = panel * kernel_.filters;
    const Matrix& right = product.right;
    packVectors(kernel_, right.at(block.k, block.column + first), right.columnStride, right.rowStride,
                std::min(kernel_.filters, block.columnCount - first), block.kCount, widthOf(block, panel),
                panels + first * block.kCount);
  }

  /** The rows of one tile of windows, from `row` on. */
  void multiplyRows(const Product& product, const Block& block, int64_t row, const float* panels) const {
    const MatmulStep& step = operands_.step;
    const int64_t rows = std::min(kernel_.windows, step.m - row);
    alignas(64) std::array<float, kBlockRows * kPackedWindows> windows;
    const Matrix& left = product.left;
    packVectors(kernel_, left.at(row, block.k), left.rowStride, left.columnStride, rows, block.kCount, kPackedWindows,
                windows.data());
    const WindowView view{.first = windows.data(),
                          .second = windows.data() + rows / 2,
                          .channels = 1,
                          .rows = 1,
                          .taps = block.kCount,
                          .channelStride = 0,
                          .rowStride = 0,
                          .tapStride = kPackedWindows,
                          .step = 1,
                          .filterElements = block.kCount,
                          .padded = {}};
    for (int64_t first = 0; first < block.columnCount; first += kernel_.filters) {
      alignas(64) std::array<float, kPackedWindows * kMostFilters> sums;
      kernel_.multiply(rows, widthOf(block, first / kernel_.filters), view, panels + first * block.kCount, sums.data());
      const int64_t count = std::min(kernel_.filters, block.columnCount - first);
      for (int64_t i = 0; i < rows; ++i) {
        float* to = product.output + (row + i) * step.n + block.column + first;
        const float* from = sums.data() + i * kMostFilters;
        if (block.k == 0) {
          std::copy_n(from, count, to);
        } else {
          for (int64_t j = 0; j < count; ++j) to[j] += from[j];
        }
      }
    }
    if (block.k + block.kCount == step.k) finish(product, block, row, row + rows);
  }

  void finish(const Product& product, const Block& block, int64_t begin, int64_t end) const {
    const MatmulStep& step = operands_.step;
    for (int64_t i = begin; i < end; ++i) {
      float* row = product.output + i * step.n + block.column;
      if (step.k == 0) std::fill_n(row, block.columnCount, 0.0f);
      finishRow(step, product, i, block.column, block.columnCount, row, row);
    }
  }

  const Operands& operands_;
  const Microkernel& kernel_;
};

}  // namespace

void matmul(const MatmulStep& step, const float* left, const float* right, const float* bias, float* output,
            const RunContext& context) {
  const Operands operands{step, left, right, bias, output};
  if (FewRowsMatmul::takes(step)) {
    FewRowsMatmul(operands, vectorLoops(context.isa)).run(context);
  } else {
    BlockedMatmul(operands, chooseKernel(context.isa)).run(context);
  }
}

}  // namespace warpconv::operators
