#include "cpu/microkernels/microkernel.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "cpu/sconv/filter_panels.h"
#include "support/reference.h"

using namespace warpconv;

namespace {

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

size_t index(int64_t i) { return static_cast<size_t>(i); }

/** Calls `body(kernel)` for every micro-kernel that this machine can run. */
template <typename Body>
void forEachKernel(Body body) {
  for (const Microkernel* kernel : microkernels()) {
    if (kernel->isa > cpuInfo().isaLevel) continue;
    INFO(kernel->name);
    body(*kernel);
  }
}

}  // namespace

TEST_CASE("multiply is exact for every number of windows, panel width, step and shape of the view") {
  std::mt19937 random(11);
  const WindowView shapes[] = {
      // One element, a packed tile, a pointwise tile, rows of a small and of a large filter.
      {nullptr, 1, 1, 1, 0, 0, 1, 1},    {nullptr, 1, 1, 64, 0, 0, kPackedWindows, 1},
      {nullptr, 1, 1, 37, 0, 0, 49, 1},  {nullptr, 5, 3, 3, 200, 40, 1, 1},
      {nullptr, 2, 7, 5, 700, 90, 3, 1}, {nullptr, 5, 3, 3, 400, 80, 1, 2},
      {nullptr, 9, 1, 1, 77, 0, 0, 2},
  };
  forEachKernel([&](const Microkernel& kernel) {
    for (int64_t count = 1; count <= kernel.windows; ++count) {
      for (int64_t width = kernel.lanes; width <= kernel.filters; width += kernel.lanes) {
        for (WindowView view : shapes) {
          const int64_t depth = view.channels * view.rows * view.taps;
          const int64_t reach = (view.channels - 1) * view.channelStride + (view.rows - 1) * view.rowStride +
                                (view.taps - 1) * view.tapStride + (count - 1) * view.step;
          // Exactly as long as it may be read: the sanitizers see one element more.
          std::vector<float> windows(index(reach + 1));
          std::vector<float> filters(index(depth * width));
          test::fillWithIntegers(windows, random);
          test::fillWithIntegers(filters, random);
          std::vector<float> sums(index(kPackedWindows * kMostFilters), kNaN);
          view.data = windows.data();
          kernel.multiply(count, width, view, filters.data(), sums.data());
          for (int64_t w = 0; w < count; ++w) {
            for (int64_t f = 0; f < width; ++f) {
              double sum = 0;
              for (int64_t e = 0; e < depth; ++e) {
                const int64_t s = e % view.taps, r = e / view.taps % view.rows, c = e / (view.taps * view.rows);
                const int64_t at = c * view.channelStride + r * view.rowStride + s * view.tapStride + w * view.step;
                sum += double{windows[index(at)]} * double{filters[index(e * width + f)]};
              }
              REQUIRE(double{sums[index(w * kMostFilters + f)]} == sum);
            }
          }
        }
      }
    }
  });
}

TEST_CASE("pack writes dst[c][r][s][window], zeros for padded elements") {
  std::mt19937 random(7);
  forEachKernel([&](const Microkernel& kernel) {
    for (int round = 0; round < 400; ++round) {
      const ConvRequest request = test::randomRequest(random, 2e5);
      const ConvProblem x = makeConvProblem(request).value();
      const int64_t channels = x.groupInputs();
      std::vector<float> maps(index(channels * x.h * x.w));
      for (size_t i = 0; i < maps.size(); ++i) maps[i] = static_cast<float>(i + 1);
      const int64_t outputs = x.p * x.q;
      const auto first = static_cast<int64_t>(random() % static_cast<uint64_t>(outputs));
      const int64_t count = std::min(kernel.windows, outputs - first);
      std::vector<WindowSegment> segments;
      for (int64_t window = first; window < first + count; ++window) {
        const int64_t p = window / x.q, q = window % x.q;
        if (window == first || q == 0) {
          segments.push_back({window - first, 0, p * x.stride.h - x.padding.top, q * x.stride.w - x.padding.left});
        }
        ++segments.back().count;
      }
      std::vector<float> packed(index(channels * x.r * x.s * kPackedWindows), kNaN);
      kernel.pack({&x, segments.data(), static_cast<int64_t>(segments.size()), maps.data(), channels}, packed.data());
      for (int64_t i = 0; i < static_cast<int64_t>(packed.size()); ++i) {
        const int64_t window = i % kPackedWindows, s = i / kPackedWindows % x.s, r = i / (kPackedWindows * x.s) % x.r;
        const int64_t c = i / (kPackedWindows * x.s * x.r);
        if (window >= count) continue;
        const int64_t h = (first + window) / x.q * x.stride.h + r * x.dilation.h - x.padding.top;
        const int64_t w = (first + window) % x.q * x.stride.w + s * x.dilation.w - x.padding.left;
        const bool real = h >= 0 && h < x.h && w >= 0 && w < x.w;
        INFO(describe(x) << ", from window " << first);
        REQUIRE(packed[index(i)] == (real ? maps[index((c * x.h + h) * x.w + w)] : 0.0f));
      }
    }
  });
}

