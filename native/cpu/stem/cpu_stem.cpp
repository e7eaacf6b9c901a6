#include "cpu/stem/cpu_stem.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <string>
#include <vector>

#include "cpu/algorithm/filter_panels.h"
#include "cpu/algorithm/helpers.h"
#include "cpu/algorithm/range.h"
#include "cpu/direct/cpu_direct.h"
#include "cpu/microkernels/microkernel.h"
#include "cpu/vector/prefetch.h"
#include "divide.h"
#include "memory/aligned_buffer.h"

namespace warpconv {
namespace {

/** Floats of a band's rows, at most: with the outputs a half of an L2 cache of 1 MB. */
constexpr int64_t kMostBandFloats = 65'536;
/** Of any microkernel */
constexpr int64_t kMostLanes = 16;
/** Floats of rows that one Zen 5 core packs */
constexpr double kPackedFloatsPerMillisecond = 1e7;
/** Vectors that a tile of only one takes as long as: it waits for its sums, and loads a filter's weight for one
 * product. */
constexpr double kLoneVector = 1.45;

/** Where packed elements lie: rows[c][h][phase][i], with `height` rows of a channel. */
struct PackedRows {
  int64_t phases;
  int64_t phaseFloats;

  PackedRows(const ConvProblem& x, int64_t lanes)
      : phases(x.stride.w), phaseFloats(roundUp(x.q, lanes) + (x.s - 1) * x.dilation.w / x.stride.w + 1) {}

  int64_t rowFloats() const { return saturatedProduct({phases, phaseFloats}); }
  int64_t floats(int64_t channels, int64_t height) const { return saturatedProduct({channels, height, rowFloats()}); }
};

/** Input rows that the windows of this many adjacent output rows span. */
int64_t heightOf(const ConvProblem& x, int64_t outputRows) {
  return (outputRows - 1) * x.stride.h + (x.r - 1) * x.dilation.h + 1;
}

/** Output rows whose input rows have room; 0 where one row's have none. */
int64_t mostBandRows(const ConvProblem& x, const PackedRows& rows) {
  const int64_t ofHeight = rows.floats(x.groupInputs(), 1);
  if (ofHeight > kMostBandFloats) return 0;
  const int64_t height = kMostBandFloats / ofHeight;
  const int64_t first = heightOf(x, 1);
  return height < first ? 0 : std::min(x.p, (height - first) / x.stride.h + 1);
}

/** How one phase is filled: with a row's columns first, first + phases, first + 2 * phases, …, and zeros around them.
 */
struct Phase {
  int64_t first;
  /** Of the phase, in the packed row */
  int64_t at;
  /** Zeros before the columns, and how many columns have room */
  int64_t before;
  int64_t count;
};

std::vector<Phase> phasesOf(const ConvProblem& x, const PackedRows& rows) {
  std::vector<Phase> phases;
  for (int64_t first = 0; first < rows.phases; ++first) {
    const int64_t column = first + x.padding.left;
    const int64_t before = std::min(rows.phaseFloats, column / rows.phases);
    const int64_t columns = first < x.w ? ceilDivide(x.w - first, rows.phases) : 0;
    phases.push_back(
        {first, column % rows.phases * rows.phaseFloats, before, std::min(columns, rows.phaseFloats - before)});
  }
  return phases;
}

class StemConvolution final : public CpuConvolution {
 public:
  StemConvolution(const ConvProblem& problem, const Activation& activation, const ConvWeights& weights,
                  const Microkernel& kernel)
      : problem_(problem),
        activation_(activation),
        kernel_(kernel),
        rows_(problem, kernel.windowStep),
        phases_(phasesOf(problem, rows_)),
        panels_(problem, weights.filters, kernel.filters, kernel.lanes),
        bias_(problem.k),
        helpers_(problem.multiplyAdds()) {
    copyBias(problem, weights, bias_.data());
  }

  Status run(const ConvTensors& tensors, const RunContext& context) const override {
    const ConvProblem& x = problem_;
    const int64_t maps = x.n * x.groups;
    const int64_t bandRows = bandRowsFor(helpers_.threads(context));
    const int64_t bands = ceilDivide(x.p, bandRows);
    const std::vector<int64_t> offsets = offsetsOf(heightOf(x, bandRows));
    helpers_.parallelFor(context, maps * bands, [&](int64_t task) {
      const int64_t first = task % bands * bandRows;
      const Range rows{first, std::min(x.p, first + bandRows)};
      convolveBand(tensors, task / bands, rows, heightOf(x, bandRows), offsets, context);
    });
    return context.isCancelled() ? stoppedWhileRunning() : Status{};
  }

