#include "program/verify.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace warpconv::program {
namespace {

/** Elements of one tensor, and extents, strides and distances counted in them: products of two fit into 64 bits. */
constexpr int64_t kMost = kMaxElements;

/** The first thing that is wrong; thrown and caught in this file. */
struct Complaint {
  const char* sentence;
};

void require(bool holds, const char* sentence) {
  if (!holds) throw Complaint{sentence};
}

/** An extent: 0 for a tensor without elements. */
int64_t extent(int64_t value) {
  require(value >= 0 && value <= kMost, "has an extent that is negative or beyond 2^40");
  return value;
}

/** At least 1. */
int64_t positive(int64_t value) {
  require(value >= 1 && value <= kMost, "has a count that is below 1 or beyond 2^40");
  return value;
}

/** Steps between windows, taps and padding: sums of their products with extents of maps fit into 64 bits. */
void requireWindowCount(int64_t value, int64_t least) {
  require(value >= least && value <= kMaxExtent, "has a stride, dilation, padding or window out of range");
}

int64_t product(std::initializer_list<int64_t> extents) {
  int64_t elements = 1;
  for (const int64_t one : extents) {
    if (extent(one) == 0) return 0;
    require(elements <= kMost / one, "has a tensor of more than 2^40 elements");
    elements *= one;
  }
  return elements;
}

int64_t product(const std::vector<int64_t>& extents) {
  int64_t elements = 1;
  for (const int64_t one : extents) elements = product({elements, one});
  return elements;
}

/** Bytes of one buffer that a step touches: all from begin to end, or runs of so many, each a pitch behind the last. */
struct Bytes {
  Buffer::Space space;
  int64_t index;
  int64_t begin, end;
  int64_t run = 0, pitch = 0;

  bool overlaps(const Bytes& other) const {
    const bool meet = space == other.space && index == other.index && begin < other.end && other.begin < end;
    return meet && !isBetween(other);
  }

 private:
  /** Whether the runs of one lie between those of the other, as channels of one tensor do that others are next to. */
  bool isBetween(const Bytes& other) const {
    if (pitch == 0 || pitch != other.pitch) return false;
    const int64_t apart = ((other.begin - begin) % pitch + pitch) % pitch;
    return run <= apart && apart + other.run <= pitch;
  }
};

/**
 * The first and the last element that a box of these extents and strides touches; nothing where it has no elements.
 * Runs of `run` elements have them all, each a multiple of `pitch` behind the first; both are 0 where there are no such
 * runs.
 */
struct Reach {
  int64_t first = 0;
  int64_t last = 0;
  int64_t run = 0, pitch = 0;
};

/** Takes the axes of the least strides for the runs, as few as will do. */
void findRuns(std::span<const int64_t> extents, std::span<const int64_t> strides, Reach& reach) {
  std::vector<std::pair<int64_t, int64_t>> axes;
  for (size_t axis = 0; axis < extents.size(); ++axis) {
    if (strides[axis] < 0) return;
    if (extents[axis] > 1 && strides[axis] > 0) axes.emplace_back(strides[axis], extents[axis]);
  }
  std::sort(axes.begin(), axes.end());
  int64_t run = 1;
  for (size_t inner = 0; inner < axes.size(); run += (axes[inner].second - 1) * axes[inner].first, ++inner) {
    int64_t pitch = 0;
    for (size_t outer = inner; outer < axes.size(); ++outer) pitch = std::gcd(pitch, axes[outer].first);
    if (run > pitch || pitch == 1) continue;
    reach.run = run, reach.pitch = pitch;
    return;
  }
}

std::optional<Reach> reachOf(std::span<const int64_t> extents, std::span<const int64_t> strides) {
  require(extents.size() == strides.size(), "has not as many strides as axes");
  Reach reach;
  bool isEmpty = false;
  for (size_t axis = 0; axis < extents.size(); ++axis) {
    const int64_t stride = strides[axis];
    require(-kMost <= stride && stride <= kMost, "has a stride beyond 2^40");
    const int64_t steps = extent(extents[axis]) - 1;
    isEmpty = isEmpty || steps < 0;
    if (steps <= 0 || stride == 0) continue;
    require(steps <= kMost / std::abs(stride), "reaches further than 2^40 elements");
    (stride < 0 ? reach.first : reach.last) += steps * stride;
    require(reach.last - reach.first <= kMost, "reaches further than 2^40 elements");
  }
  if (isEmpty) return std::nullopt;
  findRuns(extents, strides, reach);
  return reach;
}

/** Checks one step. What is read comes before what is written, which lies apart from it. */
class Verifier {
 public:
  explicit Verifier(const ProgramSpec& program) : program_(program) {}

