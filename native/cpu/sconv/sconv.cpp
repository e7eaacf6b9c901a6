#include "cpu/sconv/sconv.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "cpu/algorithm/filter_panels.h"
#include "cpu/algorithm/helpers.h"
#include "cpu/algorithm/packing_timer.h"
#include "cpu/algorithm/range.h"
#include "cpu/direct/cpu_direct.h"
#include "cpu/microkernels/microkernel.h"
#include "cpu/microkernels/portable.h"
#include "cpu/sconv/slicing.h"
#include "cpu/sconv/subsampled.h"
#include "cpu/sconv/window_views.h"
#include "cpu/vector/prefetch.h"
#include "divide.h"
#include "memory/aligned_buffer.h"
#include "weights/second_form.h"

namespace warpconv {
namespace {

using namespace sconv;

/** Calls `body` with consecutive ranges of at most `count` tiles. */
template <typename Body>
void forEachSet(Range tiles, int64_t count, Body body) {
  for (int64_t begin = tiles.begin; begin < tiles.end; begin += count) {
    body(Range{begin, std::min(tiles.end, begin + count)});
  }
}

/** Scratch floats that a set of `tiles` adjacent input tiles needs. */
int64_t workspaceFloats(const ConvProblem& x, const Slicing& cut, int64_t tiles) {
  if (cut.presentation != Presentation::packed) return 0;
  return saturatedProduct({tiles, cut.channels, x.r * x.s, kPackedWindows});
}

/** How many input tiles are ready at a time. */
int64_t tilesAtOnce(const ConvProblem& x, const Slicing& cut) {
  if (cut.packAhead) return inputTiles(x, cut);
  return cut.schedule == Schedule::inputStationary ? 1 : cut.k2;
}

/** A tile of fewer windows than this takes as long, because its filters have to be read all the same. */
constexpr int64_t kLeastWindows = 8;

/** In multiply-adds */
double workOf(const ConvProblem& x) {
  return x.multiplyAdds() * static_cast<double>(std::max(x.p * x.q, kLeastWindows)) / static_cast<double>(x.p * x.q);
}

/**
 * Whether each thread should have filters of its own and read all inputs, rather than the other way round: where there
 * are more bytes of filters, or more of outputs, which the next step's threads find in their own caches if that goes
 * by channels, as depthwise convolutions do.
 */
bool putsFiltersFirst(const ConvProblem& x) {
  // What two L2 caches of 1 MB hold beside the inputs.
  constexpr int64_t kMostKeptOutputs = 400'000;
  const int64_t inputs = x.groupInputs() * x.h * x.w;
  const int64_t outputs = x.groupOutputs() * x.p * x.q;
  return x.groupOutputs() * x.filterSize() > inputs || (outputs > inputs && outputs <= kMostKeptOutputs);
}

class SlicedConvolution final : public CpuConvolution {
 public:
  SlicedConvolution(const ConvProblem& problem, const Activation& activation, const ConvWeights& weights,
                    const Slicing& slicing, const Microkernel& kernel)
      : problem_(problem),
        activation_(activation),
        slicing_(slicing),
        kernel_(kernel),
        panels_(problem, weights.filters, slicing.filters, kernel.lanes),
        bias_(problem.k),
        columns_(columnsInside()),
        filtersFirst_(putsFiltersFirst(problem)),
        helpers_(workOf(problem)) {
    copyBias(problem, weights, bias_.data());
  }

  Status run(const ConvTensors& tensors, const RunContext& context) const override {
    const Partition parts = partition(helpers_.threads(context));
    const int64_t tasksPerGroup = parts.inputs * parts.filters;
    helpers_.parallelFor(context, problem_.n * problem_.groups * tasksPerGroup, [&](int64_t task) {
      const int64_t part = task % tasksPerGroup;
      const int64_t group = task / tasksPerGroup;
      const int64_t input = filtersFirst_ ? part % parts.inputs : part / parts.filters;
      const int64_t filter = filtersFirst_ ? part / parts.inputs : part % parts.filters;
      runPart(tensors, {group / problem_.groups, group % problem_.groups},
              slice(inputTiles(problem_, slicing_), input, parts.inputs), slice(panels_.tiles(), filter, parts.filters),
              context);
    });
    return context.isCancelled() ? stoppedWhileRunning() : Status{};
  }

