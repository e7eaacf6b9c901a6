#include <doctest/doctest.h>

#include <string>

#include "cuda/implicit/implicit.h"
#include "cuda/implicit/plan.h"
#include "support/named_problems.h"

using namespace warpconv;
using namespace warpconv::cuda;

namespace {

/** As of an H200. */
constexpr GpuTraits kTraits{90, 132, 65536, 228 * 1024, 227 * 1024, int64_t{50} << 20, 6.69e13, 4.9e12};

constexpr TensorFormat kHalf{FloatType::float16, Layout::nhwc, 0}, kFloats{FloatType::float32, Layout::nhwc, 0};

ConvProblem problemOf(int64_t n, int64_t c, int64_t area, int64_t k, int64_t window, int64_t stride = 1,
                      const TensorFormat& format = kHalf) {
  ConvRequest asked;
  asked.inputDims = {n, c, area, area};
  asked.weightDims = {k, c, window, window};
  asked.stride = {stride, stride};
  asked.padding = {window / 2, window / 2, window / 2, window / 2};
  asked.format = {format, format, format};
  return makeConvProblem(asked).value();
}

GpuRequest requestOf(const ConvProblem& problem, const std::string& variant = "") {
  const bool isFloat = problem.format.input.type == FloatType::float32;
  return {problem, {}, variant, kTraits, isFloat ? Precision::tf32 : Precision::fp32};
}

std::string refusal(const ConvProblem& problem) { return refuseImplicit(requestOf(problem)).value_or(""); }

}  // namespace

TEST_CASE("implicit takes halves in NHWC, of one type, whose pixels lie a multiple of 8 elements apart") {
  const ConvProblem taken = problemOf(1, 64, 14, 64, 3);
  CHECK(refusal(taken).empty());
  ConvProblem other = taken;
  other.format.output.type = FloatType::bfloat16;
  CHECK(refusal(other).find("of that type or of float32") != std::string::npos);
  other = taken;
  other.format.input.layout = Layout::nchw;
  CHECK(refusal(other).find("NHWC") != std::string::npos);
  other = taken;
  other.format.residual.pitch = 66;
  CHECK(refusal(other).find("multiple of 8") != std::string::npos);
  CHECK(refusal(problemOf(1, 63, 14, 64, 3)).find("multiple of 8") != std::string::npos);
}

TEST_CASE("implicit takes float32 in NHWC where the precision allows TF32, a multiple of 4 elements apart") {
  GpuRequest request = requestOf(problemOf(1, 36, 14, 20, 3, 1, kFloats));
  CHECK_FALSE(refuseImplicit(request).has_value());
  request.precision = Precision::bf16;
  CHECK_FALSE(refuseImplicit(request).has_value());
  request.precision = Precision::fp32;
  CHECK(refuseImplicit(request).value_or("").find("where the precision lets") != std::string::npos);
  CHECK(refusal(problemOf(1, 35, 14, 20, 3, 1, kFloats)).find("multiple of 4 ") != std::string::npos);
  ConvProblem other = request.problem;
  other.format.output.type = FloatType::float16;
  CHECK(refusal(other).find("of that type or of float32") != std::string::npos);
}

TEST_CASE("TF32 has half as many channels in a chunk, and no tiles of boxes for channels that are no multiple of 4") {
  CHECK(implicit::chunksOf(problemOf(1, 64, 14, 64, 3, 1, kFloats)) == 18);
  CHECK(implicit::chunksOf(problemOf(1, 64, 14, 64, 3)) == 9);
  ConvProblem problem = problemOf(128, 64, 56, 64, 1, 1, kFloats);
  CHECK(implicit::planImplicit(requestOf(problem)).persists);
  problem = problemOf(128, 64, 56, 62, 1, 1, {FloatType::float32, Layout::nhwc, 64});
  CHECK_FALSE(implicit::planImplicit(requestOf(problem)).persists);
  CHECK(refuseImplicit(requestOf(problem, "128x256")).value_or("").find("no multiple of 4") != std::string::npos);
  CHECK_FALSE(refuseImplicit(requestOf(problem, "128x128")).has_value());
}