  void check(const ConvolutionStep& x) {
    const ConvProblem& problem = x.problem;
    const ConvFormat& format = problem.format;
    readTensor(x.input, format.input, problem.n, problem.c, problem.h * problem.w);
    read(x.weight, problem.weightSize());
    readIfGiven(x.scale, problem.k);
    const bool isConstant = x.weight.space == Buffer::Space::constant && x.scale.space == Buffer::Space::constant;
    require(!x.scale.isGiven() || isConstant, "has a scale that is no constant, or of filters that are none");
    readIfGiven(x.bias, problem.k);
    if (x.residual.isGiven()) readTensor(x.residual, format.residual, problem.n, problem.k, problem.p * problem.q);
    writeTensor(x.output, format.output, problem.n, problem.k, problem.p * problem.q);
  }

  void check(const MatmulStep& x) {
    std::vector<int64_t> left = x.batch, right = x.batch, result = x.batch;
    left.insert(left.end(), {x.m, x.k});
    right.insert(right.end(), {x.k, x.n});
    result.insert(result.end(), {x.m, x.n});
    product(left), product(right);
    readBox(x.left, left, x.leftStrides);
    readBox(x.right, right, x.rightStrides);
    if (x.bias.isGiven()) readBox(x.bias, result, x.biasStrides);
    write(x.output, product(result));
  }

  void check(const ElementwiseStep& x) {
    const auto operands = static_cast<int64_t>(x.operands.size());
    require(operands >= 1 && operands <= ElementwiseStep::kMostOperands, "has no operand, or too many");
    require(!x.code.empty() && x.code.size() <= ElementwiseStep::kMostInstructions, "has no instruction, or too many");
    require(!x.extents.empty(), "has no axis");
    require(x.strides.size() == x.operands.size(), "has not as many lists of strides as operands");
    const int64_t elements = product(x.extents);
    require(x.types.empty() || x.types.size() == x.operands.size(), "has not a type for each operand");
    const auto widthOfOperand = [&](size_t i) { return x.types.empty() ? 4 : widthOf(x.types[i]); };
    for (size_t i = 0; i < x.operands.size(); ++i) readBox(x.operands[i], x.extents, x.strides[i], widthOfOperand(i));
    int64_t values = operands;
    for (const ElementwiseStep::Instruction& one : x.code) {
      require(one.a >= 0 && one.a < values && one.b >= 0 && one.b < values, "uses a value before it is made");
      ++values;
    }
    if (!x.isPlain()) {
      writeBox(x.output, x.extents, x.outputStrides.empty() ? denseStrides(x.extents) : x.outputStrides,
               widthOf(x.outputType));
      return;
    }
    // It may be written over an operand: each element is read before it is written, or by another thread, as a float.
    reads_.clear();
    write(x.output, elements);
  }

  void check(const PoolStep& x) {
    for (const int64_t count : {x.stride[0], x.stride[1], x.dilation[0], x.dilation[1], x.r, x.s}) {
      requireWindowCount(count, 1);
    }
    for (const int64_t count : {x.padding[0], x.padding[1], x.endPadding[0], x.endPadding[1], x.p, x.q, x.h, x.w}) {
      requireWindowCount(count, 0);
    }
    requireReachable(x.p, x.stride[0], x.r, x.dilation[0]);
    requireReachable(x.q, x.stride[1], x.s, x.dilation[1]);
    product({x.planes, x.h, x.w}), product({x.planes, x.p, x.q});
    require(x.planes % positive(x.channels) == 0, "has images of another number of channels");
    require(x.isPlain() || (isHalves(x.inputFormat) && isHalves(x.outputFormat)), "has formats that pools do not take");
    require(x.inputFormat.type == x.outputFormat.type, "has an output of another type");
    readTensor(x.input, x.inputFormat, x.planes / x.channels, x.channels, x.h * x.w);
    writeTensor(x.output, x.outputFormat, x.planes / x.channels, x.channels, x.p * x.q);
  }

