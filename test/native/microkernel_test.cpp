#include "cpu/microkernels/microkernel.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <random>
#include <vector>

#include "cpu/algorithm/filter_panels.h"
#include "divide.h"
#include "support/one_thread.h"
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

struct FinishCase {
  Activation activation;
  float (*expected)(float);
};

/** Exact on integers, but for the last, of which one is as good as all that are finished outside the kernel. */
const FinishCase kFinishCases[] = {
    {{ActivationKind::none}, [](float x) { return x; }},
    {{ActivationKind::relu}, [](float x) { return std::max(x, 0.0f); }},
    {{ActivationKind::clip, -3.0f, 5.0f}, [](float x) { return std::min(std::max(x, -3.0f), 5.0f); }},
    {{ActivationKind::leakyRelu, 0.5f}, [](float x) { return x < 0 ? x / 2 : x; }},
    {{ActivationKind::hardSwish}, [](float x) { return x * (std::min(std::max(x + 3, 0.0f), 6.0f) / 6); }},
};

/** Any of them, or null: what is not finished yet. */
const FinishCase* anyFinish(std::mt19937& random) {
  const size_t choice = random() % (std::size(kFinishCases) + 1);
  return choice == std::size(kFinishCases) ? nullptr : &kFinishCases[choice];
}

/** A view without its data, the offset of its second half where that is another row, and what is padding. */
struct ViewShape {
  int64_t channels, rows, taps;
  int64_t channelStride, rowStride, tapStride, step;
  /** From window 0 to window count / 2; 0 where they lie in one row */
  int64_t secondRow = 0;
  /** Filter rows left out before and after those that are visited */
  int64_t rowsBefore = 0, rowsAfter = 0;
  bool padded = false;
};

/** One call of Microkernel::multiply, and the same sums element by element. */
class MultiplyCase {
 public:
  MultiplyCase(const ViewShape& shape, int64_t count, int64_t width, std::mt19937& random)
      : shape_(shape), count_(count), width_(width), columns_(index(shape.taps)) {
    padding_.firstRow = shape.padded ? static_cast<int64_t>(random() % 2) : 0;
    padding_.endRow = shape.rows - (shape.padded ? static_cast<int64_t>(random() % 2) : 0);
    for (uint16_t& column : columns_) column = shape.padded ? static_cast<uint16_t>(random()) : uint16_t{0xffff};
    if (shape.padded) padding_.columns = columns_.data();
    int64_t reach = 0;
    forEachElement([&](int64_t w, int64_t c, int64_t r, int64_t s) { reach = std::max(reach, at(w, c, r, s)); });
    // Exactly as long as it may be read: the sanitizers see one element more. What is padding alone is NaN.
    windows_.assign(index(reach + 1), kNaN);
    std::vector<float> values(windows_.size());
    test::fillWithIntegers(values, random);
    forEachElement([&](int64_t w, int64_t c, int64_t r, int64_t s) {
      windows_[index(at(w, c, r, s))] = values[index(at(w, c, r, s))];
    });
    filters_.resize(index(shape.channels * filterElements() * width));
    test::fillWithIntegers(filters_, random);
  }

  void check(const Microkernel& kernel) const {
    const int64_t half = shape_.secondRow > 0 ? shape_.secondRow : count_ / 2 * shape_.step;
    const WindowView view{.first = windows_.data(),
                          .second = windows_.data() + half,
                          .channels = shape_.channels,
                          .rows = shape_.rows,
                          .taps = shape_.taps,
                          .channelStride = shape_.channelStride,
                          .rowStride = shape_.rowStride,
                          .tapStride = shape_.tapStride,
                          .step = shape_.step,
                          .firstElement = shape_.rowsBefore * shape_.taps,
                          .filterElements = filterElements(),
                          .padded = padding_};
    std::vector<float> sums(index(kPackedWindows * kMostFilters), kNaN);
    kernel.multiply(count_, width_, view, filters_.data(), sums.data());
    std::vector<double> expected(index(count_ * width_));
    forEachElement([&](int64_t w, int64_t c, int64_t r, int64_t s) {
      const int64_t element = c * filterElements() + (shape_.rowsBefore + r) * shape_.taps + s;
      for (int64_t f = 0; f < width_; ++f) {
        expected[index(w * width_ + f)] +=
            double{windows_[index(at(w, c, r, s))]} * double{filters_[index(element * width_ + f)]};
      }
    });
    for (int64_t w = 0; w < count_; ++w) {
      for (int64_t f = 0; f < width_; ++f) {
        REQUIRE(double{sums[index(w * kMostFilters + f)]} == expected[index(w * width_ + f)]);
      }
    }
  }

