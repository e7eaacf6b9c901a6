#include "cpu/sconv/sconv.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "cpu/direct/direct.h"
#include "cpu/microkernels/microkernel.h"
#include "cpu/sconv/divide.h"
#include "cpu/sconv/filter_panels.h"
#include "cpu/sconv/slicing.h"
#include "memory/aligned_buffer.h"

namespace warpconv {
namespace {

using namespace sconv;

/** A half-open range of tiles. */
struct Range {
  int64_t begin;
  int64_t end;

  int64_t size() const { return end - begin; }
};

/** Part `index` of `parts` nearly equal ones of 0 to `count`. */
Range slice(int64_t count, int64_t index, int64_t parts) {
  return {count * index / parts, count * (index + 1) / parts};
}

/** Calls `body` with consecutive ranges of at most `count` tiles. */
template <typename Body>
void forEachSet(Range tiles, int64_t count, Body body) {
  for (int64_t begin = tiles.begin; begin < tiles.end; begin += count) {
    body(Range{begin, std::min(tiles.end, begin + count)});
  }
}

/** A pointwise convolution at stride 1 reads its windows as they lie. */
bool needsPacking(const ConvProblem& x) { return x.r * x.s > 1 || x.stride.h * x.stride.w > 1 || x.hasPadding(); }

/** Below this a second thread costs more than it brings: about 40 microseconds of one thread's work. */
constexpr double kLeastParallelMultiplyAdds = 4e6;
/** Parts for each thread, so that one that starts late holds up little. */
constexpr int64_t kPartsPerThread = 2;

class SlicedConvolution final : public PreparedConvolution {
 public:
  SlicedConvolution(const ConvProblem& problem, const Activation& activation, const ConvWeights& weights,
                    const Slicing& slicing, const Microkernel& kernel)
      : problem_(problem),
        activation_(activation),
        slicing_(slicing),
        kernel_(kernel),
        panels_(problem, weights.weight, slicing.filters, kernel.lanes),
        bias_(problem.k) {
    copyBias(problem, weights, bias_.data());
  }

  Status run(const ConvTensors& tensors, const RunContext& context) const override {
    const bool alone = problem_.multiplyAdds() < kLeastParallelMultiplyAdds;
    const Partition parts = partition(alone ? 1 : context.threads());
    const int64_t tasksPerGroup = parts.inputs * parts.filters;
    const RunContext helpers{alone ? nullptr : context.executor, context.cancellation};
    helpers.parallelFor(problem_.n * problem_.groups * tasksPerGroup, [&](int64_t task) {
      const int64_t part = task % tasksPerGroup;
      const int64_t group = task / tasksPerGroup;
      const Range inputs = slice(inputTiles(), part / parts.filters, parts.inputs);
      const Range filters = slice(panels_.tiles(), part % parts.filters, parts.filters);
      runPart(tensors, {group / problem_.groups, group % problem_.groups}, inputs, filters, context);
    });
    return context.isCancelled() ? stoppedWhileRunning() : Status{};
  }

  int64_t bytes() const override { return panels_.bytes() + bias_.bytes(); }

 private:
  /** How many parts the tiles of one group are dealt out in. */
  struct Partition {
    int64_t inputs;
    int64_t filters;
  };
  struct GroupOfImage {
    int64_t n;
    int64_t group;
  };
  /** Channels of a group, `count` from `first` on. */
  struct ChannelSet {
    int64_t first;
    int64_t count;
  };
  /** What one thread works on. */
  struct Part {
    const ConvTensors* tensors;
    GroupOfImage at;
    float* packed;
    const RunContext* context;
  };
  /** The windows of one input tile as the micro-kernel reads them: element e of window i lies at data[e * stride + i].
   */
  struct Windows {
    const float* data;
    int64_t stride;
  };

  int64_t inputTiles() const { return ceilDivide(problem_.p * problem_.q, slicing_.windows); }
  int64_t tileFloats() const { return slicing_.channels * problem_.r * problem_.s * kPackedWindows; }
  int64_t channelSets() const { return ceilDivide(problem_.groupInputs(), slicing_.channels); }
  ChannelSet channelSet(int64_t index) const {
    const int64_t first = index * slicing_.channels;
    return {first, std::min(slicing_.channels, problem_.groupInputs() - first)};
  }

