#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "problem/activation.h"
#include "problem/conv_problem.h"
#include "problem/plan_request.h"

/**
 * The steps that a compiled network consists of: what is to be computed, for any device. Shapes are brought to the few
 * forms here by the compiler (lib/model), so that a device needs one kernel for each step and not one for each of
 * ONNX's operators. Elements are float32, dense and row-major unless a step has strides; extents and strides count
 * elements.
 *
 * Every struct lists its fields in `fields`, under the names that JavaScript gives them: the one place where the two
 * meet.
 */
namespace warpconv::program {

/** Where a step finds a tensor: the n-th input, output or constant of the program, or its scratch memory. */
struct Buffer {
  enum class Space { none, input, output, constant, arena };

  Space space = Space::none;
  /** Of the input, output or constant; 0 in the arena */
  int64_t index = 0;
  /** In bytes */
  int64_t offset = 0;

  bool isGiven() const { return space != Space::none; }
};

/**
 * output = activation(input * (weight * scale) + bias + residual); see ConvProblem. The scale, where it is given, is a
 * constant of K factors, one for each filter, and the weight a constant, too.
 */
struct ConvolutionStep {
  static constexpr const char* kKind = "convolution";

  ConvProblem problem;
  Activation activation;
  PlanRequest request;
  Buffer input, weight, scale, bias, residual, output;
};

/**
 * output[b, i, j] = activation(alpha * sum over k of left[b, i, k] * right[b, k, j] + beta * bias[b, i, j]), with
 * strides of its own for each operand, 0 where it is broadcast; the output is dense.
 */
struct MatmulStep {
  static constexpr const char* kKind = "matmul";

  /** Each batch axis, outermost first, then m, n and k */
  std::vector<int64_t> batch;
  int64_t m = 1, n = 1, k = 1;
  /** For each batch axis, then for the rows and the columns of the matrix */
  std::vector<int64_t> leftStrides, rightStrides, biasStrides;
  double alpha = 1, beta = 1;
  Activation activation;
  Buffer left, right, bias, output;

  template <typename Fields>
  void fields(Fields& f) {
    f("batch", batch), f("m", m), f("n", n), f("k", k);
    f("leftStrides", leftStrides), f("rightStrides", rightStrides), f("biasStrides", biasStrides);
    f("alpha", alpha), f("beta", beta), f("activation", activation);
    f("left", left), f("right", right), f("bias", bias), f("output", output);
  }
};

/**
 * One function of several tensors, element by element, as a chain of instructions. Value i < operands is the element of
 * operand i; instruction j makes value operands + j from earlier ones; the last is the output.
 */
struct ElementwiseStep {
  static constexpr const char* kKind = "elementwise";
  /** That CUDA's kernels take */
  static constexpr int64_t kMostAxes = 6;
  static constexpr int64_t kMostOperands = 8;
  static constexpr int64_t kMostInstructions = 24;

  /**
   * The names are ONNX's, and so are the formulas. Of `a` alone: p and q are alpha and beta, or the bounds of clip, or
   * the factor and the summand of affine. `constant` is p. NaN passes through all of them, through minimum and maximum
   * too.
   */
  enum class Operation {
    add,
    subtract,
    multiply,
    divide,
    minimum,
    maximum,
    power,
    prelu,
    constant,
    affine,
    negate,
    absolute,
    relu,
    leakyRelu,
    clip,
    sigmoid,
    hardSigmoid,
    hardSwish,
    silu,
    mish,
    elu,
    selu,
    celu,
    gelu,
    geluTanh,
    tanh,
    softplus,
    softsign,
    exp,
    log,
    sqrt,
    reciprocal,
    floor,
    ceil,
    round,
    erf,
    sign,
    sin,
    cos,
  };

  struct Instruction {
    Operation operation = Operation::add;
    /** Values; b only of the first eight */
    int64_t a = 0, b = 0;
    double p = 0, q = 0;