 private:
  int64_t filterElements() const { return (shape_.rowsBefore + shape_.rows + shape_.rowsAfter) * shape_.taps; }

  int64_t at(int64_t w, int64_t c, int64_t r, int64_t s) const {
    const bool second = shape_.secondRow > 0 && w >= count_ / 2;
    const int64_t window = second ? shape_.secondRow + (w - count_ / 2) * shape_.step : w * shape_.step;
    return c * shape_.channelStride + r * shape_.rowStride + s * shape_.tapStride + window;
  }

  /** Every element of every window that is no padding. */
  template <typename Body>
  void forEachElement(Body body) const {
    for (int64_t w = 0; w < count_; ++w) {
      for (int64_t c = 0; c < shape_.channels; ++c) {
        for (int64_t r = 0; r < shape_.rows; ++r) {
          const bool row = w < count_ / 2 ? r >= padding_.firstRow : r < padding_.endRow;
          for (int64_t s = 0; s < shape_.taps; ++s) {
            if (row && (columns_[index(s)] >> w & 1) != 0) body(w, c, r, s);
          }
        }
      }
    }
  }

  ViewShape shape_;
  int64_t count_;
  int64_t width_;
  std::vector<uint16_t> columns_;
  PaddedWindows padding_;
  std::vector<float> windows_;
  std::vector<float> filters_;
};

}  // namespace

ONE_THREAD_TEST_CASE("multiply is exact for every number of windows, panel width, step and shape of the view") {
  std::mt19937 random(11);
  const ViewShape shapes[] = {
      // One element, a packed tile, a pointwise tile, rows of a small and of a large filter.
      {1, 1, 1, 0, 0, 1, 1},
      {1, 1, 64, 0, 0, kPackedWindows, 1},
      {1, 1, 37, 0, 0, 49, 1},
      {5, 3, 3, 200, 40, 1, 1},
      {2, 7, 5, 700, 90, 3, 1},
      {5, 3, 3, 400, 80, 1, 2},
      {9, 1, 1, 77, 0, 0, 2},
      // Two output rows, filter rows left out, and padding.
      {.channels = 5,
       .rows = 3,
       .taps = 3,
       .channelStride = 200,
       .rowStride = 40,
       .tapStride = 1,
       .step = 1,
       .secondRow = 40},
      {.channels = 5,
       .rows = 2,
       .taps = 3,
       .channelStride = 200,
       .rowStride = 40,
       .tapStride = 1,
       .step = 1,
       .rowsBefore = 1,
       .rowsAfter = 2},
      {.channels = 4,
       .rows = 3,
       .taps = 5,
       .channelStride = 200,
       .rowStride = 40,
       .tapStride = 1,
       .step = 1,
       .padded = true},
      {.channels = 4,
       .rows = 4,
       .taps = 3,
       .channelStride = 400,
       .rowStride = 60,
       .tapStride = 2,
       .step = 2,
       .secondRow = 120,
       .rowsAfter = 1,
       .padded = true},
  };
  forEachKernel([&](const Microkernel& kernel) {
    for (int64_t count = 1; count <= kernel.windows; ++count) {
      for (int64_t width = kernel.lanes; width <= kernel.filters; width += kernel.lanes) {
        for (const ViewShape& shape : shapes) MultiplyCase(shape, count, width, random).check(kernel);
      }
    }
  });
}

