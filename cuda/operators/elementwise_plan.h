#pragma once

#include <optional>
#include <span>

#include "cuda/kernel/fast_divisor.h"
#include "cuda/operators/elementwise_code.h"
#include "program/steps.h"

namespace warpconv::cuda::operators {

/** Tensors of an elementwise step in packs of neighbouring elements, the last axis counted in packs. */
struct ElementwiseArguments {
  struct Operand {
    const float* data;
    /** Element i of the operand is that of the output; otherwise the strides count */
    bool flat;
    /** The whole pack reads one element */
    bool repeats;
    /** Elements from one position, or pack, to the next */
    int strides[program::ElementwiseStep::kMostAxes];
  };

  int packs;
  int axes;
  FastDivisor extents[program::ElementwiseStep::kMostAxes];
  Operand operands[program::ElementwiseStep::kMostOperands];
  ElementwiseCode code;
  float* output;
};

struct ElementwisePlan {
  /** Elements in a pack: four where every operand can be read 16 bytes at a time, or one */
  int width;
  ElementwiseArguments arguments;
};

/** The addresses decide on the width. */
ElementwisePlan planElementwise(const program::ElementwiseStep& step, std::span<const float* const> operands,
                                float* output);

/** The same of tensors of types, the output among them. */
struct TypedArguments {
  struct Tensor {
    const void* data;
    FloatType type;
    bool flat;
    bool repeats;
    int strides[program::ElementwiseStep::kMostAxes];
  };

  int packs;
  int axes;
  FastDivisor extents[program::ElementwiseStep::kMostAxes];
  Tensor operands[program::ElementwiseStep::kMostOperands];
  Tensor output;
  ElementwiseCode code;
};

struct TypedPlan {
  /** Elements in a pack: eight where every tensor has whole words of 16 bytes of them, or two, or one */
  int width;
  TypedArguments arguments;
};

/** Of a step with types, or with an output that is not dense. */
TypedPlan planTyped(const program::ElementwiseStep& step, std::span<const void* const> operands, const void* output);

/**
 * A chain of nothing but output = clip(x * factor + summand), of x and output in halves and packs of eight: what
 * normalisations, residuals and gates are. Without a factor or a summand its data is null.
 */
struct LinearArguments {
  int packs;
  /** Of a position along the first of three axes or more, an image; or all */
  int span;
  /** Threads of a span. Each has the packs that are so far apart, a multiple of the last axis unless that is all. */
  FastDivisor threads;
  int blocks;
  int axes;
  FastDivisor extents[program::ElementwiseStep::kMostAxes];
  TypedArguments::Tensor x, factor, summand, output;
  float low, high;
};

/** Whether all packs of a thread read the same pack of a tensor: a row for all positions, or one for each image. */
inline WARPCONV_HOST_DEVICE bool isSameInSpan(const LinearArguments& x, const TypedArguments::Tensor& tensor) {
  for (int axis = 0; axis < program::ElementwiseStep::kMostAxes; ++axis) {
    const bool isBetween = axis + 1 < x.axes && (axis > 0 || x.axes < 3);
    if (isBetween && tensor.strides[axis] != 0) return false;
  }
  return !tensor.flat;
}

/** Nothing where a chain does more than that, or a tensor is not in packs of eight. */
std::optional<LinearArguments> planLinear(const program::ElementwiseStep& step, const TypedPlan& plan);

/** Where pack `pack` of a tensor begins, in elements. */
template <typename Arguments, typename Tensor>
WARPCONV_HOST_DEVICE int packOffset(const Arguments& x, const Tensor& operand, int pack, int width) {
  if (operand.flat) return pack * width;
  int offset = 0;
  for (int axis = program::ElementwiseStep::kMostAxes - 1; axis >= 0; --axis) {
    if (axis >= x.axes) continue;
    int along = pack;
    // along = pack % extent, pack /= extent
    pack = x.extents[axis].divide(along);
    offset += along * operand.strides[axis];
  }
  return offset;
}

}  // namespace warpconv::cuda::operators
