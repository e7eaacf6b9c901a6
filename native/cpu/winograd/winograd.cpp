#include "cpu/winograd/winograd.h"

#include <algorithm>
#include <cmath>

#include "cpu/algorithm/filter_panels.h"
#include "cpu/algorithm/helpers.h"
#include "cpu/algorithm/packing_timer.h"
#include "cpu/algorithm/range.h"
#include "cpu/microkernels/microkernel.h"
#include "cpu/sconv/sconv.h"
#include "cpu/sconv/window_views.h"
#include "cpu/vector/prefetch.h"
#include "cpu/winograd/filters.h"
#include "cpu/winograd/tiling.h"
#include "cpu/winograd/transforms.h"
#include "divide.h"
#include "memory/aligned_buffer.h"

namespace warpconv {
namespace {

using namespace winograd;

int64_t floatBytes(int64_t count) { return count * static_cast<int64_t>(sizeof(float)); }

/** Multiply-adds that take as long as the call, transforms included. */
double workOf(const ConvProblem& x, const Microkernel& kernel, const Tiling& tiling) {
  // What the outputs of a tile cost for each filter, counted in channels, and its inputs for each channel, counted in
  // filters: fitted to four layers on one Zen 4 core with AVX-512, within 8 % (docs/experiments.md).
  constexpr double kOutputChannels = 9;
  constexpr double kInputFilters = 4;
  // Fewer tiles take as long, because the filters have to be read all the same.
  constexpr int64_t kLeastTiles = 8;
  const auto tiles = static_cast<double>(x.n * x.groups * std::max(tiling.tiles, kLeastTiles));
  const auto channels = static_cast<double>(x.groupInputs());
  const auto filters = static_cast<double>(ceilDivide(x.groupOutputs(), kernel.lanes) * kernel.lanes);
  return tiles * kComponents * (channels * filters + kOutputChannels * filters + kInputFilters * channels);
}

/** Sets for each thread from which on it always has sets of its own: what fillsThreads comes to. */
constexpr int64_t kMostSharedSets = 6;

/**
 * Whether each thread has several sets of its own and few threads wait for the last; otherwise all share the
 * transformed inputs of an image, and wait for them (docs/experiments.md).
 */
bool fillsThreads(int64_t sets, int64_t threads) {
  constexpr double kLeastShare = 0.85;
  const auto places = static_cast<double>(ceilDivide(sets, threads) * threads);
  return sets >= 2 * threads && static_cast<double>(sets) >= kLeastShare * places;
}

class WinogradConvolution final : public CpuConvolution {
 public:
  WinogradConvolution(const ConvProblem& problem, const Activation& activation, const ConvWeights& weights,
                      const CpuInfo& cpu)
      : problem_(problem),
        activation_(activation),
        kernel_(widestMicrokernel(cpu.isaLevel)),
        transforms_(transforms(cpu.isaLevel)),
        tiling_(cutTiles(problem, kernel_.windows, cpu.caches)),
        filters_(problem, weights.filters, kernel_.filters, kernel_.lanes),
        bias_(problem.k),
        helpers_(workOf(problem, kernel_, tiling_)) {
    copyBias(problem, weights, bias_.data());
  }

  Status run(const ConvTensors& tensors, const RunContext& context) const override {
    const int64_t images = problem_.n * problem_.groups;
    const int64_t sets = ceilDivide(tiling_.groups, tiling_.groupsAtOnce);
    if (fillsThreads(images * sets, helpers_.threads(context))) {
      helpers_.parallelFor(context, images * sets, [&](int64_t task) {
        const Part part = partOf(tensors, context, task / sets);
        runAlone(part, slice(tiling_.groups, task % sets, sets));
      });
    } else {
      for (int64_t image = 0; image < images; ++image) runTogether(partOf(tensors, context, image));
    }
    return context.isCancelled() ? stoppedWhileRunning() : Status{};
  }

  int64_t bytes() const override { return bias_.bytes(); }

