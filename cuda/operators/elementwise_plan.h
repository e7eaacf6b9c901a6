#pragma once

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

/** Where pack `pack` of an operand begins, in elements. */
WARPCONV_HOST_DEVICE inline int packOffset(const ElementwiseArguments& x, const ElementwiseArguments::Operand& operand,
                                           int pack, int width) {
  if (operand.flat) return pack * width;
  int offset = 0;
  for (int axis = x.axes - 1; axis >= 0; --axis) {
    int along = pack;
    // along = pack % extent, pack /= extent
    pack = x.extents[axis].divide(along);
    offset += along * operand.strides[axis];
  }
  return offset;
}

}  // namespace warpconv::cuda::operators
