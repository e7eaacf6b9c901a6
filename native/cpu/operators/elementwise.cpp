#include <algorithm>
#include <array>
#include <optional>
#include <vector>

#include "cpu/operators/cpu_operators.h"
#include "cpu/operators/odometer.h"
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
  std::vector<int64_t> position(extents.size());
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

using Operation = ElementwiseStep::Operation;

/** An instruction of which one operand, or two, are the same in a whole row: x * factor + summand. */
struct RowInstruction {
  /** False where the one after it does this one's work as well */
  bool isDone = true;
  size_t x = 0;
  /** Operands, if any; otherwise 1 and nothing */
  std::optional<size_t> factor, summand;
  float factorSign = 1, summandSign = 1;
};

/** A row shorter than this is finished sooner than its operands are looked up. */
constexpr int64_t kLeastGatheredRow = 64;

/**
 * The instructions of a chain as they are where every operand that is gathered is the same in a whole row, as scales
 * and shifts of channels are: then nothing has to be gathered. Empty for other chains.
 */
class RowCode {
 public:
  RowCode() = default;
  RowCode(const ElementwiseStep& step, std::span<const Reading> readings) {
    const size_t operands = step.strides.size();
    const auto isGathered = [&](int64_t value) {
      return value < static_cast<int64_t>(operands) && readings[static_cast<size_t>(value)] == Reading::gathered;
    };
    for (size_t i = 0; i < operands; ++i) {
      // A scalar has no rows, and no operand of it is gathered.
      if (readings[i] != Reading::gathered) continue;
      if (step.strides[i].back() != 0 || step.extents.back() < kLeastGatheredRow) return;
    }
    std::vector<std::optional<RowInstruction>> rows(step.code.size());
    bool isAny = false;
    for (size_t i = 0; i < rows.size(); ++i) {
      const auto& code = step.code[i];
      const bool isOfTwo = takesTwo(code.operation);
      if (!isGathered(code.a) && !(isOfTwo && isGathered(code.b))) continue;
      rows[i] = rowInstruction(code, isGathered(code.a));
      if (!rows[i] || isGathered(static_cast<int64_t>(rows[i]->x))) return;
      isAny = true;
      if (i > 0 && rows[i - 1]) joinWithPrevious(step, i, *rows[i - 1], *rows[i]);
    }
    if (isAny) rows_ = std::move(rows);
  }

  bool isEmpty() const { return rows_.empty(); }
  /** Null where an instruction stays as it is */
  const RowInstruction* at(size_t i) const { return !isEmpty() && rows_[i] ? &*rows_[i] : nullptr; }

 private:
  static bool takesTwo(Operation operation) { return operation <= Operation::prelu; }

  static std::optional<RowInstruction> rowInstruction(const ElementwiseStep::Instruction& code, bool isFirst) {
    RowInstruction row;
    row.x = static_cast<size_t>(isFirst ? code.b : code.a);
    const auto same = static_cast<size_t>(isFirst ? code.a : code.b);
    switch (code.operation) {
      case Operation::multiply: row.factor = same; return row;
      case Operation::add: row.summand = same; return row;
      case Operation::subtract:
        row.summand = same;
        (isFirst ? row.factorSign : row.summandSign) = -1;
        return row;
      default: return std::nullopt;
    }
  }

  /** A product that is only needed for the sum after it becomes part of that. */
  static void joinWithPrevious(const ElementwiseStep& step, size_t i, RowInstruction& previous, RowInstruction& row) {
    const size_t product = step.strides.size() + i - 1;
    const auto isUse = [product](const auto& code) {
      return code.a == static_cast<int64_t>(product) ||
             (takesTwo(code.operation) && code.b == static_cast<int64_t>(product));
    };
    const auto uses = std::count_if(step.code.begin(), step.code.end(), isUse);
    // An operand's place is never taken by a result.
    const bool isOfOperand = previous.x < step.strides.size();
    if (row.x != product || row.factor || !previous.factor || previous.summand || uses != 1 || !isOfOperand) return;
    row.x = previous.x;
    row.factor = previous.factor;
    previous.isDone = false;
  }

  std::vector<std::optional<RowInstruction>> rows_;
};

/** A step with a place in scratch memory for each value that needs one. */
class Chain {
 public:
  Chain(const ElementwiseStep& step, const VectorLoops& loops) : step_(step), loops_(loops) {
    // These keep their places: what is filled in once is needed to the end, and few operands are gathered.
    for (size_t i = 0; i < step.strides.size(); ++i) {
      readings_[i] = readingOf(step.extents, step.strides[i]);
      if (readings_[i] != Reading::inPlace) places_[i] = placeCount_++;
    }
    rowCode_ = RowCode(step, readings_);
    placeResults();
  }

  int64_t scratchFloats() const { return static_cast<int64_t>(placeCount_) * kBlock; }

  void run(std::span<const float* const> operands, int64_t begin, int64_t end, float* scratch, float* output) const {
    for (size_t i = 0; i < operands.size(); ++i) {
      if (readings_[i] == Reading::once) std::fill_n(placeOf(i, scratch), kBlock, *operands[i]);
    }
    const int64_t row = rowCode_.isEmpty() ? end : step_.extents.back();
    while (begin < end) {
      const int64_t count = std::min({kBlock, end - begin, row - begin % row});
      runBlock(operands, begin, count, scratch, output + begin);
      begin += count;
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
      if (readings_[next] == Reading::gathered && rowCode_.isEmpty()) {
        gatherBlock(step_.extents, step_.strides[next], operands[next], begin, count, placeOf(next, scratch));
      }
    }
    const size_t last = next + step_.code.size() - 1;
    for (size_t i = 0; i < step_.code.size(); ++i, ++next) {
      const RowInstruction* row = rowCode_.at(i);
      if (row != nullptr && !row->isDone) continue;
      const auto& code = step_.code[i];
      const float* a = values[row != nullptr ? row->x : static_cast<size_t>(code.a)];
      const float* b = row != nullptr ? a : values[static_cast<size_t>(code.b)];
      // A loop does not write what it reads; the output may be an operand.
      const bool isDirect = next == last && a != output && b != output;
      float* to = isDirect ? output : placeOf(next, scratch);
      if (row != nullptr) {
        // A sum with -0 leaves every product as it is.
        const float factor = row->factor ? elementOfRow(operands, *row->factor, begin) : 1.0f;
        const float summand = row->summand ? elementOfRow(operands, *row->summand, begin) : -0.0f;
        loops_.function(Operation::affine)(a, b, to, count, row->factorSign * factor, row->summandSign * summand);
      } else {
        loops_.function(code.operation)(a, b, to, count, static_cast<float>(code.p), static_cast<float>(code.q));
      }
      values[next] = to;
    }
    if (values[last] != output) std::copy_n(values[last], count, output);
  }

  /** Of an operand that is the same in the whole row of element `begin` */
  float elementOfRow(std::span<const float* const> operands, size_t operand, int64_t begin) const {
    const auto& strides = step_.strides[operand];
    int64_t left = begin / step_.extents.back();
    int64_t offset = 0;
    for (size_t axis = step_.extents.size() - 1; axis-- > 0; left /= step_.extents[axis]) {
      offset += left % step_.extents[axis] * strides[axis];
    }
    return operands[operand][offset];
  }

  const ElementwiseStep& step_;
  const VectorLoops& loops_;
  RowCode rowCode_;
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
