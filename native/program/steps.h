#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "problem/activation.h"
#include "problem/conv_format.h"
#include "problem/conv_problem.h"
#include "problem/plan_request.h"
#include "program/element_type.h"

/**
 * The steps that a compiled network consists of: what is to be computed, for any device. Shapes are brought to the few
 * forms here by the compiler (lib/model), so that a device needs one kernel for each step and not one for each of
 * ONNX's operators. Elements are float32, dense and row-major unless a step has types or strides; extents and strides
 * count elements. Steps that have types compute in float32, and round once.
 *
 * Every struct lists its fields in `fields`, under the names that JavaScript gives them: the one place where the two
 * meet. Those in `f.optional` may be absent.
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
  /** Of the operands; none where all are float32 */
  std::vector<FloatType> types;
  FloatType outputType = FloatType::float32;
  /** None where the output is dense */
  std::vector<int64_t> outputStrides;
  Buffer output;

  /** Whether everything is float32 and the output dense. */
  bool isPlain() const { return types.empty() && outputType == FloatType::float32 && outputStrides.empty(); }

  template <typename Fields>
  void fields(Fields& f) {
    f("extents", extents), f("operands", operands), f("strides", strides), f("code", code), f("output", output);
    f.optional("types", types), f.optional("outputType", outputType), f.optional("outputStrides", outputStrides);
  }
};

/**
 * Windows of `planes` (N * C) maps. Padded elements count for nothing, but for the divisor of `countPadding`. A window
 * of padding alone has the maximum -infinity and the average 0. Both formats are of one layout and, in NHWC, of one
 * type; then each pixel has `channels` planes.
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
  int64_t channels = 1;
  TensorFormat inputFormat, outputFormat;
  Buffer input, output;

  bool isPlain() const { return inputFormat == TensorFormat{} && outputFormat == TensorFormat{}; }

  template <typename Fields>
  void fields(Fields& f) {
    f("mode", mode), f("planes", planes), f("h", h), f("w", w), f("p", p), f("q", q), f("r", r), f("s", s);
    f("stride", stride), f("dilation", dilation), f("padding", padding), f("endPadding", endPadding);
    f("countPadding", countPadding), f("input", input), f("output", output);
    f.optional("channels", channels);
    f.optional("inputFormat", inputFormat), f.optional("outputFormat", outputFormat);
  }
};

/**
 * output[outer, inner] over input[outer, reduced, inner]. argMaximum and argMinimum write int64, and take NaN for more
 * extreme than any number. Halves have sums, means, maxima and minima, in float32.
 */
struct ReduceStep {
  static constexpr const char* kKind = "reduce";
  enum class Mode { sum, mean, maximum, minimum, product, sumOfSquares, argMaximum, argMinimum };

  Mode mode = Mode::sum;
  int64_t outer = 1, reduced = 1, inner = 1;
  /** Of equal elements argMaximum and argMinimum take the first, or the last */
  bool last = false;
  /** Of the input */
  FloatType type = FloatType::float32;
  /** Elements from one of the reduced axis to the next, where that is more than `inner`, or 0 */
  int64_t pitch = 0;
  Buffer input, output;

  bool isPlain() const { return type == FloatType::float32 && pitch == 0; }

