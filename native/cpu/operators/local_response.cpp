#include <array>

#include "cpu/operators/cpu_operators.h"
#include "cpu/operators/ranges.h"
#include "cpu/vector_loops/vector_loops.h"

namespace warpconv::operators {
namespace {

constexpr int64_t kSquares = 1024;

}  // namespace

void localResponse(const LocalResponseStep& step, const float* input, float* output, const RunContext& context) {
  const VectorLoops& loops = vectorLoops(context.isa);
  const auto alpha = static_cast<float>(step.alpha / static_cast<double>(step.size));
  const auto beta = static_cast<float>(step.beta);
  const auto k = static_cast<float>(step.k);
  const auto computeBlock = [&](int64_t map, int64_t begin, int64_t count) {
    const int64_t channel = map % step.channels;
    const int64_t first = std::max<int64_t>(0, channel - (step.size - 1) / 2);
    const int64_t last = std::min(step.channels - 1, channel + step.size / 2);
    std::array<float, kSquares> squares{};
    for (int64_t c = first; c <= last; ++c) {
      const float* from = input + (map - channel + c) * step.inner + begin;
      for (int64_t i = 0; i < count; ++i) squares[i] += from[i] * from[i];
    }
    const int64_t offset = map * step.inner + begin;
    loops.localResponse(input + offset, squares.data(), output + offset, count, alpha, beta, k);
  };
  forEachRange(context, step.n * step.channels, step.inner * (std::min(step.size, step.channels) + 4), [&](int64_t begin, int64_t end) {
    for (int64_t map = begin; map < end; ++map) {
      for (int64_t at = 0; at < step.inner; at += kSquares) computeBlock(map, at, std::min(kSquares, step.inner - at));
    }
  });
}

}  // namespace warpconv::operators