namespace {

/** One tile of a lane microkernel with anything that may happen to its sums, and the same element by element. */
class LaneCase {
 public:
  /** `listed`: elements lie anywhere, and whole vectors may be read; or else at one distance. */
  LaneCase(const Microkernel& kernel, int64_t count, int64_t filters, bool listed, std::mt19937& random)
      : kernel_(kernel),
        count_(count),
        filters_(filters),
        rowStride_(kernel.windows + 3),
        offsets_(index(1 + static_cast<int64_t>(random() % 8))) {
    const int64_t stride = count + 5;
    for (size_t e = 0; e < offsets_.size(); ++e) {
      offsets_[e] = listed ? static_cast<int64_t>(random() % 100) : static_cast<int64_t>(e) * stride;
    }
    const int64_t reach = *std::max_element(offsets_.begin(), offsets_.end());
    // Exactly as long as it may be read and written: the sanitizers see one element more.
    input_.resize(index(reach + (listed ? roundUp(count, kernel.windowStep) : count)));
    panel_.resize(offsets_.size() * index(kernel.lanes));
    bias_.resize(index(filters));
    residual_.resize(index((filters - 1) * rowStride_ + count));
    for (auto* values : {&input_, &panel_, &bias_, &residual_}) test::fillWithIntegers(*values, random);
    finish_ = anyFinish(random);
    add_ = random() % 2 == 0, withResidual_ = random() % 2 == 0;
    view_.first = input_.data();
    view_.taps = static_cast<int64_t>(offsets_.size());
    view_.tapStride = stride;
    if (listed) view_.offsets = offsets_.data();
  }

  void check() const {
    std::vector<float> output(residual_.size(), kBefore);
    const Finish finish{bias_.data(), withResidual_ ? residual_.data() : nullptr,
                        finish_ == nullptr ? Activation{} : finish_->activation};
    kernel_.convolve({filters_, count_, output.data(), rowStride_, add_, finish_ == nullptr ? nullptr : &finish},
                     kernel_.lanes, view_, panel_.data());
    for (int64_t i = 0; i < static_cast<int64_t>(output.size()); ++i) REQUIRE(output[index(i)] == expectedAt(i));
  }

 private:
  static constexpr float kBefore = 100.0f;

  float expectedAt(int64_t i) const {
    const int64_t f = i / rowStride_, w = i % rowStride_;
    if (w >= count_) return kBefore;
    float sum = add_ ? kBefore : 0.0f;
    for (size_t e = 0; e < offsets_.size(); ++e) {
      sum += input_[index(offsets_[e] + w)] * panel_[e * index(kernel_.lanes) + index(f)];
    }
    if (finish_ == nullptr) return sum;
    return finish_->expected(sum + bias_[index(f)] + (withResidual_ ? residual_[index(i)] : 0.0f));
  }

  const Microkernel& kernel_;
  const int64_t count_, filters_, rowStride_;
  std::vector<int64_t> offsets_;
  std::vector<float> input_, panel_, bias_, residual_;
  const FinishCase* finish_;
  bool add_, withResidual_;
  WindowView view_{};
};

template <typename Body>
void forEachLaneKernel(Body body) {
  for (const Microkernel* kernel : laneMicrokernels()) {
    if (kernel->isa > cpuInfo().isaLevel) continue;
    INFO(kernel->name);
    body(*kernel);
  }
}

}  // namespace

ONE_THREAD_TEST_CASE("lane microkernels are exact for every number of windows and filters, and write nothing else") {
  std::mt19937 random(13);
  forEachLaneKernel([&](const Microkernel& kernel) {
    for (int64_t count = 1; count <= kernel.windows; ++count) {
      for (int64_t filters = 1; filters <= kernel.lanes; ++filters) {
        for (int round = 0; round < 12; ++round) LaneCase(kernel, count, filters, round % 2 == 0, random).check();
      }
    }
  });
}

ONE_THREAD_TEST_CASE("microkernels turn matrices of any extents, with zeros for rows that are not there") {
  std::mt19937 random(16);
  forEachKernel([&](const Microkernel& kernel) {
    if (kernel.turn == nullptr) return;
    for (int64_t width = kernel.lanes; width <= kernel.filters; width += kernel.lanes) {
      for (int64_t rows = 1; rows <= width; ++rows) {
        for (int64_t columns = 1; columns <= 35; ++columns) {
          const auto stride = columns + static_cast<int64_t>(random() % 3);
          // Exactly as long as it may be read and written: the sanitizers see one element more.
          std::vector<float> from(index((rows - 1) * stride + columns)), turned(index(columns * width), kNaN);
          test::fillWithIntegers(from, random);
          kernel.turn(from.data(), stride, rows, columns, width, turned.data());
          for (int64_t i = 0; i < columns * width; ++i) {
            const int64_t column = i / width, row = i % width;
            REQUIRE(turned[index(i)] == (row < rows ? from[index(row * stride + column)] : 0.0f));
          }
        }
      }
    }
  });
}

