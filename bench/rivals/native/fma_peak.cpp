#include <chrono>

#include "rival.h"

namespace rivals {
namespace {

#if defined(__AVX512F__)
constexpr int kLanes = 16;
#elif defined(__AVX__)
constexpr int kLanes = 8;
#else
constexpr int kLanes = 4;
#endif

typedef float Vector __attribute__((vector_size(kLanes * sizeof(float))));
/** Independent chains: more than the latency times the units of any current core. */
constexpr int kChains = 12;

double measureOnce() {
  constexpr int64_t kSteps = 4'000'000;
  Vector sums[kChains];
  for (int i = 0; i < kChains; ++i) sums[i] = Vector{} + static_cast<float>(i);
  Vector factor = Vector{} + 0.999f, addend = Vector{} + 0.001f;
  // Opaque to the compiler, so that nothing is computed beforehand.
  asm volatile("" : "+x"(factor), "+x"(addend));
  const auto begin = std::chrono::steady_clock::now();
  for (int64_t step = 0; step < kSteps; ++step) {
    for (int i = 0; i < kChains; ++i) sums[i] = sums[i] * factor + addend;
  }
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
  for (int i = 0; i < kChains; ++i) asm volatile("" : : "x"(sums[i]));
  return 2.0 * kLanes * kChains * kSteps / seconds.count() / 1e9;
}

}  // namespace

double fmaPeak() {
  double best = 0;
  for (int i = 0; i < 5; ++i) {
    const double rate = measureOnce();
    best = rate > best ? rate : best;
  }
  return best;
}

}  // namespace rivals
