#include "cpu/sconv/sconv.h"

#include <algorithm>
#include <cmath>

#include "cpu/direct/direct.h"
#include "cpu/epilogue.h"
#include "cpu/sconv/microkernel.h"
#include "cpu/sconv/packing.h"
#include "cpu/sconv/slicing.h"
#include "memory/aligned_buffer.h"

namespace warpconv {
namespace {

using namespace sconv;

int64_t ceilDivide(int64_t a, int64_t b) { return (a + b - 1) / b; }

int64_t tileDepth(const ConvProblem& problem, const Slicing& slicing) {
  return slicing.channels * problem.r * problem.s;
}

int64_t filterTilesOf(const ConvProblem& problem) { return ceilDivide(problem.groupOutputs(), kTileFilters); }

class SlicedConvolution final : public PreparedConvolution {
 public:
  SlicedConvolution(const ConvProblem& problem, const Activation& activation, const ConvWeights& weights,
                    const Slicing& slicing)
      : problem_(problem),
        activation_(activation),
        slicing_(slicing),
        filterTiles_(filterTilesOf(problem)),
        panels_(problem.groups * filterTiles_ * kTileFilters * problem.filterSize()),
        bias_(problem.k) {
    for (int64_t group = 0; group < problem.groups; ++group) {
      for (int64_t tile = 0; tile < filterTiles_; ++tile) packPanel(weights.weight, group, tile);
    }
    if (weights.bias != nullptr) {
      std::copy_n(weights.bias, problem.k, bias_.data());
    } else {
      std::fill_n(bias_.data(), problem.k, 0.0f);
    }
  }

  Status run(const ConvTensors& tensors, const Cancellation& cancellation) const override {
    AlignedBuffer windows(kTileWindows * tileDepth(problem_, slicing_));
    const int64_t outputs = problem_.p * problem_.q;
    for (int64_t n = 0; n < problem_.n; ++n) {
      for (int64_t group = 0; group < problem_.groups; ++group) {
        for (int64_t channel = 0; channel < problem_.groupInputs(); channel += slicing_.channels) {
          for (int64_t window = 0; window < outputs; window += kTileWindows) {
            if (cancellation.isRequested()) return {StatusCode::aborted, "the call was stopped while it ran"};
            multiplyInputTile(tensors, {n, group, channel, window}, windows.data());
          }
        }
      }
    }
    return {};
  }

  int64_t bytes() const override { return panels_.bytes() + bias_.bytes(); }

 private:
  /** One input tile: an image, a group, the first channel of a channel set, the first window. */
  struct InputTile {
    int64_t n;
    int64_t group;
    int64_t channel;
    int64_t window;
  };

  int64_t channelsFrom(int64_t channel) const { return std::min(slicing_.channels, problem_.groupInputs() - channel); }

  /** panels_[group][filter tile][c][r][s][filter]: a channel set is a run of c within its filter tile. */
  int64_t panelOffset(int64_t group, int64_t tile, int64_t channel) const {
    return ((group * filterTiles_ + tile) * problem_.groupInputs() + channel) * problem_.r * problem_.s * kTileFilters;
  }

  void packPanel(const float* weight, int64_t group, int64_t tile) {
    const int64_t filter = tile * kTileFilters;
    const float* filters = weight + (group * problem_.groupOutputs() + filter) * problem_.filterSize();
    packFilters(problem_, filters, problem_.groupInputs(), std::min(kTileFilters, problem_.groupOutputs() - filter),
                panels_.data() + panelOffset(group, tile, 0));
  }

  /** Packs the tile and multiplies it by every filter of its group. */
  void multiplyInputTile(const ConvTensors& tensors, const InputTile& at, float* windows) const {
    const ConvProblem& x = problem_;
    const int64_t channels = channelsFrom(at.channel);
    const int64_t count = std::min(kTileWindows, x.p * x.q - at.window);
    const float* maps = tensors.input + (at.n * x.c + at.group * x.groupInputs() + at.channel) * x.h * x.w;
    packWindows(x, maps, channels, at.window, count, windows);
    alignas(64) float sums[kTileFilters * kTileWindows];
    for (int64_t tile = 0; tile < filterTiles_; ++tile) {
      multiplyTile(channels * x.r * x.s, windows, panels_.data() + panelOffset(at.group, tile, at.channel), sums);
      storeSums(tensors, at, tile, count, sums);
    }
  }