  int64_t bytes() const override { return bias_.bytes(); }

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
    float* workspace;
    const RunContext* context;
  };
  struct InputTile {
    /** Its outputs, counted along the map of P x Q */
    Range windows;
    /** Of tiles by rows: output rows `rows` from `p` on, columns from `q` on, and the tile's place in its row */
    int64_t p;
    int64_t rows;
    int64_t q;
    int64_t column;
  };
  /** A channel set of adjacent input tiles, ready for the micro-kernel. */
  struct InputBlock {
    ChannelSet set;
    Range tiles;
  };

  int64_t channelSets() const { return ceilDivide(problem_.groupInputs(), slicing_.channels); }
  ChannelSet channelSet(int64_t index) const {
    const int64_t first = index * slicing_.channels;
    return {first, std::min(slicing_.channels, problem_.groupInputs() - first)};
  }

  /**
   * Along the axis with more tiles, and along the other where those are too few. Which tiles a thread gets changes
   * nothing in how each is computed, so the output is bitwise the same for any number of threads.
   */
  Partition partition(unsigned threads) const {
    if (threads == 1) return {1, 1};
    const int64_t groups = problem_.n * problem_.groups;
    const int64_t parts = ceilDivide(Helpers::kPartsPerThread * static_cast<int64_t>(threads), groups);
    const int64_t inputs = inputTiles(problem_, slicing_);
    const int64_t filters = panels_.tiles();
    const int64_t most = std::min(parts, std::max(inputs, filters));
    const int64_t others = std::min(ceilDivide(parts, most), std::min(inputs, filters));
    return inputs > filters ? Partition{most, others} : Partition{others, most};
  }

