#include "cpu/im2col/cpu_im2col.h"

#include <algorithm>

#include "cpu/algorithm/packing_timer.h"
#include "cpu/direct/cpu_direct.h"
#include "cpu/sconv/sconv.h"
#include "cpu/sconv/slicing.h"
#include "divide.h"
#include "memory/aligned_buffer.h"

namespace warpconv {
namespace {

/** Rows and columns of the matrix: an element of a window, and a window. */
int64_t matrixSize(const ConvProblem& x) { return x.filterSize() * x.p * x.q; }

int64_t workspaceFloats(const ConvProblem& x) { return sconv::isFlat(x) ? 0 : matrixSize(x); }

/** The product of one group's filters and one matrix, as a convolution: there is one unless the problem is refused. */
Result<ConvProblem> productOf(const ConvProblem& x) {
  ConvRequest request;
  request.inputDims = {1, x.filterSize(), x.p, x.q};
  request.weightDims = {x.groupOutputs(), x.filterSize(), 1, 1};
  return makeConvProblem(request);
}

/** One element of each window of an output row: `row` is the input row, or null in padding, `w` the first column. */
void writeElement(const ConvProblem& x, const float* row, int64_t w, float* to) {
  // Window q is inside where 0 <= w + q * stride < W.
  const int64_t begin = row == nullptr ? x.q : std::min(x.q, ceilDivide(std::max<int64_t>(-w, 0), x.stride.w));
  const int64_t end = std::clamp(ceilDivide(std::max<int64_t>(x.w - w, 0), x.stride.w), begin, x.q);
  std::fill_n(to, begin, 0.0f);
  if (x.stride.w == 1) {
    if (begin < end) std::copy_n(row + w + begin, end - begin, to + begin);
  } else {
    for (int64_t q = begin; q < end; ++q) to[q] = row[w + q * x.stride.w];
  }
  std::fill(to + end, to + x.q, 0.0f);
}

/** rows[r * S + s][p * Q + q]: the rows of the matrix that one input channel fills. */
void writeChannel(const ConvProblem& x, const float* map, float* rows) {
  for (int64_t r = 0; r < x.r; ++r) {
    for (int64_t s = 0; s < x.s; ++s) {
      for (int64_t p = 0; p < x.p; ++p, rows += x.q) {
        const int64_t h = p * x.stride.h + r * x.dilation.h - x.padding.top;
        writeElement(x, h >= 0 && h < x.h ? map + h * x.w : nullptr, s * x.dilation.w - x.padding.left, rows);
      }
    }
  }
}

/** Below this a second thread costs more than it brings: about 40 microseconds of writing. */
constexpr int64_t kLeastParallelElements = 100'000;

class Im2colConvolution final : public CpuConvolution {
 public:
  Im2colConvolution(const ConvProblem& problem, const Activation& activation, const ConvWeights& weights,
                    const CpuInfo& cpu)
      : problem_(problem) {
    const ConvProblem product = productOf(problem).value();
    if (problem.groups == 1) {
      products_.push_back(kSconv.prepare(product, activation, weights, cpu, {}));
      return;
    }
    for (int64_t group = 0; group < problem.groups; ++group) {
      const int64_t k = group * problem.groupOutputs();
      const auto filters = weights.filters.part(k, problem.groupOutputs());
      const ConvWeights own{*filters, weights.bias == nullptr ? nullptr : weights.bias + k};
      products_.push_back(kSconv.prepare(product, activation, own, cpu, {}));
      ownBytes_ += filters->bytes();
    }
  }

