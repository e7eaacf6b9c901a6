#include "cpu/cpu_store.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <vector>

#include "cpu/cpu_backend.h"
#include "executor/executor.h"

using namespace warpconv;

TEST_CASE("arenas are as many as runs have overlapped, and grow to the largest run") {
  Arenas arenas;
  AlignedBuffer small = arenas.take(100);
  AlignedBuffer other = arenas.take(100);
  CHECK(arenas.bytes() == 800);
  arenas.giveBack(std::move(small));
  arenas.giveBack(std::move(other));
  AlignedBuffer large = arenas.take(1000);
  CHECK(large.elements() == 1000);
  CHECK(arenas.bytes() == 4400);
  arenas.giveBack(std::move(large));
  AlignedBuffer again = arenas.take(10);
  CHECK(again.elements() == 1000);
  arenas.trim();
  CHECK(arenas.bytes() == 4000);
  arenas.giveBack(std::move(again));
  arenas.trim();
  CHECK(arenas.bytes() == 0);
  CHECK(arenas.take(0).elements() == 0);
}

namespace {

using program::Buffer;

constexpr int64_t kChannels = 16;

/** Two convolutions of the same filters, the second one scaled by `scale`, over n images of 16 channels of 10 x 10. */
program::ProgramSpec specFor(int64_t n, const std::vector<float>& weight, const std::vector<float>& scale, bool isShared) {
  ConvRequest request;
  request.inputDims = {n, kChannels, 10, 10};
  request.weightDims = {kChannels, kChannels, 3, 3};
  request.padding = {1, 1, 1, 1};
  const ConvProblem problem = makeConvProblem(request).value();
  const Buffer input{Buffer::Space::input}, between{Buffer::Space::arena}, output{Buffer::Space::output};
  const Buffer filters{Buffer::Space::constant, 0}, factors{Buffer::Space::constant, 1};
  program::ProgramSpec spec;
  spec.steps.push_back(program::ConvolutionStep{problem, {}, {}, input, filters, {}, {}, {}, between});
  spec.steps.push_back(program::ConvolutionStep{problem, {}, {}, between, filters, factors, {}, {}, output});
  spec.constants = {weight.data(), scale.data()};
  spec.sharedConstants = {isShared, false};
  const auto bytesOf = [](const std::vector<float>& values) { return static_cast<int64_t>(values.size() * sizeof(float)); };
  spec.constantBytes = {bytesOf(weight), bytesOf(scale)};
  const int64_t mapBytes = problem.inputSize() * 4;
  spec.inputBytes = spec.outputBytes = {mapBytes};
  spec.arenaBytes = mapBytes;
  return spec;
}

std::vector<float> integers(size_t count) {
  std::vector<float> values(count);
  for (size_t i = 0; i < count; ++i) values[i] = static_cast<float>(static_cast<int64_t>(i * 7 % 5) - 2);
  return values;
}

/** The input in pieces of so many elements, each in memory that ends with it. */
std::vector<float> runInPieces(const program::PreparedProgram& prepared, int64_t n, size_t pieceSize) {
  const std::vector<float> x = integers(static_cast<size_t>(n * kChannels * 100));
  std::vector<std::vector<float>> pieces;
  for (size_t first = 0; first < x.size(); first += pieceSize) {
    const auto begin = x.begin() + static_cast<ptrdiff_t>(first);
    pieces.emplace_back(begin, begin + static_cast<ptrdiff_t>(std::min(pieceSize, x.size() - first)));
  }
  std::vector<std::vector<HostBytes>> parts(1);
  for (const auto& piece : pieces) parts[0].push_back({piece.data(), static_cast<int64_t>(piece.size() * sizeof(float))});
  std::vector<float> y(x.size());
  const std::vector<const void*> inputs{nullptr};
  const std::vector<void*> outputs{y.data()};
  REQUIRE(prepared.run({inputs, outputs, {}, parts}, nullptr, nullptr).isOk());
  return y;
}

std::vector<float> run(const program::PreparedProgram& prepared, int64_t n) {
  const std::vector<float> x = integers(static_cast<size_t>(n * kChannels * 100));
  std::vector<float> y(x.size());
  const std::vector<const void*> inputs{x.data()};
  const std::vector<void*> outputs{y.data()};
  REQUIRE(prepared.run({inputs, outputs}, nullptr, nullptr).isOk());
  return y;
}

}  // namespace

TEST_CASE("an input in pieces is the same as in one") {
  Executor executor(2);
  CpuBackend backend(executor, cpuInfo());
  const std::vector<float> weight = integers(kChannels * kChannels * 9), scale(kChannels, 0.5F);
  const auto prepared = backend.prepareProgram(specFor(3, weight, scale, true), backend.makeStore().value());
  REQUIRE(prepared.isOk());
  const std::vector<float> expected = run(*prepared.value(), 3);
  for (const size_t size : {size_t{1601}, size_t{1600}, size_t{7}, size_t{4800}}) {
    CHECK(runInPieces(*prepared.value(), 3, size) == expected);
  }
}

TEST_CASE("programs of one store share packed weights and scratch memory, and compute as alone") {
  Executor executor(2);
  CpuBackend backend(executor, cpuInfo());
  const std::vector<float> weight = integers(kChannels * kChannels * 9);
  std::vector<float> scale(kChannels);
  for (size_t k = 0; k < scale.size(); ++k) scale[k] = static_cast<float>(k % 3) - 1;

  const auto store = backend.makeStore().value();
  std::vector<std::shared_ptr<const program::PreparedProgram>> programs;
  int64_t packed = 0;
  for (const int64_t n : {1, 3, 2}) {
    programs.push_back(backend.prepareProgram(specFor(n, weight, scale, true), store).value());
    if (packed == 0) packed = store->bytes();
    CHECK(store->bytes() - store->scratchBytes() == packed);
    const auto alone = backend.prepareProgram(specFor(n, weight, scale, false), backend.makeStore().value()).value();
    CHECK(run(*programs.back(), n) == run(*alone, n));
    CHECK(alone->bytes() >= packed);
    CHECK(programs.back()->bytes() < packed);
  }
  CHECK(store->scratchBytes() == 3 * kChannels * 100 * 4);
  store->trim();
  CHECK(store->scratchBytes() == 0);
  CHECK(store->bytes() == packed);
  const std::vector<float> before = run(*programs[1], 3);
  programs.erase(programs.begin());
  store->trim();
  CHECK(run(*programs[0], 3) == before);
  programs.clear();
  store->trim();
  CHECK(store->bytes() == 0);
}