  void check(const ReduceStep& x) {
    const bool isIndex = x.mode == ReduceStep::Mode::argMaximum || x.mode == ReduceStep::Mode::argMinimum;
    if (isIndex) positive(x.reduced);
    const bool isOfHalves = x.mode == ReduceStep::Mode::sum || x.mode == ReduceStep::Mode::mean ||
                            x.mode == ReduceStep::Mode::maximum || x.mode == ReduceStep::Mode::minimum;
    require(x.isPlain() || (isOfHalves && x.type != FloatType::float32), "has no such mode, or pitch, for its type");
    readTensor(x.input, {x.type, Layout::nhwc, x.pitch}, x.outer, x.inner, x.reduced);
    write(x.output, product({x.outer, x.inner}), isIndex ? 8 : 4);
  }

  void check(const FormatStep& x) {
    readTensor(x.input, x.from, x.n, x.channels, x.area);
    writeTensor(x.output, x.to, x.n, x.channels, x.area);
  }

  void check(const SoftmaxStep& x) {
    const int64_t elements = product({x.outer, x.reduced, x.inner});
    read(x.input, elements);
    write(x.output, elements);
  }

  void check(const NormalizeStep& x) {
    const int64_t parameters = product({positive(x.groups), positive(x.channels)});
    require(product({x.channels, positive(x.inner)}) == extent(x.count), "has rows that are not its channels");
    readIfGiven(x.scale, parameters);
    readIfGiven(x.shift, parameters);
    read(x.input, product({x.rows, x.count}), widthOf(x.type));
    write(x.output, product({x.rows, x.count}), widthOf(x.type));
  }

  void check(const LocalResponseStep& x) {
    require(x.size >= 1 && x.size <= kMaxExtent, "has a size out of range");
    const int64_t elements = product({x.n, positive(x.channels), x.inner});
    read(x.input, elements);
    write(x.output, elements);
  }

  void check(const SqueezeExciteStep& x) {
    require(x.type != FloatType::float32, "has tensors that are not halves");
    require(positive(x.channels) <= SqueezeExciteStep::kMostChannels, "has too many channels");
    require(positive(x.hidden) <= SqueezeExciteStep::kMostHidden, "has too many hidden units");
    positive(x.area);
    readTensor(x.input, {x.type, Layout::nhwc, x.inputPitch}, x.n, x.channels, x.area);
    read(x.hiddenWeight, x.hidden * x.channels), readIfGiven(x.hiddenBias, x.hidden);
    read(x.gateWeight, x.hidden * x.channels), readIfGiven(x.gateBias, x.channels);
    writeTensor(x.output, {x.type, Layout::nhwc, x.outputPitch}, x.n, x.channels, x.area);
  }

  void check(const CopyStep& x) {
    require(x.bytes == 1 || x.bytes == 2 || x.bytes == 4 || x.bytes == 8, "has elements of another size");
    require(!x.extents.empty(), "has no axis");
    require(product(x.extents) >= 1, "makes no element");
    readBox(x.input, x.extents, x.inputStrides, x.bytes);
    writeBox(x.output, x.extents, x.outputStrides, x.bytes);
  }

  void check(const FillStep& x) { write(x.output, extent(x.count)); }

  void check(const GatherStep& x) {
    require(x.bytes == 1 || x.bytes == 2 || x.bytes == 4 || x.bytes == 8, "has elements of another size");
    read(x.indices, extent(x.count), 8);
    read(x.input, product({x.outer, x.axis, x.inner}), x.bytes);
    write(x.output, product({x.outer, x.count, x.inner}), x.bytes);
  }

  void check(const InterpolateStep& x) {
    const auto taps = static_cast<size_t>(product({x.count, positive(x.taps)}));
    require(x.positions.size() == taps && x.weights.size() == taps, "has not as many taps as it says");
    const bool areInside = std::all_of(x.positions.begin(), x.positions.end(),
                                       [&](int64_t position) { return position >= 0 && position < x.axis; });
    require(areInside, "has a tap outside of its axis");
    read(x.input, product({x.outer, x.axis, x.inner}), widthOf(x.type));
    write(x.output, product({x.outer, x.count, x.inner}), widthOf(x.type));
  }