 private:
  /** One group of channels of one image. */
  struct Part {
    const ConvTensors* tensors;
    const RunContext* context;
    int64_t n;
    int64_t group;
  };
  /** The sums of a group of tiles and a panel of filters. */
  struct Block {
    const Part* part;
    const TileGroup* tiles;
    int64_t panel;
  };

  Part partOf(const ConvTensors& tensors, const RunContext& context, int64_t image) const {
    return {&tensors, &context, image / problem_.groups, image % problem_.groups};
  }

  const float* mapsOf(const Part& part) const {
    const ConvProblem& x = problem_;
    return part.tensors->input + (part.n * x.c + part.group * x.groupInputs()) * x.h * x.w;
  }

  /** Each thread transforms what it multiplies. */
  void runAlone(const Part& part, Range groups) const {
    AlignedBuffer transformed(groups.size() * groupFloats(problem_));
    for (int64_t group = groups.begin; group < groups.end && !part.context->isCancelled(); ++group) {
      transform(part, group, {0, problem_.groupInputs()}, slot(transformed.data(), group - groups.begin));
    }
    for (int64_t panel = 0; panel < filters_.given().tiles(); ++panel) {
      for (int64_t group = groups.begin; group < groups.end && !part.context->isCancelled(); ++group) {
        multiply(part, group, panel, slot(transformed.data(), group - groups.begin));
      }
    }
  }

  /** All tiles are transformed first, then each thread has filters of its own. */
  void runTogether(const Part& part) const {
    const RunContext& context = *part.context;
    AlignedBuffer transformed(tiling_.groups * groupFloats(problem_));
    const int64_t parts = Helpers::kPartsPerThread * helpers_.threads(context);
    const int64_t slices = std::clamp<int64_t>(parts / tiling_.groups, 1, ceilDivide(problem_.groupInputs(), 16));
    helpers_.parallelFor(context, tiling_.groups * slices, [&](int64_t task) {
      if (context.isCancelled()) return;
      const int64_t group = task / slices;
      transform(part, group, slice(problem_.groupInputs(), task % slices, slices), slot(transformed.data(), group));
    });
    const int64_t sets = std::clamp<int64_t>(parts / filters_.given().tiles(), 1, tiling_.groups);
    helpers_.parallelFor(context, filters_.given().tiles() * sets, [&](int64_t task) {
      const Range groups = slice(tiling_.groups, task % sets, sets);
      for (int64_t group = groups.begin; group < groups.end && !context.isCancelled(); ++group) {
        multiply(part, group, task / sets, slot(transformed.data(), group));
      }
    });
  }

  float* slot(float* transformed, int64_t index) const { return transformed + index * groupFloats(problem_); }

  void transform(const Part& part, int64_t group, Range channels, float* to) const {
    [[maybe_unused]] const PackingTimer timer;
    const TileGroup tiles = tiling_.group(group);
    const float* maps = mapsOf(part) + channels.begin * problem_.h * problem_.w;
    transforms_.inputs({&problem_, &tiles, maps, channels.size(), componentFloats(problem_)},
                       to + channels.begin * kPackedWindows);
  }

  void multiply(const Part& part, int64_t group, int64_t panel, const float* transformed) const {
    const TileGroup tiles = tiling_.group(group);
    alignas(64) float sums[kComponents * kPackedWindows * kMostFilters];
    alignas(64) float outputs[2 * kOutputRow];
    const Block block{&part, &tiles, panel};
    prefetchOutputs(block);
    for (int64_t i = 0; i < kComponents; ++i) {
      const float* component = transformed + i * componentFloats(problem_);
      const float* filters = filters_.transformed(part.group, panel, i);
      WindowView view = sconv::flatView(component, problem_.groupInputs(), kPackedWindows, tiles.tiles);
      // The next component's: 512 to 512 channels of 7 x 7 take 1.35 ms instead of 1.57 on a core of Zen 4.
      view.ahead = filters_.transformed(part.group, panel, i + 1) - filters;
      kernel_.multiply(tiles.tiles, filters_.given().widthOf(panel), view, filters,
                       sums + i * tiles.tiles * kMostFilters);
    }
    if (!transforms_.outputs(sums, tiles.tiles, filters_.given().widthOf(panel), outputs)) repair(block, outputs);
    store(block, outputs);
  }