    template <typename Fields>
    void fields(Fields& f) {
      f("operation", operation), f("a", a), f("b", b), f("p", p), f("q", q);
    }
  };

  /** Of the output, outermost first: coalesced, so that few axes are left */
  std::vector<int64_t> extents;
  std::vector<Buffer> operands;
  /** For each operand one stride an axis, 0 where it is broadcast */
  std::vector<std::vector<int64_t>> strides;
  std::vector<Instruction> code;
  Buffer output;

  template <typename Fields>
  void fields(Fields& f) {
    f("extents", extents), f("operands", operands), f("strides", strides), f("code", code), f("output", output);
  }
};

/**
 * Windows of `planes` (N * C) maps. Padded elements count for nothing, but for the divisor of `countPadding`. A window
 * of padding alone has the maximum -infinity and the average 0.
 */
struct PoolStep {
  static constexpr const char* kKind = "pool";
  enum class Mode { maximum, average };

  Mode mode = Mode::maximum;
  int64_t planes = 1;
  int64_t h = 1, w = 1, p = 1, q = 1;
  int64_t r = 1, s = 1;
  std::array<int64_t, 2> stride{1, 1}, dilation{1, 1};
  /** Top and left; what lies below and to the right follows from p and q */
  std::array<int64_t, 2> padding{0, 0};
  /** Below and to the right, for the divisor of countPadding alone: a window of ceil_mode may reach beyond */
  std::array<int64_t, 2> endPadding{0, 0};
  bool countPadding = false;
  Buffer input, output;

  template <typename Fields>
  void fields(Fields& f) {
    f("mode", mode), f("planes", planes), f("h", h), f("w", w), f("p", p), f("q", q), f("r", r), f("s", s);
    f("stride", stride), f("dilation", dilation), f("padding", padding), f("endPadding", endPadding);
    f("countPadding", countPadding), f("input", input), f("output", output);
  }
};

/**
 * output[outer, inner] over input[outer, reduced, inner]. argMaximum and argMinimum write int64, and take NaN for more
 * extreme than any number.
 */
struct ReduceStep {
  static constexpr const char* kKind = "reduce";
  enum class Mode { sum, mean, maximum, minimum, product, sumOfSquares, argMaximum, argMinimum };

  Mode mode = Mode::sum;
  int64_t outer = 1, reduced = 1, inner = 1;
  /** Of equal elements argMaximum and argMinimum take the first, or the last */
  bool last = false;
  Buffer input, output;

  template <typename Fields>
  void fields(Fields& f) {
    f("mode", mode), f("outer", outer), f("reduced", reduced), f("inner", inner), f("last", last);
    f("input", input), f("output", output);
  }
};

/** output = softmax, or its logarithm, over the middle axis of [outer, reduced, inner]. */
struct SoftmaxStep {
  static constexpr const char* kKind = "softmax";

  int64_t outer = 1, reduced = 1, inner = 1;
  bool logarithm = false;
  Buffer input, output;

  template <typename Fields>
  void fields(Fields& f) {
    f("outer", outer), f("reduced", reduced), f("inner", inner), f("logarithm", logarithm);
    f("input", input), f("output", output);
  }
};

/**
 * Each of `rows` rows of `count` elements: (x - mean) / sqrt(variance + epsilon) * scale[i] + shift[i], where element j
 * of row r has i = (r % groups) * channels + j / inner: instance, group and layer normalisation.
 */
struct NormalizeStep {
  static constexpr const char* kKind = "normalize";

  int64_t rows = 1, count = 1;
  int64_t groups = 1, channels = 1, inner = 1;
  double epsilon = 1e-5;
  /** Each may be absent */
  Buffer scale, shift;
  Buffer input, output;

