#include "cuda/operators/elementwise_plan.h"

#include <algorithm>
#include <limits>
#include <vector>

namespace warpconv::cuda::operators {
namespace {

using program::ElementwiseStep;
using Operation = ElementwiseStep::Operation;

constexpr int kPackWidth = 4;

/** Of packs of four floats for each of 256 threads in the 48 KiB that a block has without asking. */
constexpr int kMostPackSlots = 12;

int operandsOf(Operation operation) {
  if (operation == Operation::constant) return 0;
  return operation <= Operation::prelu ? 2 : 1;
}

/** Gives slots to what is used later than by the next instruction, each again once that has been. */
class Slots {
 public:
  Source take(int64_t until) {
    const auto free = std::find_if(until_.begin(), until_.end(), [](int64_t end) { return end < 0; });
    const auto index = free - until_.begin();
    if (free == until_.end()) until_.push_back(until);
    until_[static_cast<size_t>(index)] = until;
    return static_cast<Source>(kFirstSlot + index);
  }
  void releaseBefore(int64_t instruction) {
    for (int64_t& end : until_) {
      if (end < instruction) end = -1;
    }
  }
  int count() const { return static_cast<int>(until_.size()); }

 private:
  /** The last instruction that reads it, or -1 */
  std::vector<int64_t> until_;
};

ElementwiseCode codeOf(const ElementwiseStep& step) {
  const auto operands = static_cast<int64_t>(step.operands.size());
  std::vector<ElementwiseStep::Instruction> code = step.code;
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  // A copy of the last operand, as an instruction that changes nothing.
  if (code.empty()) code.push_back({Operation::clip, operands - 1, 0, -kInfinity, kInfinity});
  const auto count = static_cast<int64_t>(code.size());

  std::vector<int64_t> lastUse(code.size(), -1);
  for (int64_t i = 0; i < count; ++i) {
    const auto& instruction = code[static_cast<size_t>(i)];
    const int64_t values[] = {instruction.a, instruction.b};
    for (int v = 0; v < operandsOf(instruction.operation); ++v) {
      if (values[v] >= operands) lastUse[static_cast<size_t>(values[v] - operands)] = i;
    }
  }
  ElementwiseCode result;
  Slots slots;
  std::vector<Source> kept(code.size(), kNothing);
  for (int64_t i = 0; i < count; ++i) {
    const auto& instruction = code[static_cast<size_t>(i)];
    const auto sourceOf = [&](int64_t value, int operand) -> Source {
      if (operand >= operandsOf(instruction.operation)) return kNothing;
      if (value < operands) return static_cast<Source>(value);
      return value - operands == i - 1 ? kLast : kept[static_cast<size_t>(value - operands)];
    };
    const Source a = sourceOf(instruction.a, 0), b = sourceOf(instruction.b, 1);
    // Operands are read before the result is kept, so that it may take the place of one of them.
    slots.releaseBefore(i + 1);
    const int64_t until = lastUse[static_cast<size_t>(i)];
    if (until > i + 1) kept[static_cast<size_t>(i)] = slots.take(until);
    result.instructions[result.count++] = {instruction.operation,
                                           a,
                                           b,
                                           kept[static_cast<size_t>(i)],
                                           static_cast<float>(instruction.p),
                                           static_cast<float>(instruction.q)};
  }
  result.slots = slots.count();
  return result;
}

bool isAligned(const void* data) { return reinterpret_cast<uintptr_t>(data) % (kPackWidth * sizeof(float)) == 0; }

bool isFlat(const ElementwiseStep& step, const std::vector<int64_t>& strides) {
  int64_t dense = 1;
  for (size_t axis = step.extents.size(); axis-- > 0; dense *= step.extents[axis]) {
    if (step.extents[axis] > 1 && strides[axis] != dense) return false;
  }
  return true;
}

/** Of packs of eight, as kMostPackSlots */
constexpr int kMostWideSlots = 6;

std::vector<int64_t> denseStrides(const std::vector<int64_t>& extents) {
  std::vector<int64_t> strides(extents.size(), 1);
  for (size_t axis = extents.size(); axis-- > 1;) strides[axis - 1] = strides[axis] * extents[axis];
  return strides;
}

/** Whether packs of so many elements are whole words, of 16 bytes at most, on their boundary; or one element each. */
bool takesPacksOf(int64_t width, const std::vector<int64_t>& strides, FloatType type, const void* data) {
  if (strides.back() == 0) return true;
  const int64_t bytes = std::min<int64_t>(16, width * widthOf(type));
  return strides.back() == 1 && reinterpret_cast<uintptr_t>(data) % static_cast<uintptr_t>(bytes) == 0 &&
         std::all_of(strides.begin(), strides.end() - 1, [&](int64_t stride) { return stride % width == 0; });
}

/** The last axis counts packs of `width` elements. */
template <typename Arguments>
void setAxes(Arguments& x, const ElementwiseStep& step, int width) {
  x.packs = 1;
  x.axes = static_cast<int>(step.extents.size());
  for (int axis = 0; axis < x.axes; ++axis) {
    const bool isLast = axis + 1 == x.axes;
    const int64_t extent = step.extents[static_cast<size_t>(axis)] / (isLast ? width : 1);
    x.packs *= static_cast<int>(extent);
    x.extents[axis] = FastDivisor(std::max(1, static_cast<int>(extent)));
  }
}

/** How packs of `width` elements lie in a tensor with these strides. */
template <typename Tensor>
void setStrides(Tensor& tensor, const ElementwiseStep& step, const std::vector<int64_t>& strides, int width) {
  tensor.flat = isFlat(step, strides);
  tensor.repeats = width > 1 && !tensor.flat && strides.back() == 0;
  for (size_t axis = 0; axis < strides.size(); ++axis) {
    const bool isLast = axis + 1 == strides.size();
    tensor.strides[axis] = static_cast<int>(strides[axis]) * (isLast ? width : 1);
  }
}

/** Loads of a row are shared by so many packs, where there are enough for all threads. */
constexpr int kMostPacksOfThread = 8;
constexpr int kThreadsOfBlock = 256;
/** That an H200 holds of the linear kernel, in whole blocks for each multiprocessor */
constexpr int kThreadsOfGpu = 132 * 3 * kThreadsOfBlock;

TypedArguments::Tensor toTensor(const ElementwiseStep& step, const std::vector<int64_t>& strides, FloatType type,
                                const void* data, int width) {
  TypedArguments::Tensor tensor{};
  tensor.data = data;
  tensor.type = type;
  setStrides(tensor, step, strides, width);
  return tensor;
}

}  // namespace

TypedPlan planTyped(const ElementwiseStep& step, std::span<const void* const> operands, const void* output) {
  const ElementwiseCode code = codeOf(step);
  const std::vector<int64_t> outputStrides =
      step.outputStrides.empty() ? denseStrides(step.extents) : step.outputStrides;
  const auto typeOf = [&](size_t i) { return step.types.empty() ? FloatType::float32 : step.types[i]; };
  const auto fits = [&](int64_t width) {
    if (step.extents.back() % width != 0 || outputStrides.back() != 1) return width == 1;
    bool all = takesPacksOf(width, outputStrides, step.outputType, output);
    for (size_t i = 0; all && i < operands.size(); ++i) {
      all = takesPacksOf(width, step.strides[i], typeOf(i), operands[i]);
    }
    return all;
  };
  TypedPlan plan{code.slots <= kMostWideSlots && fits(8) ? 8 : fits(2) ? 2 : 1, {}};
  TypedArguments& x = plan.arguments;
  x.code = code;
  setAxes(x, step, plan.width);
  for (size_t i = 0; i < operands.size(); ++i) {
    x.operands[i] = toTensor(step, step.strides[i], typeOf(i), operands[i], plan.width);
  }
  x.output = toTensor(step, outputStrides, step.outputType, output, plan.width);
  return plan;
}

std::optional<LinearArguments> planLinear(const ElementwiseStep& step, const TypedPlan& plan) {
  const TypedArguments& from = plan.arguments;
  const int operands = static_cast<int>(step.operands.size());
  if (plan.width != 8 || from.output.type == FloatType::float32 || step.code.empty()) return std::nullopt;
  LinearArguments x{};
  x.packs = from.packs, x.axes = from.axes, x.output = from.output;
  std::copy(std::begin(from.extents), std::end(from.extents), x.extents);
  x.low = -std::numeric_limits<float>::infinity(), x.high = -x.low;
  const auto isX = [&](int64_t value) {
    return value < operands && from.operands[value].type == from.output.type && !isSameInSpan(x, from.operands[value]);
  };
  int64_t value = isX(step.code[0].a) ? step.code[0].a : step.code[0].b;
  if (!isX(value) || from.operands[value].repeats) return std::nullopt;
  x.x = from.operands[value];
  bool isClipped = false;
  for (size_t i = 0; i < step.code.size(); ++i) {
    const ElementwiseStep::Instruction& one = step.code[i];
    const int64_t other = one.a == value ? one.b : one.a;
    if (isClipped) return std::nullopt;
    if (one.operation == Operation::multiply || one.operation == Operation::add) {
      const bool isProduct = one.operation == Operation::multiply;
      if ((one.a == value) == (one.b == value) || other >= operands || from.operands[other].repeats)
        return std::nullopt;
      if (x.summand.data != nullptr || (isProduct && x.factor.data != nullptr)) return std::nullopt;
      (isProduct ? x.factor : x.summand) = from.operands[other];
    } else if (one.a == value && (one.operation == Operation::relu || one.operation == Operation::clip)) {
      isClipped = true;
      x.low = one.operation == Operation::relu ? 0.0f : static_cast<float>(one.p);
      if (one.operation == Operation::clip) x.high = static_cast<float>(one.q);
    } else {
      return std::nullopt;
    }
    value = operands + static_cast<int64_t>(i);
  }
  const int row = x.axes > 1 ? static_cast<int>(step.extents.back()) / plan.width : 1;
  const int spans = x.axes < 3 ? 1 : static_cast<int>(step.extents.front());
  if (x.packs == 0) return std::nullopt;
  x.span = x.packs / spans;
  const auto quotient = [](int a, int b) { return (a + b - 1) / b; };
  const int all = std::max(quotient(x.packs, kMostPacksOfThread), std::min(x.packs, kThreadsOfGpu));
  const int threads = quotient(quotient(all, spans), row) * row;
  x.threads = FastDivisor(threads);
  x.blocks = quotient(threads * spans, kThreadsOfBlock);
  return x;
}

ElementwisePlan planElementwise(const ElementwiseStep& step, std::span<const float* const> operands, float* output) {
  const ElementwiseCode code = codeOf(step);
  bool packs = code.slots <= kMostPackSlots && !step.extents.empty() && step.extents.back() % kPackWidth == 0 &&
               isAligned(output);
  for (size_t i = 0; packs && i < operands.size(); ++i) {
    packs = takesPacksOf(kPackWidth, step.strides[i], FloatType::float32, operands[i]);
  }

  ElementwisePlan plan{packs ? kPackWidth : 1, {}};
  ElementwiseArguments& x = plan.arguments;
  x.code = code;
  x.output = output;
  setAxes(x, step, plan.width);
  for (size_t i = 0; i < operands.size(); ++i) {
    x.operands[i].data = operands[i];
    setStrides(x.operands[i], step, step.strides[i], plan.width);
  }
  return plan;
}

}  // namespace warpconv::cuda::operators