  template <typename Fields>
  void fields(Fields& f) {
    f("mode", mode), f("outer", outer), f("reduced", reduced), f("inner", inner), f("last", last);
    f("input", input), f("output", output), f.optional("type", type), f.optional("pitch", pitch);
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
  /** Of input and output */
  FloatType type = FloatType::float32;
  Buffer input, output;

  template <typename Fields>
  void fields(Fields& f) {
    f("rows", rows), f("count", count), f("groups", groups), f("channels", channels), f("inner", inner);
    f("epsilon", epsilon), f("scale", scale), f("shift", shift), f("input", input), f("output", output);
    f.optional("type", type);
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

/**
 * Squeeze-and-excitation (Hu, Shen, Sun 2018) of halves in NHWC: output = input * gate, by channel of each of n images,
 * where gate = gateActivation(gateWeight^T * hidden + gateBias), and hidden = hiddenActivation(hiddenWeight * mean +
 * hiddenBias) of the means over `area` pixels. Both are float32. hiddenWeight is [hidden, channels] and, so that
 * neighbouring channels lie together, gateWeight too.
 */
struct SqueezeExciteStep {
  static constexpr const char* kKind = "squeezeExcite";
  /** That CUDA's kernel takes */
  static constexpr int64_t kMostChannels = 4096, kMostHidden = 1024;

  int64_t n = 1, channels = 1, area = 1, hidden = 1;
  /** Of input and output, not float32 */
  FloatType type = FloatType::float16;
  /** Elements from a pixel to the next */
  int64_t inputPitch = 1, outputPitch = 1;
  Activation hiddenActivation, gateActivation;
  Buffer input, hiddenWeight, hiddenBias, gateWeight, gateBias, output;

  template <typename Fields>
  void fields(Fields& f) {
    f("n", n), f("channels", channels), f("area", area), f("hidden", hidden), f("type", type);
    f("inputPitch", inputPitch), f("outputPitch", outputPitch);
    f("hiddenActivation", hiddenActivation), f("gateActivation", gateActivation), f("input", input);
    f("hiddenWeight", hiddenWeight), f("hiddenBias", hiddenBias), f("gateWeight", gateWeight), f("gateBias", gateBias);
    f("output", output);
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
  /** Of input and output */
  FloatType type = FloatType::float32;
  Buffer input, output;

  template <typename Fields>
  void fields(Fields& f) {
    f("outer", outer), f("axis", axis), f("count", count), f("inner", inner), f("taps", taps);
    f("positions", positions), f("weights", weights), f("input", input), f("output", output);
    f.optional("type", type);
  }
};

/** A tensor of n images of so many channels and pixels in another format. */
struct FormatStep {
  static constexpr const char* kKind = "format";

  int64_t n = 1, channels = 1, area = 1;
  TensorFormat from, to;
  Buffer input, output;

  template <typename Fields>
  void fields(Fields& f) {
    f("n", n), f("channels", channels), f("area", area), f("from", from), f("to", to);
    f("input", input), f("output", output);
  }
};

/**
 * One function of up to three tensors of any types, element by element. It is computed in float32, float64, int64 or
 * uint64, as which operands are read, and its result is written as the output's type. Floats that become integers are
 * cut towards zero, to the nearest bound where they do not fit, and NaN becomes 0; integers that become narrower ones
 * keep their low bits; to bool, what is not zero is true. `identity` is a cast.
 */
struct MapStep {
  static constexpr const char* kKind = "map";
  static constexpr size_t kMostOperands = 3;

  /**
   * Comparisons and logic make 1 or 0. Division by the integer 0 makes 0. `modulo` has the sign of the divisor,
   * `remainder` that of the dividend. Shifts bring in zeros, and to the right the sign. `isInfinite` looks at negative
   * ones where p is not 0, and at positive ones where q is not 0. `select` is of a condition and two others.
   * `scaledTanh` is p * tanh(q * x). Parameters
   * of others are those of ElementwiseStep.
   */
  enum class Operation {
    identity,
    add,
    subtract,
    multiply,
    divide,
    modulo,
    remainder,
    minimum,
    maximum,
    power,
    prelu,
    bitAnd,
    bitOr,
    bitXor,
    shiftLeft,
    shiftRight,
    equal,
    less,
    lessOrEqual,
    greater,
    greaterOrEqual,
    logicalAnd,
    logicalOr,
    logicalXor,
    select,
    negate,
    absolute,
    sign,
    bitNot,
    logicalNot,
    isNaN,
    isInfinite,
    constant,
    affine,
    relu,
    leakyRelu,
    thresholdedRelu,
    shrink,
    clip,
    floor,
    ceil,
    round,
    sqrt,
    reciprocal,
    exp,
    log,
    erf,
    sin,
    cos,
    tan,
    asin,
    acos,
    atan,
    sinh,
    cosh,
    tanh,
    scaledTanh,
    asinh,
    acosh,
    atanh,
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
    softplus,
    softsign,
  };

  Operation operation = Operation::identity;
  ElementType compute = ElementType::float32, outputType = ElementType::float32;
  /** Of each operand */
  std::vector<ElementType> types;
  /** Of the output, outermost first */
  std::vector<int64_t> extents;
  std::vector<Buffer> operands;
  /** For each operand one stride an axis, 0 where it is broadcast */
  std::vector<std::vector<int64_t>> strides;
  double p = 0, q = 0;
  Buffer output;

  template <typename Fields>
  void fields(Fields& f) {
    f("operation", operation), f("compute", compute), f("outputType", outputType), f("types", types);
    f("extents", extents), f("operands", operands), f("strides", strides), f("p", p), f("q", q), f("output", output);
  }
};

/**
 * Moves elements by indices. For every position of `extents`, `at` is where `values` has its element, and `place` is
 *   sum over axes of position * dataStride + sum over components c of index[c] * componentStride[c]
 * where index[c] is read from the indices at the sum of position * indexStride, + c. Gathering, values[at] =
 * data[place]; scattering, data[place] = values[at], or what the mode makes of both, in the order of positions.
 * Negative indices count from the end; one that is out of range fails the run.
 */
struct IndexedStep {
  static constexpr const char* kKind = "indexed";
  enum class Mode { gather, assign, add, multiply, minimum, maximum };
  static constexpr size_t kMostAxes = 8;

  Mode mode = Mode::gather;
  ElementType type = ElementType::float32;
  std::vector<int64_t> extents, valueStrides, dataStrides, indexStrides;
  /** The last axes of `extents`, along which positions may meet in one place. Those before it never do. */
  int64_t serialAxes = 0;
  /** Of each component the extent of the axis that it counts along, and its stride */
  std::vector<int64_t> axes, axisStrides;
  /** int64 */
  Buffer indices;
  /** Read: the data where it gathers, and the values where it scatters */
  Buffer input;
  /** Elements of the data, and of the indices, all of which are looked at */
  int64_t dataCount = 1, indexCount = 1;
  Buffer output;

  template <typename Fields>
  void fields(Fields& f) {
    f("mode", mode), f("type", type), f("extents", extents), f("valueStrides", valueStrides);
    f("dataStrides", dataStrides), f("indexStrides", indexStrides), f("serialAxes", serialAxes);
    f("axes", axes), f("axisStrides", axisStrides), f("indices", indices), f("input", input);
    f("dataCount", dataCount), f("indexCount", indexCount), f("output", output);
  }
};

/**
 * The places, as int64, of the first `count` of the `length` elements of each line of [outer, length, inner] in their
 * order: the greatest first, or the least. Of equal elements the one of the lower place is first, and NaN is greater
 * than any number.
 */
struct SortStep {
  static constexpr const char* kKind = "sort";

  ElementType type = ElementType::float32;
  int64_t outer = 1, length = 1, inner = 1, count = 1;
  bool greatest = true;
  Buffer input, output;

  template <typename Fields>
  void fields(Fields& f) {
    f("type", type), f("outer", outer), f("length", length), f("inner", inner), f("count", count);
    f("greatest", greatest), f("input", input), f("output", output);
  }
};

/**
 * Sums or products of all elements of a line of [outer, length, inner] up to each: with it, or without it where
 * `exclusive`, from the end where `reversed`.
 */
struct ScanStep {
  static constexpr const char* kKind = "scan";
  enum class Mode { sum, product };

  Mode mode = Mode::sum;
  ElementType type = ElementType::float32;
  int64_t outer = 1, length = 1, inner = 1;
  bool exclusive = false, reversed = false;
  Buffer input, output;

  template <typename Fields>
  void fields(Fields& f) {
    f("mode", mode), f("type", type), f("outer", outer), f("length", length), f("inner", inner);
    f("exclusive", exclusive), f("reversed", reversed), f("input", input), f("output", output);
  }
};

/**
 * As ReduceStep and MatmulStep, of elements of other types than float32, by the definition. Integers wrap around; the
 * mean of integers is cut towards zero.
 */
struct TypedReduceStep {
  static constexpr const char* kKind = "typedReduce";

  ReduceStep::Mode mode = ReduceStep::Mode::sum;
  ElementType type = ElementType::float64;
  int64_t outer = 1, reduced = 1, inner = 1;
  bool last = false;
  Buffer input, output;

  template <typename Fields>
  void fields(Fields& f) {
    f("mode", mode), f("type", type), f("outer", outer), f("reduced", reduced), f("inner", inner);
    f("last", last), f("input", input), f("output", output);
  }
};

/** Operands of any types are multiplied and added up in `compute`: float64, int64 or uint64. */
struct TypedMatmulStep {
  static constexpr const char* kKind = "typedMatmul";

  ElementType compute = ElementType::float64;
  ElementType leftType = ElementType::float64, rightType = ElementType::float64, outputType = ElementType::float64;
  /** Each batch axis, outermost first */
  std::vector<int64_t> batch;
  int64_t m = 1, n = 1, k = 1;
  /** For each batch axis, then for the rows and the columns of the matrix */
  std::vector<int64_t> leftStrides, rightStrides;
  Buffer left, right, output;

  template <typename Fields>
  void fields(Fields& f) {
    f("compute", compute), f("leftType", leftType), f("rightType", rightType), f("outputType", outputType);
    f("batch", batch), f("m", m), f("n", n), f("k", k);
    f("leftStrides", leftStrides), f("rightStrides", rightStrides);
    f("left", left), f("right", right), f("output", output);
  }
};

/**
 * One direction of ONNX's RNN, GRU or LSTM over `steps` steps of `batch` sequences, with `hidden` units. Of each gate
 * of each step `gates` holds what the input adds to it, biases too: [steps, batch, count * hidden], the gates in ONNX's
 * order (i o f c; z r h). The output is all hidden states [steps, batch, hidden], 0 beyond a sequence's end, then the
 * last ones [batch, hidden], the last cell states [batch, hidden], and scratch memory of 2 * batch * count * hidden
 * elements.
 */
struct RecurrentStep {
  static constexpr const char* kKind = "recurrent";
  enum class Cell { rnn, gru, lstm };

  struct Function {
    MapStep::Operation operation = MapStep::Operation::tanh;
    double p = 0, q = 0;

    template <typename Fields>
    void fields(Fields& f) {
      f("operation", operation), f("p", p), f("q", q);
    }
  };

  Cell cell = Cell::lstm;
  int64_t steps = 1, batch = 1, hidden = 1;
  /** Sequences are read from their end to their beginning */
  bool reversed = false;
  /** A GRU's reset gate multiplies the product with the hidden state, not that state */
  bool resetsProduct = false;
  /** An LSTM's forget gate is what its input gate leaves */
  bool isCoupled = false;
  /** What functions are applied to is brought to [-clip, clip], unless it is 0 */
  double clip = 0;
  /** f, g and h of ONNX */
  std::array<Function, 3> functions;
  Buffer gates;
  /** [count * hidden, hidden] */
  Buffer recurrent;
  /** [hidden], added to a GRU's product before it is multiplied; [3 * hidden] of an LSTM, in the order i o f; [batch,
   * hidden] each; int32 [batch]. Each may be absent. */
  Buffer productBias, peepholes, initialHidden, initialCell, lengths;
  Buffer output;

  int64_t gateCount() const { return cell == Cell::lstm ? 4 : cell == Cell::gru ? 3 : 1; }

  template <typename Fields>
  void fields(Fields& f) {
    f("cell", cell), f("steps", steps), f("batch", batch), f("hidden", hidden), f("reversed", reversed);
    f("resetsProduct", resetsProduct), f("isCoupled", isCoupled), f("clip", clip), f("functions", functions);
    f("gates", gates), f("recurrent", recurrent), f("productBias", productBias), f("peepholes", peepholes);
    f("initialHidden", initialHidden), f("initialCell", initialCell), f("lengths", lengths), f("output", output);
  }
};

/**
 * ONNX's RoiAlign: p x q bins of each region, a box x1 y1 x2 y2 in one image of [n, channels, h, w]. A bin is the
 * average of samples x samples places in it, or the greatest of them. The output is [regions, channels, p, q]. An image
 * that is out of range fails the run, as an index of a gather does.
 */
struct RoiAlignStep {
  static constexpr const char* kKind = "roiAlign";

  bool greatest = false;
  /** float32 or float64 */
  ElementType type = ElementType::float32;
  int64_t regions = 1, n = 1, channels = 1, h = 1, w = 1, p = 1, q = 1;
  /** Along each axis; 0 for as many as a bin is long, rounded up */
  int64_t samples = 0;
  /** What the numbers of a box are multiplied by */
  double scale = 1;
  /** Half an element is taken off a box; if not, it is at least 1 wide and high */
  bool halfPixel = true;
  /** int64 [regions]; [regions, 4] */
  Buffer images, boxes;
  Buffer input, output;

  template <typename Fields>
  void fields(Fields& f) {
    f("greatest", greatest), f("type", type), f("regions", regions), f("n", n), f("channels", channels);
    f("h", h), f("w", w), f("p", p), f("q", q), f("samples", samples), f("scale", scale), f("halfPixel", halfPixel);
    f("images", images), f("boxes", boxes), f("input", input), f("output", output);
  }
};

using Step = std::variant<ConvolutionStep, MatmulStep, ElementwiseStep, PoolStep, ReduceStep, SoftmaxStep,
                          NormalizeStep, LocalResponseStep, SqueezeExciteStep, CopyStep, FillStep, GatherStep,
                          InterpolateStep, FormatStep, MapStep, IndexedStep, SortStep, ScanStep, TypedReduceStep,
                          TypedMatmulStep, RecurrentStep, RoiAlignStep>;

}  // namespace warpconv::program