TEST_CASE("store turns the sums, adds, finishes, and writes nothing else") {
  std::mt19937 random(3);
  forEachKernel([&](const Microkernel& kernel) {
    for (int64_t windows = 1; windows <= kernel.windows; ++windows) {
      for (int64_t filters = 1; filters <= kernel.filters; ++filters) {
        const bool add = random() % 2 == 0, finishes = random() % 2 == 0, withResidual = random() % 2 == 0;
        const int64_t rowStride = windows + 3;
        std::vector<float> sums(index(kPackedWindows * kMostFilters)), bias(index(filters));
        std::vector<float> before(index(filters * rowStride)), residual(index(filters * rowStride));
        for (auto* values : {&sums, &bias, &before, &residual}) test::fillWithIntegers(*values, random);
        std::vector<float> output = before;
        const Finish finish{bias.data(), withResidual ? residual.data() : nullptr, {ActivationKind::relu}};
        kernel.store({.filters = filters,
                      .windows = windows,
                      .output = output.data(),
                      .rowStride = rowStride,
                      .add = add,
                      .finish = finishes ? &finish : nullptr},
                     sums.data());
        for (int64_t i = 0; i < filters * rowStride; ++i) {
          const int64_t f = i / rowStride, w = i % rowStride;
          float expected = before[index(i)];
          if (w < windows) {
            expected = sums[index(w * kMostFilters + f)] + (add ? before[index(i)] : 0.0f);
            if (finishes) expected += bias[index(f)] + (withResidual ? residual[index(i)] : 0.0f);
            if (finishes) expected = std::max(expected, 0.0f);
          }
          INFO(windows << " windows, " << filters << " filters, element " << i);
          REQUIRE(output[index(i)] == expected);
        }
      }
    }
  });
}

TEST_CASE("filter panels hold [group][tile][c][r][s][filter], as wide as whole vectors, zeros beside the filters") {
  for (int64_t filters : {1, 7, 8, 9, 16, 17, 31, 32, 33, 70}) {
    ConvRequest request;
    request.inputDims = {1, 6, 5, 5};
    request.weightDims = {2 * filters, 3, 2, 2};
    request.groups = 2;
    const ConvProblem x = makeConvProblem(request).value();
    std::vector<float> weight(index(x.weightSize()));
    for (size_t i = 0; i < weight.size(); ++i) weight[i] = static_cast<float>(i + 1);
    const sconv::FilterPanels panels(x, weight.data(), 32, 16);
    int64_t seen = 0;
    for (int64_t group = 0; group < 2; ++group) {
      for (int64_t tile = 0; tile < panels.tiles(); ++tile) {
        const int64_t width = panels.widthOf(tile);
        CHECK(width % 16 == 0);
        CHECK(width - panels.filtersOf(tile) < 16);
        for (int64_t e = 0; e < x.filterSize(); ++e) {
          const float* row = panels.at(group, tile, e / 4) + e % 4 * width;
          for (int64_t f = 0; f < width; ++f) {
            const int64_t k = group * filters + tile * 32 + f;
            const bool real = f < panels.filtersOf(tile);
            REQUIRE(row[f] == (real ? weight[index(k * x.filterSize() + e)] : 0.0f));
            seen += real ? 1 : 0;
          }
        }
      }
    }
    CHECK(seen == x.weightSize());
  }
}