  void runPart(const ConvTensors& tensors, const GroupOfImage& at, Range inputs, Range filters,
               const RunContext& context) const {
    const bool inputStationary = slicing_.schedule == Schedule::inputStationary;
    const int64_t tiles = std::min(tilesAtOnce(problem_, slicing_), inputs.size());
    AlignedBuffer workspace(workspaceFloats(problem_, slicing_, tiles));
    const Part part{&tensors, at, workspace.data(), &context};
    if (slicing_.packAhead) return runPackedAhead(part, inputs, filters);
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
            const InputBlock block = prepareInputs(part, channelSet(c), {input, input + 1});
            for (int64_t filter = moving.begin; filter < moving.end; ++filter) multiply(part, block, input, filter);
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
          const InputBlock block = prepareInputs(part, channelSet(c), moving);
          for (int64_t filter = stationary.begin; filter < stationary.end; ++filter) {
            if (part.context->isCancelled()) return;
            for (int64_t input = moving.begin; input < moving.end; ++input) multiply(part, block, input, filter);
          }
        }
      });
    });
  }

  /** For comparison with packing on demand: the same tiles in the same order, with a whole channel set packed first. */
  void runPackedAhead(const Part& part, Range inputs, Range filters) const {
    const bool inputStationary = slicing_.schedule == Schedule::inputStationary;
    for (int64_t c = 0; c < channelSets(); ++c) {
      const InputBlock block = prepareInputs(part, channelSet(c), inputs);
      forEachSet(inputStationary ? inputs : filters, slicing_.k3, [&](Range stationary) {
        forEachSet(inputStationary ? filters : inputs, slicing_.k2, [&](Range moving) {
          for (int64_t held = stationary.begin; held < stationary.end; ++held) {
            if (part.context->isCancelled()) return;
            for (int64_t passing = moving.begin; passing < moving.end; ++passing) {
              multiply(part, block, inputStationary ? held : passing, inputStationary ? passing : held);
            }
          }
        });
      });
    }
  }

  InputTile tileAt(int64_t index) const {
    const ConvProblem& x = problem_;
    if (slicing_.tilesPerRow == 0) {
      const int64_t begin = index * slicing_.windows;
      return {{begin, std::min(begin + slicing_.windows, x.p * x.q)}, 0, 0, 0, 0};
    }
    const int64_t row = index / slicing_.tilesPerRow;
    const int64_t column = index - row * slicing_.tilesPerRow;
    const int64_t p = row * slicing_.rowsPerTile;
    const int64_t rows = std::min(slicing_.rowsPerTile, x.p - p);
    const int64_t q = column * slicing_.windows;
    const int64_t count = rows > 1 ? rows * x.q : std::min(slicing_.windows, x.q - q);
    return {{p * x.q + q, p * x.q + q + count}, p, rows, q, column};
  }

  /** Of a tile by rows */
  WindowRows rowsOf(const InputTile& tile) const {
    return {tile.p, tile.rows, tile.q, tile.rows > 1 ? problem_.q : tile.windows.size()};
  }

  /** PaddedWindows::columns of each tile of an output row; nothing where tiles are no rows */
  std::vector<uint16_t> columnsInside() const {
    const ConvProblem& x = problem_;
    std::vector<uint16_t> columns;
    for (int64_t tile = 0; tile < slicing_.tilesPerRow; ++tile) {
      const WindowRows windows = rowsOf(tileAt(tile));
      for (int64_t s = 0; s < x.s; ++s) columns.push_back(sconv::columnsInside(x, windows, s));
    }
    return columns;
  }

  const float* mapsOf(const Part& part, const ChannelSet& set) const {
    const ConvProblem& x = problem_;
    return part.tensors->input + (part.at.n * x.c + part.at.group * x.groupInputs() + set.first) * x.h * x.w;
  }

  InputBlock prepareInputs(const Part& part, const ChannelSet& set, Range tiles) const {
    [[maybe_unused]] const PackingTimer timer;
    if (slicing_.presentation == Presentation::packed) {
      for (int64_t input = tiles.begin; input < tiles.end; ++input) packWindows(part, set, input, input - tiles.begin);
    }
    return {set, tiles};
  }

  int64_t packedTileFloats() const { return slicing_.channels * problem_.r * problem_.s * kPackedWindows; }

  void packWindows(const Part& part, const ChannelSet& set, int64_t input, int64_t slot) const {
    const ConvProblem& x = problem_;
    std::array<WindowSegment, kPackedWindows> segments;
    size_t count = 0;
    const Range windows = tileAt(input).windows;
    for (int64_t window = windows.begin; window < windows.end;) {
      const int64_t p = window / x.q;
      const int64_t q = window % x.q;
      const int64_t length = std::min(x.q - q, windows.end - window);
      segments[count++] = {window - windows.begin, length, p * x.stride.h - x.padding.top,
                           q * x.stride.w - x.padding.left};
      window += length;
    }
    kernel_.pack({&x, segments.data(), static_cast<int64_t>(count), mapsOf(part, set), set.count},
                 part.workspace + slot * packedTileFloats());
  }

  /** `slot` is the tile's place in its block. */
  WindowView viewOf(const Part& part, const ChannelSet& set, const InputTile& tile, int64_t slot) const {
    const ConvProblem& x = problem_;
    if (slicing_.presentation == Presentation::packed) {
      const float* packed = part.workspace + slot * packedTileFloats();
      return flatView(packed, set.count * x.r * x.s, kPackedWindows, tile.windows.size());
    }
    const float* maps = mapsOf(part, set);
    if (tile.rows == 0) return flatView(maps + tile.windows.begin, set.count, x.h * x.w, tile.windows.size());
    return viewInPlace(x, maps, set.count, rowsOf(tile), columns_.data() + tile.column * x.s);
  }

  /** All at once, before the tile is multiplied. */
  static void bringOutputs(const OutputRows& rows) {
    prefetchRows(rows.output, rows.length, rows.count, rows.stride);
    if (rows.residual != nullptr) prefetchRows(rows.residual, rows.length, rows.count, rows.stride);
  }

  void multiply(const Part& part, const InputBlock& block, int64_t input, int64_t filter) const {
    const ConvProblem& x = problem_;
    const ChannelSet& set = block.set;
    const auto& [n, group] = part.at;
    const InputTile tile = tileAt(input);
    const Range& range = tile.windows;
    const int64_t k = group * x.groupOutputs() + filter * slicing_.filters;
    const int64_t offset = (n * x.k + k) * x.p * x.q + range.begin;
    const float* residual = part.tensors->residual;
    WindowView view = viewOf(part, set, tile, input - block.tiles.begin);
    // The next panel's, which the next tiles or the first of them wait for otherwise.
    view.ahead = panels_.widthOf(filter) * x.filterSize();
    if (outgrowsCache(x.outputSize(), residual != nullptr)) {
      view.outputs = {part.tensors->output + offset, residual == nullptr ? nullptr : residual + offset,
                      panels_.filtersOf(filter), x.p * x.q, range.size()};
      if (!kernel_.bringsOutputs) bringOutputs(view.outputs);
    }
    const Finish finish{bias_.data() + k, residual == nullptr ? nullptr : residual + offset, activation_};
    const bool last = set.first + set.count == x.groupInputs();
    kernel_.convolve({.filters = panels_.filtersOf(filter),
                      .windows = range.size(),
                      .output = part.tensors->output + offset,
                      .rowStride = x.p * x.q,
                      .add = set.first > 0,
                      .finish = last ? &finish : nullptr},
                     panels_.widthOf(filter), view, panels_.at(group, filter, set.first));
  }

  const ConvProblem problem_;
  const Activation activation_;
  const Slicing slicing_;
  const Microkernel kernel_;
  const FilterPanels panels_;
  AlignedBuffer bias_;
  const std::vector<uint16_t> columns_;
  /** Whether adjacent tasks, of which a thread has half or fewer, are of adjacent filters, not of adjacent windows */
  const bool filtersFirst_;
  const Helpers helpers_;
};

