#include <algorithm>
#include <array>

#include "cpu/operators/operators.h"
#include "cpu/operators/ranges.h"
#include "cpu/vector_loops/vector_loops.h"
#include "memory/aligned_buffer.h"

namespace warpconv::operators {
namespace {

/**
 * Elements that all instructions have done before the next are looked at: few enough that the values in between stay in
 * the L1 cache, and enough that a call of a loop costs nothing beside it.
 */
constexpr int64_t kBlock = 1024;

constexpr size_t kMostValues = ElementwiseStep::kMostOperands + ElementwiseStep::kMostInstructions;

int64_t elementsOf(const std::vector<int64_t>& extents) {
  int64_t count = 1;
  for (const int64_t extent : extents) count *= extent;
  return count;
}

/** How an operand is read. */
enum class Reading {
  /** In place, since it lies as the output does */
  inPlace,
  /** One element for all */
  once,
  /** Brought into the output's order block by block */
  gathered
};

Reading readingOf(const std::vector<int64_t>& extents, const std::vector<int64_t>& strides) {
  bool isDense = true, isOne = true;
  int64_t stride = 1;
  for (size_t axis = extents.size(); axis-- > 0; stride *= extents[axis]) {
    if (extents[axis] == 1) continue;
    isDense = isDense && strides[axis] == stride;
    isOne = isOne && strides[axis] == 0;
  }
  return isDense ? Reading::inPlace : isOne ? Reading::once : Reading::gathered;
}

/** to[i] = from[i * stride] */
void copyRow(const float* from, int64_t stride, int64_t count, float* to) {
  if (stride == 1) {
    std::copy_n(from, count, to);
  } else if (stride == 0) {
    std::fill_n(to, count, *from);
  } else {
    for (int64_t i = 0; i < count; ++i) to[i] = from[i * stride];
  }
}

/** Elements [begin, begin + count) in the output's order. */
void gatherBlock(const std::vector<int64_t>& extents, const std::vector<int64_t>& strides, const float* from,
                 int64_t begin, int64_t count, float* to) {
  std::array<int64_t, ElementwiseStep::kMostAxes> position;
  const size_t innermost = extents.size() - 1;
  int64_t left = begin;
  for (size_t axis = extents.size(); axis-- > 0; left /= extents[axis]) {
    position[axis] = left % extents[axis];
    from += position[axis] * strides[axis];
  }
  while (true) {
    const int64_t row = std::min(count, extents[innermost] - position[innermost]);
    copyRow(from, strides[innermost], row, to);
    to += row, count -= row;
    if (count == 0) return;
    from -= position[innermost] * strides[innermost];
    position[innermost] = 0;
    size_t axis = innermost;
    do {
      --axis;
      from += strides[axis];
      if (++position[axis] < extents[axis]) break;
      from -= extents[axis] * strides[axis];
      position[axis] = 0;
    } while (axis > 0);
  }
}

/** A step with a place in scratch memory for each value that needs one. */
class Chain {
 public:
  Chain(const ElementwiseStep& step, const VectorLoops& loops) : step_(step), loops_(loops) {
    // These keep their places: what is filled in once is needed to the end, and few operands are gathered.
    for (size_t i = 0; i < step.strides.size(); ++i) {
      readings_[i] = readingOf(step.extents, step.strides[i]);
      if (readings_[i] != Reading::inPlace) places_[i] = placeCount_++;
    }
    placeResults();
  }

  int64_t scratchFloats() const { return static_cast<int64_t>(placeCount_) * kBlock; }

  void run(std::span<const float* const> operands, int64_t begin, int64_t end, float* scratch, float* output) const {
    for (size_t i = 0; i < operands.size(); ++i) {
      if (readings_[i] == Reading::once) std::fill_n(placeOf(i, scratch), kBlock, *operands[i]);
    }
    for (; begin < end; begin += kBlock) {
      runBlock(operands, begin, std::min(kBlock, end - begin), scratch, output + begin);
    }
  }

 private:
  /** A place is taken again once its value has been used for the last time. */
  void placeResults() {
    const size_t operands = step_.strides.size();
    const size_t firstPlace = placeCount_;
    std::array<size_t, kMostValues> lastUse{};
    for (size_t i = 0; i < step_.code.size(); ++i) {
      for (const int64_t value : {step_.code[i].a, step_.code[i].b}) lastUse[static_cast<size_t>(value)] = i;
    }
    std::array<bool, kMostValues> isFree{};
    for (size_t i = 0; i < step_.code.size(); ++i) {
      size_t place = firstPlace;
      while (place < placeCount_ && !isFree[place]) ++place;
      placeCount_ = std::max(placeCount_, place + 1);
      isFree[place] = false;
      places_[operands + i] = place;
      for (const int64_t value : {step_.code[i].a, step_.code[i].b}) {
        const auto used = static_cast<size_t>(value);
        if (used >= operands && lastUse[used] == i) isFree[places_[used]] = true;
      }
    }
  }

  float* placeOf(size_t value, float* scratch) const { return scratch + places_[value] * static_cast<size_t>(kBlock); }

  void runBlock(std::span<const float* const> operands, int64_t begin, int64_t count, float* scratch,
                float* output) const {
    std::array<const float*, kMostValues> values{};
    size_t next = 0;
    for (; next < operands.size(); ++next) {
      values[next] = readings_[next] == Reading::inPlace ? operands[next] + begin : placeOf(next, scratch);
      if (readings_[next] == Reading::gathered) {
        gatherBlock(step_.extents, step_.strides[next], operands[next], begin, count, placeOf(next, scratch));
      }
    }
    const size_t last = next + step_.code.size() - 1;
    for (const auto& code : step_.code) {
      const float* a = values[static_cast<size_t>(code.a)];
      const float* b = values[static_cast<size_t>(code.b)];
      // A loop does not write what it reads; the output may be an operand.
      const bool isDirect = next == last && a != output && b != output;
      float* to = isDirect ? output : placeOf(next, scratch);
      loops_.function(code.operation)(a, b, to, count, static_cast<float>(code.p), static_cast<float>(code.q));
      values[next++] = to;
    }
    if (values[last] != output) std::copy_n(values[last], count, output);
  }

  const ElementwiseStep& step_;
  const VectorLoops& loops_;
  std::array<Reading, ElementwiseStep::kMostOperands> readings_{};
  std::array<size_t, kMostValues> places_{};
  size_t placeCount_ = 0;
};

}  // namespace

void elementwise(const ElementwiseStep& step, std::span<const float* const> operands, float* output,
                 const RunContext& context) {
  const Chain chain(step, vectorLoops(context.isa));
  const auto passes = static_cast<int64_t>(step.code.size());
  forEachRange(context, elementsOf(step.extents), passes, [&](int64_t begin, int64_t end) {
    AlignedBuffer scratch(chain.scratchFloats());
    chain.run(operands, begin, end, scratch.data(), output);
  });
}

}  // namespace warpconv::operators
