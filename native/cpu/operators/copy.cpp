#include <cstdlib>
#include <vector>

#include "cpu/operators/cpu_operators.h"
#include "cpu/operators/ranges.h"
#include "cpu/operators/transpose.h"

namespace warpconv::operators {
namespace {

struct Axis {
  int64_t extent;
  int64_t from;
  int64_t to;
};

/** A copy's axes in the order of the output, those that lie as one joined: outermost first. */
class Axes {
 public:
  explicit Axes(const CopyStep& step) : axes_(std::max<size_t>(1, step.extents.size())) {
    for (size_t i = 0; i < step.extents.size(); ++i) {
      if (step.extents[i] != 1) axes_[count_++] = {step.extents[i], step.inputStrides[i], step.outputStrides[i]};
    }
    std::stable_sort(axes_.begin(), axes_.begin() + count_,
                     [](const Axis& a, const Axis& b) { return std::abs(a.to) > std::abs(b.to); });
    join();
    if (count_ == 0) axes_[count_++] = {1, 1, 1};
  }

  int64_t count() const { return count_; }
  const Axis& operator[](int64_t i) const { return axes_[static_cast<size_t>(i)]; }
  const Axis& innermost() const { return (*this)[count_ - 1]; }

  /** Takes an axis out. */
  Axis extract(int64_t i) {
    const Axis axis = (*this)[i];
    std::copy(axes_.begin() + i + 1, axes_.begin() + count_, axes_.begin() + i);
    --count_;
    return axis;
  }

  int64_t positions() const {
    int64_t product = 1;
    for (int64_t i = 0; i < count_; ++i) product *= (*this)[i].extent;
    return product;
  }

  struct Offsets {
    int64_t from = 0;
    int64_t to = 0;
  };

  /** Of a position, counted with the last axis fastest. */
  Offsets offsetsOf(int64_t position) const {
    Offsets offsets;
    for (int64_t i = count_; i-- > 0; position /= (*this)[i].extent) {
      offsets.from += position % (*this)[i].extent * (*this)[i].from;
      offsets.to += position % (*this)[i].extent * (*this)[i].to;
    }
    return offsets;
  }

 private:
  void join() {
    int64_t joined = 0;
    for (int64_t i = 1; i < count_; ++i) {
      Axis& outer = axes_[static_cast<size_t>(joined)];
      const Axis inner = axes_[static_cast<size_t>(i)];
      if (outer.from == inner.extent * inner.from && outer.to == inner.extent * inner.to) {
        outer = {outer.extent * inner.extent, inner.from, inner.to};
      } else {
        axes_[static_cast<size_t>(++joined)] = inner;
      }
    }
    count_ = std::min(count_, joined + 1);
  }