/**
 * How many times as long a pointwise convolution takes with the filters in its lanes as with the windows: by vectors of
 * products, what they cost to store, and the kernels' rates.
 */
double gainOfWindowsInLanes(const ConvProblem& x, const Microkernel& outer, const Microkernel& lanes) {
  const int64_t windows = x.p * x.q;
  const int64_t k = x.groupOutputs();
  const double filterVectors = static_cast<double>(windows * ceilDivide(k, outer.lanes));
  const double windowVectors =
      static_cast<double>(ceilDivide(windows, lanes.windowStep) * ceilDivide(k, lanes.filters) * lanes.filters);
  const auto channels = static_cast<double>(x.groupInputs());
  return filterVectors * (channels + outer.storeElements) * lanes.multiplyAddsPerMillisecond /
         (windowVectors * (channels + lanes.storeElements) * outer.multiplyAddsPerMillisecond);
}

/** What the microkernel with windows in its lanes has to gain: more where weights are packed for the other alone. */
double leastGain(const ConvProblem& problem, const Weights* weights, const Microkernel& outer,
                 const Microkernel& lanes) {
  if (weights == nullptr) return 1;
  const auto arePackedFor = [&](const Microkernel& kernel) {
    return FilterPanels::arePacked(problem, *weights, kernel.filters, kernel.lanes);
  };
  const bool forOuter = arePackedFor(outer);
  if (forOuter == arePackedFor(lanes)) return 1;
  return forOuter ? kLeastGainOfSecondForm : 1 / kLeastGainOfSecondForm;
}

/** Without weights, the one that weights would best be packed for. */
Microkernel chooseKernel(const ConvProblem& problem, const CpuInfo& cpu, const Switches& switches,
                         const Weights* weights = nullptr) {
  const Microkernel* best = &widestMicrokernel(cpu.isaLevel);
  const Microkernel* lanes = &laneMicrokernel(best->isa);
  if (isFlat(problem) && switches.presentation != Presentation::packed &&
      gainOfWindowsInLanes(problem, *best, *lanes) > leastGain(problem, weights, *best, *lanes)) {
    best = lanes;
  }
  Microkernel kernel = *best;
  if (!switches.vectorPacking) kernel.pack = portable::pack;
  return kernel;
}

Slicing slicingOf(const ConvProblem& problem, const Microkernel& kernel, const CpuInfo& cpu, const Switches& switches) {
  return sliceConvolution(problem, {kernel.windows, kernel.filters, kernel.windowStep}, cpu.caches, switches);
}

int64_t workspaceOf(const ConvProblem& problem, const Slicing& slicing) {
  return saturatedProduct({workspaceFloats(problem, slicing, tilesAtOnce(problem, slicing)), sizeof(float)});
}

std::optional<std::string> refusal(const ConvProblem& problem, const Switches& switches) {
  return switches.presentation ? presentationRefusal(problem, *switches.presentation) : std::nullopt;
}

/**
 * Elements along one axis that the windows have inside the input, all windows together. Of very long filters some taps
 * stand for all.
 */
double elementsInside(int64_t windows, int64_t taps, int64_t stride, int64_t dilation, int64_t padding,
                      int64_t extent) {
  const auto windowsBefore = [&](int64_t position) {
    return std::min(windows, ceilDivide(std::max<int64_t>(position, 0), stride));
  };
  constexpr int64_t kMostCounted = 1024;
  const int64_t counted = std::min(taps, kMostCounted);
  int64_t elements = 0;
  for (int64_t i = 0; i < counted; ++i) {
    const int64_t first = i * taps / counted * dilation - padding;
    elements += windowsBefore(extent - first) - windowsBefore(-first);
  }
  return static_cast<double>(elements) * (static_cast<double>(taps) / static_cast<double>(counted));
}

/** Of all windows, without those in padding unless they are packed. */
double elementsMultiplied(const ConvProblem& x, bool packs) {
  if (packs) return static_cast<double>(x.n * x.p * x.q * x.groups) * static_cast<double>(x.filterSize());
  const double rows = elementsInside(x.p, x.r, x.stride.h, x.dilation.h, x.padding.top, x.h);
  const double columns = elementsInside(x.q, x.s, x.stride.w, x.dilation.w, x.padding.left, x.w);
  return static_cast<double>(x.n * x.c) * rows * columns;
}