  template <typename Fields>
  void fields(Fields& f) {
    f("rows", rows), f("count", count), f("groups", groups), f("channels", channels), f("inner", inner);
    f("epsilon", epsilon), f("scale", scale), f("shift", shift), f("input", input), f("output", output);
  }
};

/** ONNX's LRN over the channels of [n, channels, inner]: x / (k + alpha / size * sum of squares) ^ beta. */
struct LocalResponseStep {
  static constexpr const char* kKind = "localResponse";

  int64_t n = 1, channels = 1, inner = 1, size = 1;
  double alpha = 1e-4, beta = 0.75, k = 1;
  Buffer input, output;

  template <typename Fields>
  void fields(Fields& f) {
    f("n", n), f("channels", channels), f("inner", inner), f("size", size);
    f("alpha", alpha), f("beta", beta), f("k", k), f("input", input), f("output", output);
  }
};

/** output[… outputStrides] = input[… inputStrides] for every position of `extents`: transposes, slices, joins. */
struct CopyStep {
  static constexpr const char* kKind = "copy";

  /** Of an element: 1, 2, 4 or 8 */
  int64_t bytes = 4;
  std::vector<int64_t> extents, inputStrides, outputStrides;
  Buffer input, output;

  template <typename Fields>
  void fields(Fields& f) {
    f("bytes", bytes), f("extents", extents), f("inputStrides", inputStrides), f("outputStrides", outputStrides);
    f("input", input), f("output", output);
  }
};

/** output[0 … count) = value */
struct FillStep {
  static constexpr const char* kKind = "fill";

  int64_t count = 0;
  double value = 0;
  Buffer output;

  template <typename Fields>
  void fields(Fields& f) {
    f("count", count), f("value", value), f("output", output);
  }
};

/**
 * output[outer, i, inner] = input[outer, indices[i], inner], `axis` being the input's extent there. Negative indices
 * count from the end; one that is out of range fails the run.
 */
struct GatherStep {
  static constexpr const char* kKind = "gather";

  int64_t bytes = 4;
  int64_t outer = 1, axis = 1, count = 1, inner = 1;
  /** int64 */
  Buffer indices;
  Buffer input, output;

  template <typename Fields>
  void fields(Fields& f) {
    f("bytes", bytes), f("outer", outer), f("axis", axis), f("count", count), f("inner", inner);
    f("indices", indices), f("input", input), f("output", output);
  }
};

/**
 * output[outer, i, inner] = sum over t of weights[i * taps + t] * input[outer, positions[i * taps + t], inner], where
 * the input has `axis` positions: one axis of a resize.
 */
struct InterpolateStep {
  static constexpr const char* kKind = "interpolate";

  int64_t outer = 1, axis = 1, count = 1, inner = 1, taps = 2;
  std::vector<int64_t> positions;
  std::vector<double> weights;
  Buffer input, output;

  template <typename Fields>
  void fields(Fields& f) {
    f("outer", outer), f("axis", axis), f("count", count), f("inner", inner), f("taps", taps);
    f("positions", positions), f("weights", weights), f("input", input), f("output", output);
  }
};

/**
 * Between types of elements. Floats to integers are cut towards zero, to the nearest bound where they do not fit, and
 * NaN becomes 0; integers to narrower ones keep their low bits; to bool, what is not zero is true.
 */
struct CastStep {
  static constexpr const char* kKind = "cast";
  enum class Type { float32, float64, int8, int16, int32, int64, uint8, uint16, uint32, boolean };

  int64_t count = 0;
  Type from = Type::float32, to = Type::float32;
  Buffer input, output;

  template <typename Fields>
  void fields(Fields& f) {
    f("count", count), f("from", from), f("to", to), f("input", input), f("output", output);
  }
};

using Step = std::variant<ConvolutionStep, MatmulStep, ElementwiseStep, PoolStep, ReduceStep, SoftmaxStep,
                          NormalizeStep, LocalResponseStep, CopyStep, FillStep, GatherStep, InterpolateStep, CastStep>;

}  // namespace warpconv::program