  void check(const MapStep& x) {
    const size_t operands = x.operands.size();
    require(operands >= 1 && operands <= MapStep::kMostOperands, "has no operand, or too many");
    require(x.types.size() == operands && x.strides.size() == operands, "has not a type and strides for each operand");
    require(operands >= operandsOf(x.operation), "has not as many operands as its operation takes");
    require(!x.extents.empty(), "has no axis");
    const int64_t elements = product(x.extents);
    for (size_t i = 0; i < operands; ++i) readBox(x.operands[i], x.extents, x.strides[i], widthOf(x.types[i]));
    write(x.output, elements, widthOf(x.outputType));
  }

  void check(const IndexedStep& x) {
    const auto axes = static_cast<int64_t>(x.extents.size());
    require(x.serialAxes >= 0 && x.serialAxes <= axes, "has more serial axes than axes");
    require(!x.axes.empty() && x.axes.size() == x.axisStrides.size() && x.axes.size() <= IndexedStep::kMostAxes,
            "has no component, or too many, or not a stride for each");
    require(product(x.extents) >= 1, "makes no element");
    const std::optional<Reach> values = reachOf(x.extents, x.valueStrides);
    const std::optional<Reach> rows = reachOf(x.extents, x.indexStrides);
    const std::optional<Reach> data = reachOf(x.extents, x.dataStrides);
    const std::optional<Reach> indexed = reachOf(x.axes, x.axisStrides);
    require(indexed.has_value(), "has an axis without elements");
    const auto components = static_cast<int64_t>(x.axes.size());
    require(rows->first >= 0 && rows->last + components <= extent(x.indexCount), "reads beyond its indices");
    require(data->first + indexed->first >= 0 && data->last + indexed->last < extent(x.dataCount),
            "reaches outside of its data");
    const int64_t width = widthOf(x.type);
    read(x.indices, x.indexCount, 8);
    if (x.mode == IndexedStep::Mode::gather) {
      requireDistinct(x.extents, x.valueStrides);
      read(x.input, x.dataCount, width);
      requireWritable(x.output);
      requireApart(bytesOf(x.output, values, width));
    } else {
      noteRead(bytesOf(x.input, values, width));
      write(x.output, x.dataCount, width);
    }
  }

  void check(const SortStep& x) {
    require(positive(x.count) <= x.length, "takes more elements of a line than it has");
    read(x.input, product({x.outer, x.length, x.inner}), widthOf(x.type));
    write(x.output, product({x.outer, x.count, x.inner}), 8);
  }

  void check(const ScanStep& x) {
    const int64_t elements = product({x.outer, x.length, x.inner});
    read(x.input, elements, widthOf(x.type));
    write(x.output, elements, widthOf(x.type));
  }

  void check(const TypedReduceStep& x) {
    const bool isIndex = x.mode == ReduceStep::Mode::argMaximum || x.mode == ReduceStep::Mode::argMinimum;
    if (isIndex) positive(x.reduced);
    read(x.input, product({x.outer, x.reduced, x.inner}), widthOf(x.type));
    write(x.output, product({x.outer, x.inner}), isIndex ? 8 : widthOf(x.type));
  }

  void check(const RoiAlignStep& x) {
    require(x.type == ElementType::float32 || x.type == ElementType::float64, "has elements of another type");
    requireWindowCount(x.samples, 0);
    product({positive(x.h), positive(x.w)});
    read(x.images, extent(x.regions), 8);
    read(x.boxes, product({x.regions, 4}), widthOf(x.type));
    read(x.input, product({x.n, x.channels, x.h, x.w}), widthOf(x.type));
    write(x.output, product({x.regions, x.channels, positive(x.p), positive(x.q)}), widthOf(x.type));
  }

  void check(const RecurrentStep& x) {
    const int64_t states = product({positive(x.batch), positive(x.hidden)});
    const int64_t gates = product({states, x.gateCount()});
    positive(x.steps);
    read(x.gates, product({x.steps, gates}));
    read(x.recurrent, product({x.gateCount(), x.hidden, x.hidden}));
    readIfGiven(x.productBias, x.hidden);
    readIfGiven(x.peepholes, product({x.hidden, 3}));
    readIfGiven(x.initialHidden, states);
    readIfGiven(x.initialCell, states);
    if (x.lengths.isGiven()) read(x.lengths, x.batch);
    // All factors are below 2^40, and so are the products of three of them.
    write(x.output, product({x.steps, states}) + 2 * states + 2 * gates);
  }