/** Costs of the largest problems have no room in 64 bits. */
int64_t wholeCycles(double cycles) {
  constexpr double kMost = 9e18;
  return std::llround(std::min(cycles, kMost));
}

Estimate estimateSliced(const ConvProblem& problem, const CpuInfo& cpu, const Switches& switches) {
  // One Zen 5 core packs 3 x 3 windows at 6e6 elements a millisecond and 7 x 7 ones at stride 2 at 4e6.
  constexpr double kPackedElementsPerMillisecond = 5e6;
  const Microkernel kernel = chooseKernel(problem, cpu, switches);
  const Slicing slicing = slicingOf(problem, kernel, cpu, switches);
  const auto filters = static_cast<double>(ceilDivide(problem.groupOutputs(), kernel.lanes) * kernel.lanes);
  const bool packs = slicing.presentation == Presentation::packed;
  const double elements = elementsMultiplied(problem, packs);
  const double packing = packs ? elements / kPackedElementsPerMillisecond : 0;
  const double stored = static_cast<double>(problem.n * problem.groups * problem.p * problem.q) * kernel.storeElements;
  const bool weightStationary = slicing.schedule == Schedule::weightStationary;
  return {.milliseconds = (elements + stored) * filters / kernel.multiplyAddsPerMillisecond + packing,
          .workspaceBytes = workspaceOf(problem, slicing),
          .tiles = {{"packsWindows", slicing.presentation == Presentation::packed ? 1 : 0},
                    {"N_win", slicing.windows},
                    {"N_f", slicing.filters},
                    {"N_c", slicing.channels},
                    {"K2", slicing.k2},
                    {"K3", slicing.k3},
                    {"weightStationary", weightStationary ? 1 : 0},
                    {"vectorPacking", packs && kernel.pack != portable::pack ? 1 : 0},
                    {"packsAhead", slicing.packAhead ? 1 : 0},
                    {"costCycles", wholeCycles(slicing.cost)},
                    {"otherCostCycles", wholeCycles(slicing.otherCost)}}};
}

bool isPackedSliced(const ConvProblem& problem, const CpuInfo& cpu, const Weights& weights) {
  const Microkernel kernel = chooseKernel(problem, cpu, {}, &weights);
  return FilterPanels::arePacked(problem, weights, kernel.filters, kernel.lanes);
}

std::unique_ptr<CpuConvolution> prepareSliced(const ConvProblem& problem, const Activation& activation,
                                              const ConvWeights& weights, const CpuInfo& cpu,
                                              const Switches& switches) {
  const Microkernel kernel = chooseKernel(problem, cpu, switches, &weights.filters);
  const Slicing slicing = slicingOf(problem, kernel, cpu, switches);
  // A packed tile holds zeros for padded elements.
  if (slicing.presentation == Presentation::packed && mustSkipPadding(problem, weights.filters)) {
    return prepareDirect(problem, activation, weights);
  }
  return std::make_unique<SlicedConvolution>(problem, activation, weights, slicing, kernel);
}

/** The problem that is sliced instead, unless an experiment asks how windows are presented. */
std::optional<ConvProblem> substitute(const ConvProblem& problem, const Switches& switches) {
  return switches.presentation ? std::nullopt : subsampledProblem(problem);
}

Estimate estimate(const ConvProblem& problem, const CpuInfo& cpu, const Switches& switches) {
  const std::optional<ConvProblem> subsampled = substitute(problem, switches);
  if (!subsampled) return estimateSliced(problem, cpu, switches);
  Estimate estimate = estimateSliced(*subsampled, cpu, switches);
  estimate.milliseconds += subsamplingMilliseconds(*subsampled);
  estimate.workspaceBytes += subsampledBytes(*subsampled);
  return estimate;
}

bool isPacked(const ConvProblem& problem, const CpuInfo& cpu, const Weights& weights) {
  return isPackedSliced(substitute(problem, {}).value_or(problem), cpu, weights);
}

std::unique_ptr<CpuConvolution> prepare(const ConvProblem& problem, const Activation& activation,
                                        const ConvWeights& weights, const CpuInfo& cpu, const Switches& switches) {
  const std::optional<ConvProblem> subsampled = substitute(problem, switches);
  if (!subsampled) return prepareSliced(problem, activation, weights, cpu, switches);
  return convolveSubsampled(problem, *subsampled, prepareSliced(*subsampled, activation, weights, cpu, switches));
}

}  // namespace

constexpr CpuAlgorithm kSconv{"sconv", refusal, estimate, isPacked, prepare};

}  // namespace warpconv