  /** The rows and columns of a run that the output has. */
  sconv::WindowRows outputsOf(const TileRun& run) const {
    const int64_t p = 2 * run.row;
    const int64_t q = 2 * run.column;
    return {p, std::min<int64_t>(2, problem_.p - p), q, std::min(2 * run.count, problem_.q - q)};
  }

  /** Calls body(offset in the output of the first filter's first element, columns, row and first lane) for each row. */
  template <typename Body>
  void forEachRow(const Block& block, const Body& body) const {
    const ConvProblem& x = problem_;
    const int64_t map = block.part->n * x.k + firstFilter(block);
    for (int64_t i = 0; i < block.tiles->runCount; ++i) {
      const TileRun& run = block.tiles->runs[i];
      const sconv::WindowRows rows = outputsOf(run);
      for (int64_t r = 0; r < rows.rows; ++r) {
        body((map * x.p + rows.p + r) * x.q + rows.q, rows.columns, r, 2 * run.lane);
      }
    }
  }

  int64_t firstFilter(const Block& block) const {
    return block.part->group * problem_.groupOutputs() + block.panel * kernel_.filters;
  }

  /** Their rows would wait for memory one after the other. */
  void prefetchOutputs(const Block& block) const {
    const ConvTensors& tensors = *block.part->tensors;
    const int64_t filters = filters_.given().filtersOf(block.panel);
    const int64_t map = problem_.p * problem_.q;
    forEachRow(block, [&](int64_t offset, int64_t columns, int64_t, int64_t) {
      prefetchRows(tensors.output + offset, columns, filters, map);
      if (tensors.residual != nullptr) prefetchRows(tensors.residual + offset, columns, filters, map);
    });
  }

  void store(const Block& block, const float* outputs) const {
    const ConvTensors& tensors = *block.part->tensors;
    forEachRow(block, [&](int64_t offset, int64_t columns, int64_t row, int64_t lane) {
      const Finish finish{bias_.data() + firstFilter(block),
                          tensors.residual == nullptr ? nullptr : tensors.residual + offset, activation_};
      kernel_.store({.filters = filters_.given().filtersOf(block.panel),
                     .windows = columns,
                     .output = tensors.output + offset,
                     .rowStride = problem_.p * problem_.q,
                     .add = false,
                     .finish = &finish},
                    outputs + row * kOutputRow + lane * kMostFilters);
    });
  }

  /** Computes the tiles again that have an output that is not finite. */
  void repair(const Block& block, float* outputs) const {
    for (int64_t i = 0; i < block.tiles->runCount; ++i) {
      const TileRun& run = block.tiles->runs[i];
      for (int64_t tile = 0; tile < run.count; ++tile) {
        const sconv::WindowRows windows = outputsOf({run.lane + tile, 1, run.row, run.column + tile});
        float* first = outputs + 2 * (run.lane + tile) * kMostFilters;
        if (!areFinite(block, windows, first)) recompute(block, windows, first);
      }
    }
  }

  bool areFinite(const Block& block, const sconv::WindowRows& windows, const float* outputs) const {
    const int64_t filters = filters_.given().filtersOf(block.panel);
    for (int64_t r = 0; r < windows.rows; ++r) {
      for (int64_t s = 0; s < windows.columns; ++s) {
        const float* sums = outputs + r * kOutputRow + s * kMostFilters;
        if (!std::all_of(sums, sums + filters, [](float sum) { return std::isfinite(sum); })) return false;
      }
    }
    return true;
  }