  /**
   * Along the axis with more tiles. Which tiles a thread gets changes nothing in how each is computed, so the output is
   * bitwise the same for any number of threads.
   */
  Partition partition(unsigned threads) const {
    if (threads == 1) return {1, 1};
    const int64_t groups = problem_.n * problem_.groups;
    const int64_t parts = ceilDivide(kPartsPerThread * static_cast<int64_t>(threads), groups);
    if (panels_.tiles() > inputTiles()) return {1, std::min(parts, panels_.tiles())};
    return {std::min(parts, inputTiles()), 1};
  }

  void runPart(const ConvTensors& tensors, const GroupOfImage& at, Range inputs, Range filters,
               const RunContext& context) const {
    const bool inputStationary = slicing_.schedule == Schedule::inputStationary;
    const int64_t slots = inputStationary ? 1 : std::min(slicing_.k2, inputs.size());
    AlignedBuffer packed(needsPacking(problem_) ? slots * tileFloats() : 0);
    const Part part{&tensors, at, packed.data(), &context};
    inputStationary ? runInputStationary(part, inputs, filters) : runWeightStationary(part, inputs, filters);
  }

  /**
   * Input-stationary (Figure 5): each input tile is packed right before it meets K2 filter tiles. The paper's outermost
   * loop, over channel sets, runs inside that over K3 tiles, so that sums waiting for the next set are still in the
   * cache.
   */
  void runInputStationary(const Part& part, Range inputs, Range filters) const {
    forEachSet(inputs, slicing_.k3, [&](Range stationary) {
      for (int64_t c = 0; c < channelSets(); ++c) {
        forEachSet(filters, slicing_.k2, [&](Range moving) {
          for (int64_t input = stationary.begin; input < stationary.end; ++input) {
            if (part.context->isCancelled()) return;
            pack(part, channelSet(c), input, 0);
            for (int64_t filter = moving.begin; filter < moving.end; ++filter) {
              multiply(part, channelSet(c), input, filter, 0);
            }
          }
        });
      }
    });
  }

  /** The same with the roles exchanged: K2 input tiles are packed together and meet each of K3 filter tiles. */
  void runWeightStationary(const Part& part, Range inputs, Range filters) const {
    forEachSet(filters, slicing_.k3, [&](Range stationary) {
      forEachSet(inputs, slicing_.k2, [&](Range moving) {
        for (int64_t c = 0; c < channelSets(); ++c) {
          for (int64_t input = moving.begin; input < moving.end; ++input) {
            pack(part, channelSet(c), input, input - moving.begin);
          }
          for (int64_t filter = stationary.begin; filter < stationary.end; ++filter) {
            if (part.context->isCancelled()) return;
            for (int64_t input = moving.begin; input < moving.end; ++input) {
              multiply(part, channelSet(c), input, filter, input - moving.begin);
            }
          }
        }
      });
    });
  }

  Range windowsOf(int64_t input) const {
    const int64_t begin = input * slicing_.windows;
    return {begin, std::min(begin + slicing_.windows, problem_.p * problem_.q)};
  }

  const float* mapsOf(const Part& part, const ChannelSet& set) const {
    const ConvProblem& x = problem_;
    return part.tensors->input + (part.at.n * x.c + part.at.group * x.groupInputs() + set.first) * x.h * x.w;
  }

  /** Packs an input tile into a slot of the workspace, unless it can be read as it lies. */
  void pack(const Part& part, const ChannelSet& set, int64_t input, int64_t slot) const {
    const ConvProblem& x = problem_;
    if (!needsPacking(x)) return;
    std::array<WindowSegment, kPackedWindows> segments;
    size_t count = 0;
    const Range windows = windowsOf(input);
    for (int64_t window = windows.begin; window < windows.end;) {
      const int64_t p = window / x.q;
      const int64_t q = window % x.q;
      const int64_t length = std::min(x.q - q, windows.end - window);
      segments[count++] = {window - windows.begin, length, p * x.stride.h - x.padding.top,
                           q * x.stride.w - x.padding.left};
      window += length;
    }
    kernel_.pack({&x, segments.data(), static_cast<int64_t>(count), mapsOf(part, set), set.count},
                 part.packed + slot * tileFloats());
  }

  Windows windowsAt(const Part& part, const ChannelSet& set, int64_t input, int64_t slot) const {
    if (needsPacking(problem_)) return {part.packed + slot * tileFloats(), kPackedWindows};
    return {mapsOf(part, set) + windowsOf(input).begin, problem_.h * problem_.w};
  }

