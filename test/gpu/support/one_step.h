#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "cpu/cpu_backend.h"
#include "gpu/gpu.h"
#include "support/elementwise_functions.h"
#include "support/reference.h"
#include "support/runs.h"

/** Programs of one step, on the GPU and on its twin. */
namespace warpconv::test {

using namespace program;

inline size_t size(int64_t count) { return static_cast<size_t>(count); }

/** Cases of each kind: many, or few under a sanitizer, by WARPCONV_GPU_FUZZ. */
inline int rounds(int many) {
  const char* given = std::getenv("WARPCONV_GPU_FUZZ");
  return given != nullptr ? std::min(many, std::atoi(given)) : many;
}

class Random {
 public:
  Random() : engine_(fuzzSeed()) {}

  int64_t from(int64_t least, int64_t most) { return least + static_cast<int64_t>(engine_() % size(most - least + 1)); }
  int64_t pick(std::initializer_list<int64_t> choices) { return choices.begin()[engine_() % choices.size()]; }
  bool maybe() { return engine_() % 2 == 0; }
  uint64_t bits() { return uint64_t{engine_()} << 32 | engine_(); }
  std::vector<float> integers(int64_t count) {
    std::vector<float> values(size(count));
    fillWithIntegers(values, engine_);
    return values;
  }
  std::vector<float> reals(int64_t count) {
    std::vector<float> values(size(count));
    fillWithReals(values, engine_);
    return values;
  }
  std::vector<uint8_t> bytes(int64_t count) {
    std::vector<uint8_t> values(size(count));
    for (uint8_t& value : values) value = static_cast<uint8_t>(engine_());
    return values;
  }
  std::vector<float> wholeDomain() { return test::wholeDomain(engine_); }
  std::vector<float> shuffled(std::vector<float> values) {
    std::shuffle(values.begin(), values.end(), engine_);
    return values;
  }
  void putSpecials(std::vector<float>& values) {
    using Limits = std::numeric_limits<float>;
    for (const float special : {Limits::quiet_NaN(), Limits::infinity(), -Limits::infinity()}) {
      values[size(from(0, static_cast<int64_t>(values.size()) - 1))] = special;
    }
  }

 private:
  std::mt19937 engine_;
};

inline Backend& gpu() {
  static const auto opened = openGpu(0);
  if (!opened.isOk()) FAIL(opened.status().message());
  return *opened.value();
}

/** The twin, on one thread. */
inline Backend& cpu() {
  static Executor executor(1);
  static CpuBackend backend(executor, usableCpu().value());
  return backend;
}

/**
 * The program of one step: it fills the scratch memory with a pattern, runs the step, whose output lies in the middle
 * of it, and returns all. Tensors begin on any boundary of their elements, most of them on one of 64 bytes.
 */
class OneStep {
 public:
  explicit OneStep(Random& random) : random_(random) {}

  /** From now on tensors begin where they can be read 16 bytes at a time. */
  void align() { aligned_ = true; }

  /** `boundary` in bytes */
  template <typename T>
  Buffer input(const std::vector<T>& values, int64_t boundary = sizeof(T)) {
    const int64_t offset = anyOffset(boundary);
    auto& bytes = inputs_.emplace_back(size(offset) + values.size() * sizeof(T));
    if (!values.empty()) std::memcpy(bytes.data() + offset, values.data(), values.size() * sizeof(T));
    return {Buffer::Space::input, static_cast<int64_t>(inputs_.size()) - 1, offset};
  }
  /** Absent where there are no values. */
  Buffer optional(const std::vector<float>& values) { return values.empty() ? Buffer{} : input(values); }

  /** What the output holds before the step. */
  template <typename T>
  void fillOutput(const std::vector<T>& values) {
    before_ = input(values);
  }

  template <typename T>
  Buffer output(int64_t count, int64_t boundary = sizeof(T)) {
    outputBytes_ = count * static_cast<int64_t>(sizeof(T));
    outputOffset_ = kGuard + anyOffset(boundary);
    return {Buffer::Space::arena, 0, outputOffset_};
  }

  /** The output; nothing else may have been written. */
  template <typename T>
  std::vector<T> run(Backend& backend, Step step) const {
    std::vector<std::byte> arena;
    const Status status = runInto(arena, backend, std::move(step));
    if (!status.isOk()) FAIL(status.message());
    std::vector<T> output(size(outputBytes_) / sizeof(T));
    if (!output.empty()) std::memcpy(output.data(), arena.data() + outputOffset_, size(outputBytes_));
    for (int64_t i = 0; i < arenaBytes(); ++i) {
      if (i >= outputOffset_ && i < outputOffset_ + outputBytes_) continue;
      INFO("byte " << i - outputOffset_ << " of an output of " << outputBytes_);
      REQUIRE(arena[size(i)] == std::byte{0xA5});
    }
    return output;
  }

  Status runInto(std::vector<std::byte>& arena, Backend& backend, Step step) const {
    const Buffer whole{Buffer::Space::arena, 0, 0};
    ProgramSpec spec;
    FillStep fill;
    fill.count = arenaBytes() / 4, fill.value = double{std::bit_cast<float>(0xA5A5A5A5u)}, fill.output = whole;
    spec.steps.push_back(fill);
    if (before_.isGiven()) {
      spec.steps.push_back(copyOf(1, outputBytes_, before_, {Buffer::Space::arena, 0, outputOffset_}));
    }
    spec.steps.push_back(std::move(step));
    spec.steps.push_back(copyOf(4, arenaBytes() / 4, whole, {Buffer::Space::output, 0, 0}));
    spec.arenaBytes = arenaBytes();
    std::vector<const void*> inputs;
    for (const auto& bytes : inputs_) {
      inputs.push_back(bytes.data());
      spec.inputBytes.push_back(static_cast<int64_t>(bytes.size()));
    }
    spec.outputBytes = {arenaBytes()};
    const auto prepared = backend.prepareProgram(std::move(spec), backend.makeStore().value());
    if (!prepared.isOk()) return prepared.status();
    arena.resize(size(arenaBytes()));
    void* const outputs[] = {arena.data()};
    return prepared.value()->run({inputs, outputs}, nullptr, nullptr);
  }

 private:
  static constexpr int64_t kGuard = 512;

  static CopyStep copyOf(int64_t bytes, int64_t count, const Buffer& from, const Buffer& to) {
    CopyStep copy;
    copy.bytes = bytes, copy.extents = {count};
    copy.inputStrides = copy.outputStrides = {1};
    copy.input = from, copy.output = to;
    return copy;
  }

  int64_t anyOffset(int64_t boundary) { return aligned_ || random_.maybe() ? 0 : random_.from(0, 7) * boundary; }
  int64_t arenaBytes() const { return (outputOffset_ + outputBytes_ + kGuard) / 64 * 64; }

  Random& random_;
  bool aligned_ = false;
  std::vector<std::vector<std::byte>> inputs_;
  int64_t outputBytes_ = 0;
  int64_t outputOffset_ = 0;
  Buffer before_;
};

}  // namespace warpconv::test
