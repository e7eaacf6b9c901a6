#include <algorithm>

#include "cuda/image/image.h"
#include "cuda/image/plan.h"
#include "cuda/planning/half_format.h"
#include "cuda/planning/shape.h"
#include "divide.h"

namespace warpconv::cuda {
namespace image {
namespace {

/** More are for `implicit`, which multiplies 64 at once. */
constexpr int64_t kMostChannels = 7;
/** Outputs are stored by pieces of 16 bytes. */
constexpr int64_t kPiece = 8;
constexpr int64_t kHalfBytes = 2, kWordBytes = 4;
/** So that two blocks have room on each device of compute capability 8.0 and later */
constexpr int64_t kMostSharedBytes = 48 * 1024;
constexpr int64_t kWarp = 32;

/**
 * In cycles of a multiprocessor: for a pair of elements that is brought, and for one that is kept twice; for 16
 * elements of 16 windows by 8 filters, and for 8 outputs; from a block's beginning to its first tile, and what a tile
 * waits at least. Solved from times of the first layers of ResNet-50, MobileNetV2, ConvNeXt-T and VGG-16 on an
 * H200.
 */
struct Model {
  double pair = 1.5, pairTwice = 6, product = 3.1, outputs = 0.18, begin = 2500, tile = 2500;
};
constexpr Model kModel;

/** Words from one row of a patch to the next, so that rows lie in different banks of shared memory. */
int64_t patchPitch(int64_t pairs) { return pairs % kWarp < kWarp / 2 ? roundUp(pairs, kWarp / 2) + 1 : pairs | 1; }

}  // namespace

Arguments argumentsOf(const ConvProblem& problem) {
  const Shape s = shapeOf(problem);
  Arguments x{};
  x.residualPitch = static_cast<int>(pitchOf(problem.format.residual, problem.k));
  x.outputPitch = static_cast<int>(pitchOf(problem.format.output, problem.k));
  x.c = s.c, x.h = s.h, x.w = s.w, x.k = s.k, x.p = s.p, x.q = s.q, x.r = s.r, x.s = s.s;
  x.strideH = s.strideH, x.strideW = s.strideW;
  x.padTop = s.padTop, x.padLeft = s.padLeft;
  x.dilationH = s.dilationH;
  x.windowPairs = static_cast<int>(ceilDivide(s.s, 2));
  x.steps = static_cast<int>(ceilDivide(s.c * s.r * x.windowPairs * 2, kStep));
  // An odd number of pieces of 16 bytes: eight rows lie in different banks.
  x.filterPitch = x.steps * kStep + kStep / 2;
  x.filterRows = static_cast<int>(roundUp(s.k, kFilterGroup));
  x.patchRows = (kRows - 1) * s.strideH + (s.r - 1) * s.dilationH + 1;
  x.patchPairs = static_cast<int>(ceilDivide((kColumns - 1) * s.strideW + x.windowPairs * 2, 2));
  x.patchPitch = static_cast<int>(patchPitch(x.patchPairs));
  x.patchWords = s.c * x.patchRows * x.patchPitch;
  x.byPatchPairs = FastDivisor(x.patchPairs);
  x.byPatchRows = FastDivisor(x.patchRows);
  x.byWindowPairs = FastDivisor(x.windowPairs);
  x.byWindowRows = FastDivisor(s.r);
  const auto columns = static_cast<int>(ceilDivide(s.q, kColumns)), rows = static_cast<int>(ceilDivide(s.p, kRows));
  x.byTileColumns = FastDivisor(columns);
  x.byTileRows = FastDivisor(rows);
  x.tiles = s.n * rows * columns;
  return x;
}

int64_t sharedBytes(const ConvProblem& problem) {
  const int64_t windowPairs = ceilDivide(problem.s, 2);
  const int64_t steps = ceilDivide(problem.c * problem.r * windowPairs * 2, kStep);
  const int64_t rows = (kRows - 1) * problem.stride.h + (problem.r - 1) * problem.dilation.h + 1;
  const int64_t pitch = patchPitch(ceilDivide((kColumns - 1) * problem.stride.w + windowPairs * 2, 2));
  const int64_t copies = problem.stride.w % 2 == 0 ? 1 : 2;
  const int64_t filterBytes = (steps * kStep + kStep / 2) * kHalfBytes + kWordBytes;
  // Of strides and windows without bound; sums of what is more than enough do not overflow.
  constexpr int64_t kMore = int64_t{1} << 40;
  return std::min(kMore, saturatedProduct({roundUp(problem.k, kFilterGroup), filterBytes})) +
         std::min(kMore, saturatedProduct({steps, 4, static_cast<int64_t>(sizeof(WindowPairs))})) +
         std::min(kMore, saturatedProduct({copies, problem.c, rows, pitch, kWordBytes}));
}

FilterForm formOf(const ConvProblem& problem) {
  const Arguments x = argumentsOf(problem);
  return makeForm(FilterOrder::image, problem, int64_t{x.filterRows} * x.filterPitch * kHalfBytes,
                  static_cast<int64_t>(problem.format.output.type));
}

Plan planTile(const GpuRequest& request, int tile) {
  const Arguments x = argumentsOf(request.problem);
  const GpuTraits& traits = request.traits;
  const int filters = kTiles[tile];
  Plan plan{tile, 0, static_cast<int>(sharedBytes(request.problem)), 0};
  const int64_t room = traits.sharedBytesPerMultiprocessor / (plan.sharedBytes + 1024);
  const int64_t resident = std::clamp<int64_t>(room, 1, residentOf(filters)) * traits.multiprocessors;
  plan.blocks = std::min<int64_t>(x.tiles, resident);
  const double pairs = static_cast<double>(x.c) * x.patchRows * x.patchPairs;
  const auto turns = static_cast<double>(ceilDivide(x.filterRows, filters));
  const double products = turns * x.steps * (filters / 8.0) * kRows;
  const double outputs = turns * filters / 8.0 * kRows * kColumns;
  const double each = x.strideW % 2 == 0 ? kModel.pair : kModel.pairTwice;
  const double busy = each * pairs + kModel.product * products + kModel.outputs * outputs;
  const auto own = static_cast<double>(ceilDivide<int64_t>(x.tiles, plan.blocks));
  const auto all = static_cast<double>(ceilDivide(x.tiles, traits.multiprocessors));
  const double cycles = kModel.begin + std::max(all * busy, own * (kModel.tile + busy));
  const double computed = cycles / (traits.flopsPerSecond / (2 * 128.0 * traits.multiprocessors));
  const ConvProblem& problem = request.problem;
  const auto bytes = static_cast<double>(kWordBytes * problem.inputSize() + kHalfBytes * problem.outputSize());
  plan.milliseconds = 1e3 * std::max(computed, bytes / traits.bytesPerSecond);
  return plan;
}

Plan planImage(const GpuRequest& request) {
  Plan best = planTile(request, 0);
  for (int tile = 1; tile < kTileCount; ++tile) {
    // Whole tiles of filters: there are no others in shared memory.
    if (roundUp(request.problem.k, kFilterGroup) % kTiles[tile] != 0) continue;
    const Plan plan = planTile(request, tile);
    if (plan.milliseconds < best.milliseconds) best = plan;
  }
  return best;
}

}  // namespace image

std::optional<std::string> refuseImage(const GpuRequest& request) {
  using namespace image;
  const ConvProblem& x = request.problem;
  if (x.format.input != TensorFormat{}) return "takes an input of float32 in NCHW";
  for (const TensorFormat* one : {&x.format.residual, &x.format.output}) {
    if (!isHalf(one->type) || one->layout != Layout::nhwc || one->type != x.format.output.type) {
      return "writes float16 or bfloat16 in NHWC, and adds a residual of the same type and layout";
    }
    if (pitchOf(*one, x.k) % kPiece != 0) return "takes tensors whose pixels lie a multiple of 8 elements apart";
  }
  if (request.precision == Precision::fp32 || request.precision == Precision::tf32) {
    return "multiplies halves, which precision 'fp16' or 'bf16' allows";
  }
  if (auto refusal = refuseTensorCores(request.traits)) return refusal;
  if (x.groups > 1) return "takes one group of channels; this problem has " + std::to_string(x.groups);
  if (x.c > kMostChannels) {
    return "takes at most " + std::to_string(kMostChannels) + " input channels; this problem has " +
           std::to_string(x.c);
  }
  if (x.dilation.w != 1) return "takes windows whose columns are neighbours, of dilation 1";
  if (auto refusal = refuseLarge(x)) return refusal;
  if (sharedBytes(x) > kMostSharedBytes) {
    return "keeps filters and the elements around 8 x 16 outputs in 48 KiB; this problem's take " +
           std::to_string(ceilDivide(sharedBytes(x), 1024)) + " KiB";
  }
  return std::nullopt;
}

ConvFormat formatImage(const GpuRequest& request) {
  ConvFormat format = halfFormat(request, image::kPiece);
  format.input = {};
  return format;
}

Estimate estimateImage(const GpuRequest& request) {
  const image::Plan plan = image::planImage(request);
  return {plan.milliseconds, 0, {{"blockM", image::kRows * image::kColumns}, {"blockN", image::kTiles[plan.tile]}}};
}

std::vector<FilterForm> formsImage(const GpuRequest& request, const Weights&) {
  return {image::formOf(request.problem)};
}

}  // namespace warpconv::cuda