  void check(const TypedMatmulStep& x) {
    std::vector<int64_t> left = x.batch, right = x.batch, result = x.batch;
    left.insert(left.end(), {x.m, x.k});
    right.insert(right.end(), {x.k, x.n});
    result.insert(result.end(), {x.m, x.n});
    product(left), product(right);
    readBox(x.left, left, x.leftStrides, widthOf(x.leftType));
    readBox(x.right, right, x.rightStrides, widthOf(x.rightType));
    write(x.output, product(result), widthOf(x.outputType));
  }

  void checkSizes() const {
    require(program_.constants.size() == program_.constantBytes.size(), "has not a size for each constant");
    require(program_.arenaBytes >= 0 && program_.arenaBytes <= 8 * kMost, "has scratch memory beyond 2^43 bytes");
    for (const auto* sizes : {&program_.constantBytes, &program_.inputBytes, &program_.outputBytes}) {
      for (const int64_t bytes : *sizes) {
        require(bytes >= 0 && bytes <= 8 * kMost, "has a tensor beyond 2^43 bytes");
      }
    }
  }

 private:
  static size_t operandsOf(MapStep::Operation operation) {
    using Operation = MapStep::Operation;
    if (operation == Operation::select) return 3;
    return operation >= Operation::add && operation < Operation::select ? 2 : 1;
  }

  /** The last window of an axis ends within 2^62. */
  static void requireReachable(int64_t windows, int64_t stride, int64_t taps, int64_t dilation) {
    constexpr int64_t kFurthest = int64_t{1} << 61;
    require(windows <= kFurthest / stride && taps <= kFurthest / dilation, "has windows beyond 2^61");
  }

  /** Bytes of what a buffer is part of. */
  int64_t sizeOf(const Buffer& buffer) const {
    const auto at = [&](const std::vector<int64_t>& sizes) {
      require(buffer.index >= 0 && buffer.index < static_cast<int64_t>(sizes.size()), "has a buffer that is not there");
      return sizes[static_cast<size_t>(buffer.index)];
    };
    switch (buffer.space) {
      case Buffer::Space::input: return at(program_.inputBytes);
      case Buffer::Space::output: return at(program_.outputBytes);
      case Buffer::Space::constant: return at(program_.constantBytes);
      case Buffer::Space::arena: return program_.arenaBytes;
      case Buffer::Space::none: break;
    }
    throw Complaint{"lacks a buffer"};
  }

  /** Where elements lie that are counted from where the buffer begins; nothing where there are none. */
  std::optional<Bytes> bytesOf(const Buffer& buffer, std::optional<Reach> reach, int64_t bytes) const {
    const int64_t size = sizeOf(buffer);
    require(buffer.offset >= 0 && buffer.offset <= size && buffer.offset % bytes == 0, "has a buffer out of place");
    if (!reach) return std::nullopt;
    // There is one arena, whatever the number says.
    const int64_t index = buffer.space == Buffer::Space::arena ? 0 : buffer.index;
    const Bytes touched{buffer.space,
                        index,
                        buffer.offset + reach->first * bytes,
                        buffer.offset + (reach->last + 1) * bytes,
                        reach->run * bytes,
                        reach->pitch * bytes};
    require(touched.begin >= 0 && touched.end <= size, "reaches outside of a buffer");
    return touched;
  }

  std::optional<Bytes> boxOf(const Buffer& buffer, std::span<const int64_t> extents, std::span<const int64_t> strides,
                             int64_t bytes) const {
    return bytesOf(buffer, reachOf(extents, strides), bytes);
  }

  std::optional<Bytes> runOf(const Buffer& buffer, int64_t elements, int64_t bytes) const {
    return bytesOf(buffer, elements == 0 ? std::nullopt : std::optional(Reach{0, elements - 1}), bytes);
  }

  void noteRead(const std::optional<Bytes>& touched) {
    if (touched) reads_.push_back(*touched);
  }

  void readBox(const Buffer& buffer, std::span<const int64_t> extents, std::span<const int64_t> strides,
               int64_t bytes = 4) {
    noteRead(boxOf(buffer, extents, strides, bytes));
  }

  void read(const Buffer& buffer, int64_t elements, int64_t bytes = 4) { noteRead(runOf(buffer, elements, bytes)); }