  int64_t bytes() const override { return bias_.bytes(); }

 private:
  /** Bands for every thread, where there are rows enough: what is in two bands is packed twice. */
  int64_t bandRowsFor(unsigned threads) const {
    const int64_t most = mostBandRows(problem_, rows_);
    if (threads == 1) return most;
    const int64_t parts =
        ceilDivide(Helpers::kPartsPerThread * static_cast<int64_t>(threads), problem_.n * problem_.groups);
    return std::min(most, ceilDivide(problem_.p, parts));
  }

  /** Of each element of a filter, from the first window of a band's first row on */
  std::vector<int64_t> offsetsOf(int64_t height) const {
    const ConvProblem& x = problem_;
    std::vector<int64_t> offsets;
    offsets.reserve(static_cast<size_t>(x.filterSize()));
    for (int64_t c = 0; c < x.groupInputs(); ++c) {
      for (int64_t r = 0; r < x.r; ++r) {
        const int64_t row = (c * height + r * x.dilation.h) * rows_.rowFloats();
        for (int64_t s = 0; s < x.s; ++s) {
          const int64_t column = s * x.dilation.w;
          offsets.push_back(row + column % rows_.phases * rows_.phaseFloats + column / rows_.phases);
        }
      }
    }
    return offsets;
  }

  /** The output rows of one group of one image: `map` counts those. */
  void convolveBand(const ConvTensors& tensors, int64_t map, Range outputRows, int64_t height,
                    const std::vector<int64_t>& offsets, const RunContext& context) const {
    if (context.isCancelled()) return;
    const ConvProblem& x = problem_;
    AlignedBuffer packed(rows_.floats(x.groupInputs(), height));
    packRows(tensors.input + map * x.groupInputs() * x.h * x.w, outputRows, height, packed.data());
    for (int64_t p = outputRows.begin; p < outputRows.end && !context.isCancelled(); ++p) {
      const float* row = packed.data() + (p - outputRows.begin) * x.stride.h * rows_.rowFloats();
      convolveRow(tensors, map, p, row, offsets);
    }
  }

  void packRows(const float* maps, Range outputRows, int64_t height, float* packed) const {
    const ConvProblem& x = problem_;
    const int64_t first = outputRows.begin * x.stride.h - x.padding.top;
    const int64_t count = heightOf(x, outputRows.size());
    for (int64_t c = 0; c < x.groupInputs(); ++c) {
      for (int64_t i = 0; i < count; ++i) {
        const int64_t h = first + i;
        float* to = packed + (c * height + i) * rows_.rowFloats();
        if (h < 0 || h >= x.h) {
          std::fill_n(to, rows_.rowFloats(), 0.0f);
        } else {
          packRow(maps + (c * x.h + h) * x.w, to);
        }
      }
    }
  }

  void packRow(const float* from, float* to) const {
    int64_t paired = 0;
    if (rows_.phases == 2) {
      const Phase &even = phases_[0], &odd = phases_[1];
      paired = std::min(even.count, odd.count);
      kernel_.splitPairs(from, paired, to + even.at + even.before, to + odd.at + odd.before);
    }
    for (const Phase& phase : phases_) {
      float* const row = to + phase.at;
      float* const columns = row + phase.before;
      std::fill(row, columns, 0.0f);
      if (rows_.phases == 1) {
        std::memcpy(columns, from, static_cast<size_t>(phase.count) * sizeof(float));
      } else {
        for (int64_t i = paired; i < phase.count; ++i) columns[i] = from[phase.first + i * rows_.phases];
      }
      std::fill(columns + phase.count, row + rows_.phaseFloats, 0.0f);
    }
  }

  /** Tiles of as many vectors as one another, or of one more: a tile of one vector waits for its sums. */
  void convolveRow(const ConvTensors& tensors, int64_t map, int64_t p, const float* row,
                   const std::vector<int64_t>& offsets) const {
    const ConvProblem& x = problem_;
    const int64_t vectors = ceilDivide(x.q, kernel_.windowStep);
    const int64_t tiles = ceilDivide(x.q, kernel_.windows);
    for (int64_t tile = 0; tile < tiles; ++tile) {
      const Range part = slice(vectors, tile, tiles);
      const Range windows{part.begin * kernel_.windowStep, std::min(x.q, part.end * kernel_.windowStep)};
      for (int64_t panel = 0; panel < panels_.tiles(); ++panel) {
        multiply(tensors, map, panel, p * x.q + windows.begin, windows.size(), row + windows.begin, offsets);
      }
    }
  }