  std::vector<Axis> axes_;
  int64_t count_ = 0;
};

template <typename T>
void copyRow(const T* from, int64_t fromStride, T* to, int64_t toStride, int64_t count) {
  if (fromStride == 1 && toStride == 1) {
    std::memcpy(to, from, static_cast<size_t>(count) * sizeof(T));
  } else if (toStride == 1) {
    for (int64_t i = 0; i < count; ++i) to[i] = from[i * fromStride];
  } else {
    for (int64_t i = 0; i < count; ++i) to[i * toStride] = from[i * fromStride];
  }
}

/** Row by row of the output, whose rows may be cut in pieces: a join has but a few, and long ones. */
template <typename T>
void copyRows(Axes axes, const T* from, T* to, const RunContext& context) {
  const Axis row = axes.extract(axes.count() - 1);
  forEachRange(context, axes.positions() * row.extent, 1, [&](int64_t begin, int64_t end) {
    int64_t position = begin / row.extent;
    int64_t first = begin % row.extent;
    for (int64_t left = end - begin; left > 0; ++position, first = 0) {
      const int64_t count = std::min(left, row.extent - first);
      const Axes::Offsets at = axes.offsetsOf(position);
      copyRow(from + at.from + first * row.from, row.from, to + at.to + first * row.to, row.to, count);
      left -= count;
    }
  });
}

/** Rows of fewer elements are found by steps of the axis around them: to divide for each costs more than to copy it. */
constexpr int64_t kLeastCopiedRow = 64;

template <typename T, int kExtent>
void copyShortRows(const T* from, int64_t fromStride, T* to, int64_t toStride, int64_t rows) {
  for (int64_t i = 0; i < rows; ++i) std::memcpy(to + i * toStride, from + i * fromStride, kExtent * sizeof(T));
}

template <typename T>
void copyBlock(const T* from, T* to, int64_t rows, const Axis& lines, const Axis& row) {
  if (row.from == 1 && row.to == 1) {
    switch (row.extent) {
      case 2: return copyShortRows<T, 2>(from, lines.from, to, lines.to, rows);
      case 3: return copyShortRows<T, 3>(from, lines.from, to, lines.to, rows);
      case 4: return copyShortRows<T, 4>(from, lines.from, to, lines.to, rows);
      default: break;
    }
  }
  for (int64_t i = 0; i < rows; ++i) copyRow(from + i * lines.from, row.from, to + i * lines.to, row.to, row.extent);
}

/** Blocks of short rows. */
template <typename T>
void copyBlocks(Axes axes, const T* from, T* to, const RunContext& context) {
  const Axis row = axes.extract(axes.count() - 1);
  const Axis lines = axes.extract(axes.count() - 1);
  forEachRange(context, axes.positions() * lines.extent, row.extent, [&](int64_t begin, int64_t end) {
    int64_t position = begin / lines.extent;
    int64_t first = begin % lines.extent;
    for (int64_t left = end - begin; left > 0; ++position, first = 0) {
      const int64_t count = std::min(left, lines.extent - first);
      const Axes::Offsets at = axes.offsetsOf(position);
      copyBlock(from + at.from + first * lines.from, to + at.to + first * lines.to, count, lines, row);
      left -= count;
    }
  });
}

/** The two axes along which the input's and the output's elements are adjacent, and the others one by one. */
template <typename T>
void copyTransposed(Axes axes, int64_t inputAxis, const T* from, T* to, const RunContext& context) {
  const Axis rows = axes.extract(axes.count() - 1);
  const Axis columns = axes.extract(inputAxis);
  const int64_t strips = (columns.extent + kStripColumns - 1) / kStripColumns;
  forEachRange(context, axes.positions() * strips, rows.extent * kStripColumns, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const Axes::Offsets at = axes.offsetsOf(i / strips);
      const int64_t column = i % strips * kStripColumns;
      transposeStrip(from + at.from + column, rows.from, rows.extent, std::min(kStripColumns, columns.extent - column),
                     to + at.to + column * columns.to, columns.to);
    }
  });
}

/** Of fewer, such as the channels of an image, each is picked out of the input for itself. */
constexpr int64_t kLeastTransposed = 4;

template <typename T>
void copyElements(const CopyStep& step, const T* from, T* to, const RunContext& context) {
  const Axes axes(step);
  if (axes.innermost().to == 1 && axes.innermost().from != 1) {
    for (int64_t i = 0; i + 1 < axes.count(); ++i) {
      if (axes[i].from == 1 && axes[i].extent >= kLeastTransposed) return copyTransposed(axes, i, from, to, context);
    }
  }
  const bool isShort = axes.innermost().extent < kLeastCopiedRow && axes.count() > 1;
  isShort ? copyBlocks(axes, from, to, context) : copyRows(axes, from, to, context);
}

}  // namespace

void copy(const CopyStep& step, const void* input, void* output, const RunContext& context) {
  const auto copyAs = [&]<typename T>(T) {
    copyElements(step, static_cast<const T*>(input), static_cast<T*>(output), context);
  };
  switch (step.bytes) {
    case 1: return copyAs(uint8_t{});
    case 2: return copyAs(uint16_t{});
    case 4: return copyAs(uint32_t{});
    default: return copyAs(uint64_t{});
  }
}

void fill(const FillStep& step, float* output) { std::fill_n(output, step.count, static_cast<float>(step.value)); }

}  // namespace warpconv::operators