  /** A tile from the definition, as sconv has it: padded elements are left out. */
  void recompute(const Block& block, const sconv::WindowRows& windows, float* outputs) const {
    const ConvProblem& x = problem_;
    uint16_t inside[3];
    for (int64_t s = 0; s < 3; ++s) inside[s] = sconv::columnsInside(x, windows, s);
    const int64_t count = windows.rows * windows.columns;
    const int64_t width = filters_.given().widthOf(block.panel);
    alignas(64) float sums[4 * kMostFilters];
    kernel_.multiply(count, width, sconv::viewInPlace(x, mapsOf(*block.part), x.groupInputs(), windows, inside),
                     filters_.given().at(block.part->group, block.panel, 0), sums);
    for (int64_t i = 0; i < count; ++i) {
      std::copy_n(sums + i * kMostFilters, width,
                  outputs + i / windows.columns * kOutputRow + i % windows.columns * kMostFilters);
    }
  }

  const ConvProblem problem_;
  const Activation activation_;
  const Microkernel& kernel_;
  const Transforms& transforms_;
  const Tiling tiling_;
  const Filters filters_;
  AlignedBuffer bias_;
  const Helpers helpers_;
};

/**
 * With fewer, an output may have a few small products only, beside roundings of all that its tile has. Uniform data in
 * [-1, 1), maps of 1 x 1 to 8 x 8, the largest error as a share of |x| * |w|, of which docs/numerics.md allows 4e-6:
 * 1.2e-2 with 1 channel, 1.6e-5 with 2, 3.6e-6 with 4, 4.5e-7 with 8. On positive data and maps of 5 x 5 to 14 x 14 it
 * is at most 1.2 of a sequential sum's with 8 channels, and 0.5 with 256.
 */
constexpr int64_t kLeastChannels = 8;

std::optional<std::string> refusal(const ConvProblem& x, const sconv::Switches&) {
  const bool isPlain = x.stride.h == 1 && x.stride.w == 1 && x.dilation.h == 1 && x.dilation.w == 1;
  if (x.r != 3 || x.s != 3 || !isPlain) {
    return "takes 3x3 filters at stride 1 and dilation 1; this problem is " + describe(x);
  }
  if (x.groupInputs() < kLeastChannels) {
    return "takes " + std::to_string(kLeastChannels) + " input channels per group or more, for its accuracy; this " +
           "problem has " + std::to_string(x.groupInputs());
  }
  return std::nullopt;
}

Estimate estimate(const ConvProblem& x, const CpuInfo& cpu, const sconv::Switches&) {
  const Microkernel& kernel = widestMicrokernel(cpu.isaLevel);
  const Tiling tiling = cutTiles(x, kernel.windows, cpu.caches);
  return {.milliseconds = workOf(x, kernel, tiling) / kernel.multiplyAddsPerMillisecond,
          // One thread's: a set of its own, or its share of what all transform together.
          .workspaceBytes = floatBytes(std::min(tiling.groups, kMostSharedSets * tiling.groupsAtOnce) * groupFloats(x)),
          .tiles = {{"N_win", ceilDivide(tiling.tiles, tiling.groups)},
                    {"N_f", kernel.filters},
                    {"groups", tiling.groups},
                    {"groupsAtOnce", tiling.groupsAtOnce}}};
}

bool isPacked(const ConvProblem& problem, const CpuInfo& cpu, const Weights& weights) {
  const Microkernel& kernel = widestMicrokernel(cpu.isaLevel);
  return Filters::areTransformed(problem, weights, kernel.filters, kernel.lanes);
}

std::unique_ptr<CpuConvolution> prepare(const ConvProblem& problem, const Activation& activation,
                                        const ConvWeights& weights, const CpuInfo& cpu,
                                        const sconv::Switches& switches) {
  // Outputs would not be finite, and would be computed twice.
  if (!canTransform(weights.filters)) return kSconv.prepare(problem, activation, weights, cpu, switches);
  return std::make_unique<WinogradConvolution>(problem, activation, weights, cpu);
}

}  // namespace

constexpr CpuAlgorithm kWinograd{"winograd", refusal, estimate, isPacked, prepare, false};

}  // namespace warpconv