ONE_THREAD_TEST_CASE("lane microkernels split pairs of any number") {
  std::mt19937 random(15);
  forEachLaneKernel([&](const Microkernel& kernel) {
    for (int64_t count = 0; count <= 70; ++count) {
      std::vector<float> pairs(index(2 * count)), even(index(count)), odd(index(count));
      test::fillWithIntegers(pairs, random);
      kernel.splitPairs(pairs.data(), count, even.data(), odd.data());
      for (int64_t i = 0; i < count; ++i) {
        REQUIRE(even[index(i)] == pairs[index(2 * i)]);
        REQUIRE(odd[index(i)] == pairs[index(2 * i + 1)]);
      }
    }
  });
}

ONE_THREAD_TEST_CASE("pack writes dst[c][r][s][window], zeros for padded elements") {
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

ONE_THREAD_TEST_CASE("store turns the sums, adds, finishes, and writes nothing else") {
  std::mt19937 random(3);
  const auto check = [&](const Microkernel& kernel, int64_t windows, int64_t filters, const FinishCase* last) {
    const bool add = random() % 2 == 0, withResidual = random() % 2 == 0;
    const int64_t rowStride = windows + 3;
    std::vector<float> used(index(filters * windows)), bias(index(filters));
    std::vector<float> before(index(filters * rowStride)), residual(index(filters * rowStride));
    for (auto* values : {&used, &bias, &before, &residual}) test::fillWithIntegers(*values, random);
    std::vector<float> sums(index(kPackedWindows * kMostFilters), kNaN);
    for (int64_t i = 0; i < filters * windows; ++i) {
      sums[index(i % windows * kMostFilters + i / windows)] = used[index(i)];
    }
    std::vector<float> output = before;
    const Finish finish{bias.data(), withResidual ? residual.data() : nullptr,
                        last == nullptr ? Activation{} : last->activation};
    kernel.store({.filters = filters,
                  .windows = windows,
                  .output = output.data(),
                  .rowStride = rowStride,
                  .add = add,
                  .finish = last == nullptr ? nullptr : &finish},
                 sums.data());
    for (int64_t i = 0; i < filters * rowStride; ++i) {
      const int64_t f = i / rowStride, w = i % rowStride;
      float expected = before[index(i)];
      if (w < windows) {
        expected = used[index(f * windows + w)] + (add ? before[index(i)] : 0.0f);
        if (last != nullptr) {
          expected = last->expected(expected + bias[index(f)] + (withResidual ? residual[index(i)] : 0.0f));
        }
      }
      INFO(windows << " windows, " << filters << " filters, element " << i);
      REQUIRE(output[index(i)] == expected);
    }
  };
  forEachKernel([&](const Microkernel& kernel) {
    for (int64_t windows = 1; windows <= kernel.windows; ++windows) {
      for (int64_t filters = 1; filters <= kernel.filters; ++filters) {
        check(kernel, windows, filters, nullptr);
        for (const FinishCase& last : kFinishCases) check(kernel, windows, filters, &last);
      }
    }
  });
}

ONE_THREAD_TEST_CASE(
    "filter panels hold [group][tile][c][r][s][filter], as wide as whole vectors, zeros beside the filters") {
  for (int64_t filters : {1, 7, 8, 9, 16, 17, 31, 32, 33, 70}) {
    ConvRequest request;
    request.inputDims = {1, 6, 5, 5};
    request.weightDims = {2 * filters, 3, 2, 2};
    request.groups = 2;
    const ConvProblem x = makeConvProblem(request).value();
    std::vector<float> weight(index(x.weightSize()));
    for (size_t i = 0; i < weight.size(); ++i) weight[i] = static_cast<float>(i + 1);
    Weights weights(weight.data(), x.k, x.filterSize());
    const FilterPanels panels(x, weights, 32, 16);
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