  /** Adds a tile of sums to the output; the last channel set also finishes it. */
  void storeSums(const ConvTensors& tensors, const InputTile& at, int64_t tile, int64_t count,
                 const float* sums) const {
    const ConvProblem& x = problem_;
    const bool first = at.channel == 0;
    const bool last = at.channel + slicing_.channels >= x.groupInputs();
    const int64_t filters = std::min(kTileFilters, x.groupOutputs() - tile * kTileFilters);
    for (int64_t f = 0; f < filters; ++f, sums += kTileWindows) {
      const int64_t k = at.group * x.groupOutputs() + tile * kTileFilters + f;
      const int64_t offset = (at.n * x.k + k) * x.p * x.q + at.window;
      float* output = tensors.output + offset;
      for (int64_t w = 0; w < count; ++w) output[w] = first ? sums[w] : output[w] + sums[w];
      if (!last) continue;
      const float* residual = tensors.residual == nullptr ? nullptr : tensors.residual + offset;
      finishOutputs(output, count, bias_.data()[k], residual, activation_);
    }
  }

  const ConvProblem problem_;
  const Activation activation_;
  const Slicing slicing_;
  const int64_t filterTiles_;
  AlignedBuffer panels_;
  AlignedBuffer bias_;
};

bool allFinite(const float* values, int64_t count) {
  return std::all_of(values, values + count, [](float value) { return std::isfinite(value); });
}

std::optional<std::string> refusal(const ConvProblem&) { return std::nullopt; }

Estimate estimate(const ConvProblem& problem, const CpuInfo& cpu) {
  // bench/algorithms.ts on one Zen 5 core, measured (predicted): 6.9 (7.9) ms on 3x3, 64 to 64 channels at 56x56;
  // 6.7 (7.1) on 3x3, 256 to 256 at 14x14; 5.8 (6.2) on 1x1, 256 to 512 at 28x28; 3.9 (2.9) on depthwise 3x3, 96 at
  // 56x56.
  constexpr double kMultiplyAddsPerMillisecond = 17e6;
  constexpr double kPackedElementsPerMillisecond = 1.7e6;
  const Slicing slicing = sliceConvolution(problem, cpu.caches);
  // A tile is computed whole, however little of it is used.
  const double windows =
      static_cast<double>(problem.n * ceilDivide(problem.p * problem.q, kTileWindows) * kTileWindows);
  const double filters = static_cast<double>(filterTilesOf(problem) * kTileFilters);
  const double packed = windows * static_cast<double>(problem.groups * problem.filterSize());
  return {.milliseconds = packed * filters / kMultiplyAddsPerMillisecond + packed / kPackedElementsPerMillisecond,
          .workspaceBytes = kTileWindows * tileDepth(problem, slicing) * static_cast<int64_t>(sizeof(float)),
          .tiles = {{"N_win", kTileWindows}, {"N_f", kTileFilters}, {"N_c", slicing.channels}}};
}

std::unique_ptr<PreparedConvolution> prepare(const ConvProblem& problem, const Activation& activation,
                                             const ConvWeights& weights, const CpuInfo& cpu) {
  // A packed tile multiplies padded elements by zero, which an infinite or NaN weight would turn into NaN.
  if (problem.hasPadding() && !allFinite(weights.weight, problem.weightSize())) {
    return prepareDirect(problem, activation, weights, cpu);
  }
  return std::make_unique<SlicedConvolution>(problem, activation, weights, sliceConvolution(problem, cpu.caches));
}

}  // namespace

constexpr CpuAlgorithm kSconv{"sconv", refusal, estimate, prepare};

}  // namespace warpconv