  void multiply(const Part& part, const ChannelSet& set, int64_t input, int64_t filter, int64_t slot) const {
    const ConvProblem& x = problem_;
    const auto& [n, group] = part.at;
    const Range range = windowsOf(input);
    const Windows windows = windowsAt(part, set, input, slot);
    alignas(64) float sums[kPackedWindows * kMostFilters];
    kernel_.multiply(range.size(), panels_.widthOf(filter), set.count * x.r * x.s, windows.data, windows.stride,
                     panels_.at(group, filter, set.first), sums);

    const int64_t k = group * x.groupOutputs() + filter * slicing_.filters;
    const int64_t offset = (n * x.k + k) * x.p * x.q + range.begin;
    const float* residual = part.tensors->residual;
    const Finish finish{bias_.data() + k, residual == nullptr ? nullptr : residual + offset, activation_};
    const bool last = set.first + set.count == x.groupInputs();
    kernel_.store({.filters = panels_.filtersOf(filter),
                   .windows = range.size(),
                   .output = part.tensors->output + offset,
                   .rowStride = x.p * x.q,
                   .add = set.first > 0,
                   .finish = last ? &finish : nullptr},
                  sums);
  }

  const ConvProblem problem_;
  const Activation activation_;
  const Slicing slicing_;
  const Microkernel& kernel_;
  const FilterPanels panels_;
  AlignedBuffer bias_;
};

const Microkernel& chooseKernel(const CpuInfo& cpu) {
  const Microkernel* best = microkernels().front();
  for (const Microkernel* kernel : microkernels()) {
    if (kernel->isa <= cpu.isaLevel) best = kernel;
  }
  return *best;
}

Slicing slicingOf(const ConvProblem& problem, const CpuInfo& cpu) {
  const Microkernel& kernel = chooseKernel(cpu);
  return sliceConvolution(problem, {kernel.windows, kernel.filters}, cpu.caches);
}

int64_t workspaceOf(const ConvProblem& problem, const Slicing& slicing) {
  if (!needsPacking(problem)) return 0;
  const int64_t tiles = slicing.schedule == Schedule::inputStationary ? 1 : slicing.k2;
  return tiles * slicing.channels * problem.r * problem.s * kPackedWindows * static_cast<int64_t>(sizeof(float));
}

std::optional<std::string> refusal(const ConvProblem&) { return std::nullopt; }

Estimate estimate(const ConvProblem& problem, const CpuInfo& cpu) {
  // One Zen 5 core packs 3 x 3 windows at 6e6 elements a millisecond and 7 x 7 ones at stride 2 at 4e6.
  constexpr double kPackedElementsPerMillisecond = 5e6;
  const Microkernel& kernel = chooseKernel(cpu);
  const Slicing slicing = slicingOf(problem, cpu);
  const double elements = static_cast<double>(problem.n * problem.p * problem.q * problem.groups) *
                          static_cast<double>(problem.filterSize());
  const auto filters = static_cast<double>(ceilDivide(problem.groupOutputs(), kernel.lanes) * kernel.lanes);
  const double packing = needsPacking(problem) ? elements / kPackedElementsPerMillisecond : 0;
  const bool weightStationary = slicing.schedule == Schedule::weightStationary;
  return {.milliseconds = elements * filters / kernel.multiplyAddsPerMillisecond + packing,
          .workspaceBytes = workspaceOf(problem, slicing),
          .tiles = {{"N_win", slicing.windows},
                    {"N_f", slicing.filters},
                    {"N_c", slicing.channels},
                    {"K2", slicing.k2},
                    {"K3", slicing.k3},
                    {"weightStationary", weightStationary ? 1 : 0},
                    {"costCycles", std::llround(slicing.cost)},
                    {"otherCostCycles", std::llround(slicing.otherCost)}}};
}

std::unique_ptr<PreparedConvolution> prepare(const ConvProblem& problem, const Activation& activation,
                                             const ConvWeights& weights, const CpuInfo& cpu) {
  // A packed tile multiplies padded elements by zero, which an infinite or NaN weight would turn into NaN.
  if (problem.hasPadding() && !allFinite(weights.weight, problem.weightSize())) {
    return prepareDirect(problem, activation, weights, cpu);
  }
  return std::make_unique<SlicedConvolution>(problem, activation, weights, slicingOf(problem, cpu), chooseKernel(cpu));
}

}  // namespace

constexpr CpuAlgorithm kSconv{"sconv", refusal, estimate, prepare};

}  // namespace warpconv