  static bool isHalves(const TensorFormat& format) {
    return format.layout == Layout::nhwc && format.type != FloatType::float32;
  }

  static void requirePitch(const TensorFormat& format, int64_t channels) {
    if (format.pitch == 0) return;
    require(format.layout == Layout::nhwc && format.pitch >= channels && format.pitch <= kMaxExtent,
            "has pixels that overlap");
  }

  /** Where the elements of a tensor lie; nothing where it has none. */
  std::optional<Bytes> tensorOf(const Buffer& buffer, const TensorFormat& format, int64_t n, int64_t channels,
                                int64_t area) const {
    requirePitch(format, channels);
    const int64_t elements = product({n, channels, area});
    if (format.pitch == 0 || elements == 0) return runOf(buffer, elements, widthOf(format.type));
    return boxOf(buffer, std::array{n * area, channels}, std::array{format.pitch, int64_t{1}}, widthOf(format.type));
  }

  void readTensor(const Buffer& buffer, const TensorFormat& format, int64_t n, int64_t channels, int64_t area) {
    noteRead(tensorOf(buffer, format, n, channels, area));
  }

  void writeTensor(const Buffer& buffer, const TensorFormat& format, int64_t n, int64_t channels, int64_t area) const {
    require(product({n, channels, area}) >= 1, "makes no element");
    requireWritable(buffer);
    requireApart(tensorOf(buffer, format, n, channels, area));
  }

  void writeBox(const Buffer& buffer, const std::vector<int64_t>& extents, const std::vector<int64_t>& strides,
                int64_t bytes) const {
    require(product(extents) >= 1, "makes no element");
    requireWritable(buffer);
    const std::optional<Bytes> touched = boxOf(buffer, extents, strides, bytes);
    requireDistinct(extents, strides);
    requireApart(touched);
  }

  static std::vector<int64_t> denseStrides(const std::vector<int64_t>& extents) {
    std::vector<int64_t> strides(extents.size(), 1);
    for (size_t axis = extents.size(); axis-- > 1;) strides[axis - 1] = strides[axis] * extents[axis];
    return strides;
  }

  void readIfGiven(const Buffer& buffer, int64_t elements) {
    if (buffer.isGiven()) read(buffer, elements);
  }

  static void requireWritable(const Buffer& buffer) {
    require(buffer.space == Buffer::Space::output || buffer.space == Buffer::Space::arena,
            "writes to what only may be read");
  }

  /** Of a box that has been checked: an element that is written again and again takes time without end, and threads
   * race. */
  static void requireDistinct(const std::vector<int64_t>& extents, const std::vector<int64_t>& strides) {
    for (size_t axis = 0; axis < std::min(extents.size(), strides.size()); ++axis) {
      require(extents[axis] <= 1 || strides[axis] != 0, "writes an element more than once");
    }
  }

  void requireApart(const std::optional<Bytes>& written) const {
    const bool isApart = !written || std::none_of(reads_.begin(), reads_.end(),
                                                  [&](const Bytes& read) { return read.overlaps(*written); });
    require(isApart, "writes over what it reads");
  }

  /** Work of no elements is no step: the functions of steps divide by their extents. */
  void write(const Buffer& buffer, int64_t elements, int64_t bytes = 4) const {
    require(elements >= 1, "makes no element");
    requireWritable(buffer);
    requireApart(runOf(buffer, elements, bytes));
  }

  const ProgramSpec& program_;
  std::vector<Bytes> reads_;
};

Status failure(const std::string& what, const Complaint& complaint) {
  return {StatusCode::internal, what + " " + complaint.sentence};
}

}  // namespace

Status verify(const ProgramSpec& program) {
  try {
    Verifier(program).checkSizes();
  } catch (const Complaint& complaint) {
    return failure("the program", complaint);
  }
  for (size_t i = 0; i < program.steps.size(); ++i) {
    try {
      std::visit([&](const auto& step) { Verifier(program).check(step); }, program.steps[i]);
    } catch (const Complaint& complaint) {
      const char* kind = std::visit([](const auto& step) { return step.kKind; }, program.steps[i]);
      return failure("step " + std::to_string(i) + " of the program (" + kind + ")", complaint);
    }
  }
  return {};
}

}  // namespace warpconv::program