  Status run(const ConvTensors& tensors, const RunContext& context) const override {
    const ConvProblem& x = problem_;
    AlignedBuffer columns(workspaceFloats(x));
    for (int64_t task = 0; task < x.n * x.groups; ++task) {
      const float* maps = tensors.input + task * x.groupInputs() * x.h * x.w;
      if (!sconv::isFlat(x)) writeColumns(maps, columns.data(), context);
      const int64_t output = task * x.groupOutputs() * x.p * x.q;
      const ConvTensors product{sconv::isFlat(x) ? maps : columns.data(),
                                tensors.residual == nullptr ? nullptr : tensors.residual + output,
                                tensors.output + output};
      const Status status = products_[static_cast<size_t>(task % x.groups)]->run(product, context);
      if (!status.isOk()) return status;
    }
    return context.isCancelled() ? stoppedWhileRunning() : Status{};
  }

  int64_t bytes() const override {
    int64_t total = ownBytes_;
    for (const auto& product : products_) total += product->bytes();
    return total;
  }

 private:
  /** columns[(c * R + r) * S + s][p * Q + q] = maps[c][p * stride + r * dilation - padding][likewise] */
  void writeColumns(const float* maps, float* columns, const RunContext& context) const {
    const ConvProblem& x = problem_;
    [[maybe_unused]] const PackingTimer timer;
    const RunContext helpers{matrixSize(x) < kLeastParallelElements ? nullptr : context.executor, nullptr};
    helpers.parallelFor(x.groupInputs(), [&](int64_t c) {
      if (!context.isCancelled()) writeChannel(x, maps + c * x.h * x.w, columns + c * x.r * x.s * x.p * x.q);
    });
  }

  const ConvProblem problem_;
  /** One for each group */
  std::vector<std::unique_ptr<CpuConvolution>> products_;
  /** Of the forms of single groups, which nobody shares */
  int64_t ownBytes_ = 0;
};

std::optional<std::string> refusal(const ConvProblem& problem, const sconv::Switches&) {
  if (productOf(problem).isOk()) return std::nullopt;
  return "takes matrices of at most 2^40 elements in fewer than 2^31 rows; this problem's has " +
         std::to_string(problem.filterSize()) + " rows and " + std::to_string(problem.p * problem.q) + " columns";
}

Estimate estimate(const ConvProblem& problem, const CpuInfo& cpu, const sconv::Switches&) {
  // Writing the matrix, and reading it back from farther than sconv's tiles. Elements for each millisecond that im2col
  // takes longer than sconv (bench/cpu/packing.ts) on one Zen 4 core: 5.5e6 on 3x3 at 56x56, 1.9e6 at 14x14, 0.9e6 at
  // 7x7, 2.3e6 at 224x224, 1.8e6 on 7x7 at stride 2. A call that asks for more than 32 MB pays for new pages besides
  // (glibc), three times as much.
  constexpr double kElementsPerMillisecond = 2e6;
  const Estimate product = kSconv.estimate(productOf(problem).value(), cpu, {});
  const auto count = static_cast<double>(problem.n * problem.groups);
  const double writing = static_cast<double>(workspaceFloats(problem)) / kElementsPerMillisecond;
  const double multiplying = std::max(count * product.milliseconds, kSconv.estimate(problem, cpu, {}).milliseconds);
  return {.milliseconds = multiplying + count * writing,
          .workspaceBytes = workspaceFloats(problem) * static_cast<int64_t>(sizeof(float)) + product.workspaceBytes,
          .tiles = product.tiles};
}

bool isPacked(const ConvProblem& problem, const CpuInfo& cpu, const Weights& weights) {
  return problem.groups == 1 && kSconv.isPacked(productOf(problem).value(), cpu, weights);
}

std::unique_ptr<CpuConvolution> prepare(const ConvProblem& problem, const Activation& activation,
                                        const ConvWeights& weights, const CpuInfo& cpu, const sconv::Switches&) {
  // The matrix holds zeros for padded elements.
  if (mustSkipPadding(problem, weights.filters)) return prepareDirect(problem, activation, weights);
  return std::make_unique<Im2colConvolution>(problem, activation, weights, cpu);
}

}  // namespace

constexpr CpuAlgorithm kIm2col{"im2col", refusal, estimate, isPacked, prepare};

}  // namespace warpconv