TEST_CASE("implicit refuses what the copy engine's maps have no room for, groups, and other devices") {
  CHECK(refusal(problemOf(1, 64, 40, 64, 3, 9)).find("strides up to 8") != std::string::npos);
  ConvProblem grouped = problemOf(1, 64, 14, 64, 3);
  grouped.groups = 2;
  CHECK(refusal(grouped).find("one group") != std::string::npos);
  GpuRequest older = requestOf(problemOf(1, 64, 14, 64, 3));
  older.traits.computeCapability = 80;
  CHECK(refuseImplicit(older).has_value());
  older.traits.computeCapability = 100;
  CHECK(refuseImplicit(older).has_value());
}

TEST_CASE("implicit computes plain tensors in the type that the precision names, and by float32 none") {
  ConvProblem plain = problemOf(2, 3, 20, 22, 3);
  plain.format = {};
  GpuRequest request = requestOf(plain);
  request.precision = Precision::fp32;
  CHECK(formatImplicit(request) == ConvFormat{});
  CHECK(refuseImplicit(request).has_value());
  request.precision = Precision::tf32;
  const TensorFormat three{FloatType::float32, Layout::nhwc, 4}, more{FloatType::float32, Layout::nhwc, 24};
  CHECK(formatImplicit(request) == ConvFormat{three, more, more});
  // Halves are multiplied as they are.
  request.problem.format = {{FloatType::float16}, {FloatType::float16}, {FloatType::float16}};
  CHECK(formatImplicit(request).input.type == FloatType::float16);
  request.problem.format = {};
  request.precision = Precision::bf16;
  const TensorFormat input{FloatType::bfloat16, Layout::nhwc, 8}, output{FloatType::float32, Layout::nhwc, 24};
  CHECK(formatImplicit(request) == ConvFormat{input, output, output});
  // As they are where they can be
  request.problem.format = {{FloatType::float16, Layout::nhwc, 16}, {FloatType::float16}, {FloatType::bfloat16}};
  const TensorFormat padded{FloatType::float16, Layout::nhwc, 24};
  CHECK(formatImplicit(request) == ConvFormat{{FloatType::float16, Layout::nhwc, 16}, padded, output});
}

TEST_CASE("a block of every plan of implicit finds room, whichever tile is pinned") {
  for (const int64_t n : {1, 8, 128}) {
    for (const int64_t c : {8, 64, 100, 512, 2048}) {
      for (const int64_t window : {1, 3, 7}) {
        for (const TensorFormat& format : {kHalf, kFloats}) {
          const ConvProblem problem = problemOf(n, c, 14, 320, window, 1, format);
          for (const std::string_view variant : kImplicitVariants) {
            const implicit::Plan plan = implicit::planImplicit(requestOf(problem, std::string(variant)));
            const implicit::ImplicitTile tile = implicit::tileOf(problem, plan.tile);
            CHECK(implicit::kTiles[plan.tile].variant == variant);
            for (const implicit::Rooms& rooms : {plan.rooms, plan.residualRooms}) {
              CHECK(implicit::sharedBytes(tile, plan, rooms) <= implicit::mostSharedBytes(kTraits));
              CHECK(rooms.stages >= 1);
              CHECK(tile.boxes() % (1 << rooms.heldBoxes) == 0);
              CHECK((tile.warpgroups() << rooms.heldBoxes) <= implicit::kMostBoxes);
            }
            CHECK(plan.split <= implicit::chunksOf(problem));
            // A cluster makes one tile.
            CHECK((plan.split == 1 || !plan.persists));
            CHECK(plan.blocks >= plan.split);
          }
        }
      }
    }
  }
}

TEST_CASE("implicit splits long sums of few outputs, and lets blocks persist where there are many") {
  const implicit::Plan few = implicit::planImplicit(requestOf(problemOf(1, 512, 7, 512, 3)));
  CHECK(few.split > 1);
  const implicit::Plan many = implicit::planImplicit(requestOf(problemOf(128, 64, 56, 64, 1)));
  CHECK(many.split == 1);
  CHECK(many.persists);
}