  /** `at` is the first output's place in its map. */
  void multiply(const ConvTensors& tensors, int64_t map, int64_t panel, int64_t at, int64_t windows, const float* first,
                const std::vector<int64_t>& offsets) const {
    const ConvProblem& x = problem_;
    const int64_t group = map % x.groups;
    const int64_t k = group * x.groupOutputs() + panel * kernel_.filters;
    const int64_t offset = (map / x.groups * x.k + k) * x.p * x.q + at;
    const float* residual = tensors.residual == nullptr ? nullptr : tensors.residual + offset;
    const Finish finish{bias_.data() + k, residual, activation_};
    WindowView view{};
    view.first = first;
    view.taps = x.filterSize();
    view.offsets = offsets.data();
    if (outgrowsCache(x.outputSize(), residual != nullptr)) {
      view.outputs = {tensors.output + offset, residual, panels_.filtersOf(panel), x.p * x.q, windows};
    }
    kernel_.convolve({.filters = panels_.filtersOf(panel),
                      .windows = windows,
                      .output = tensors.output + offset,
                      .rowStride = x.p * x.q,
                      .add = false,
                      .finish = &finish},
                     panels_.widthOf(panel), view, panels_.at(group, panel, 0));
  }

  const ConvProblem problem_;
  const Activation activation_;
  const Microkernel& kernel_;
  const PackedRows rows_;
  const std::vector<Phase> phases_;
  const FilterPanels panels_;
  AlignedBuffer bias_;
  const Helpers helpers_;
};

std::optional<std::string> refusal(const ConvProblem& problem, const sconv::Switches&) {
  // Their windows are adjacent as they are.
  if (problem.r * problem.s == 1) return "takes filters of several elements; this problem's are 1x1";
  if (mostBandRows(problem, {problem, kMostLanes}) > 0) return std::nullopt;
  return "takes windows whose input rows fill " + std::to_string(kMostBandFloats) +
         " floats at most; those of one output row fill more";
}

/** Of one output row of all channels: whole vectors of windows, whole panels of filters. */
double multiplyAddsOfRow(const ConvProblem& x, const Microkernel& kernel) {
  const int64_t vectors = ceilDivide(x.q, kernel.windowStep);
  const double windows =
      (vectors == 1 ? kLoneVector : static_cast<double>(vectors)) * static_cast<double>(kernel.windowStep);
  const auto filters = static_cast<double>(x.groups * roundUp(x.groupOutputs(), kernel.filters));
  return windows * filters * (static_cast<double>(x.filterSize()) + kernel.storeElements);
}

Estimate estimate(const ConvProblem& x, const CpuInfo& cpu, const sconv::Switches&) {
  const Microkernel& kernel = laneMicrokernel(cpu.isaLevel);
  const PackedRows rows(x, kernel.windowStep);
  const int64_t bandRows = mostBandRows(x, rows);
  const int64_t bandFloats = rows.floats(x.groupInputs(), heightOf(x, bandRows));
  const auto images = static_cast<double>(x.n);
  const double packed =
      images * static_cast<double>(x.groups * ceilDivide(x.p, bandRows)) * static_cast<double>(bandFloats);
  const double multiplied = images * static_cast<double>(x.p) * multiplyAddsOfRow(x, kernel);
  return {.milliseconds = multiplied / kernel.multiplyAddsPerMillisecond + packed / kPackedFloatsPerMillisecond,
          .workspaceBytes = bandFloats * static_cast<int64_t>(sizeof(float)),
          .tiles = {{"bandRows", bandRows}, {"N_win", kernel.windows}, {"N_f", kernel.filters}}};
}

bool isPacked(const ConvProblem& problem, const CpuInfo& cpu, const Weights& weights) {
  const Microkernel& kernel = laneMicrokernel(cpu.isaLevel);
  return FilterPanels::arePacked(problem, weights, kernel.filters, kernel.lanes);
}

std::unique_ptr<CpuConvolution> prepare(const ConvProblem& problem, const Activation& activation,
                                        const ConvWeights& weights, const CpuInfo& cpu, const sconv::Switches&) {
  // Padded elements are zeros here.
  if (mustSkipPadding(problem, weights.filters)) return prepareDirect(problem, activation, weights);
  return std::make_unique<StemConvolution>(problem, activation, weights, laneMicrokernel(cpu.isaLevel));
}

}  // namespace

constexpr CpuAlgorithm kStem{"stem", refusal, estimate, isPacked, prepare};

}  // namespace warpconv
