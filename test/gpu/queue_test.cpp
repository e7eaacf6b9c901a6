#include "cuda/host/queue.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <condition_variable>
#include <limits>
#include <mutex>
#include <numeric>
#include <thread>

#include "cuda/host/pinned.h"
#include "cuda/host/resident.h"
#include "support/reference.h"
#include "support/runs.h"

using namespace warpconv;

namespace {

std::shared_ptr<cuda::Queue> openQueue() {
  auto queue = cuda::Queue::create(test::device());
  if (!queue.isOk()) FAIL(queue.status().message());
  return queue.value();
}

/** A convolution on the CPU side: tensors, and what the definition gives. */
struct HostCase {
  ConvRequest request;
  ConvProblem problem;
  test::Tensors tensors;
  test::Reference reference;
};

HostCase hostCase(std::mt19937& random) {
  const ConvRequest request = test::randomRequest(random, 4e4);
  const ConvProblem problem = makeConvProblem(request).value();
  const auto floats = [](int64_t count) { return std::vector<float>(static_cast<size_t>(count)); };
  test::Tensors tensors{floats(problem.inputSize()), floats(problem.weightSize()), floats(problem.k),
                        floats(problem.outputSize())};
  for (auto* values : {&tensors.input, &tensors.weight, &tensors.bias, &tensors.residual}) {
    test::fillWithIntegers(*values, random);
  }
  const test::Reference reference =
      test::convolveInDouble(request, problem.outputDims(), problem.padding.top, problem.padding.left, tensors);
  return {request, problem, std::move(tensors), reference};
}

std::shared_ptr<const cuda::ResidentConvolution> prepared(const std::shared_ptr<cuda::Queue>& queue,
                                                          const HostCase& one) {
  auto made = cuda::ResidentConvolution::prepare(queue, cuda::gpuAlgorithms().back(), test::requestFor(one.problem, ""),
                                                 one.tensors.weight.data(), one.tensors.bias.data());
  if (!made.isOk()) FAIL(made.status().message());
  return made.value();
}

void requireEqual(const std::vector<float>& output, const test::Reference& reference) {
  for (size_t i = 0; i < output.size(); ++i) REQUIRE(double{output[i]} == reference.output[i]);
}

}  // namespace

TEST_CASE("what is uploaded comes back, below, at and above the size of a staging buffer") {
  const auto queue = openQueue();
  for (const int64_t bytes : {1, 4, 1 << 20, (1 << 20) + 1, (1 << 21) - 3, 1 << 21, 7'654'321}) {
    std::vector<char> sent(static_cast<size_t>(bytes));
    std::iota(sent.begin(), sent.end(), static_cast<char>(bytes));
    const auto memory = test::device().allocate(bytes);
    REQUIRE(memory.isOk());
    REQUIRE(queue->upload(sent.data(), memory.value()).isOk());
    std::vector<char> received(sent.size());
    REQUIRE(queue->download(memory.value(), received.data()).isOk());
    INFO(bytes << " bytes");
    REQUIRE(sent == received);
  }
}

TEST_CASE("what is copied between pinned memory and the device comes back, whole or in part") {
  const auto queue = openQueue();
  constexpr int64_t kBytes = (int64_t{3} << 20) + 5;
  const int64_t before = pinnedBytesInUse();
  {
    const auto sent = cuda::Pinned::allocate(test::device(), kBytes).value();
    const auto received = cuda::Pinned::allocate(test::device(), kBytes).value();
    CHECK(pinnedBytesInUse() == before + 2 * kBytes);
    char* const from = static_cast<char*>(sent->data());
    char* const to = static_cast<char*>(received->data());
    REQUIRE(std::all_of(from, from + kBytes, [](char value) { return value == 0; }));
    std::iota(from, from + kBytes, char{1});
    for (const int64_t offset : {int64_t{0}, int64_t{64}}) {
      const int64_t bytes = kBytes - offset;
      std::fill(to, to + kBytes, char{0});
      REQUIRE(cuda::isPinned(from + offset, bytes));
      const auto memory = test::device().allocate(bytes);
      REQUIRE(memory.isOk());
      REQUIRE(queue->upload(from + offset, memory.value()).isOk());
      REQUIRE(queue->download(memory.value(), to).isOk());
      CHECK(std::equal(to, to + bytes, from + offset));
    }
    // Beyond its end it is somebody else's.
    CHECK_FALSE(cuda::isPinned(from + 64, kBytes));
    CHECK(pinnedMemoryAt(from + kBytes - 1) == sent);
    CHECK(pinnedMemoryAt(&before) == nullptr);
  }
  CHECK(pinnedBytesInUse() == before);
}

TEST_CASE("pieces that are pinned or not are uploaded one after the other, and memory of others can be pinned") {
  const auto queue = openQueue();
  const int64_t before = pinnedBytesInUse();
  constexpr int64_t kBytes = (int64_t{1} << 21) + 7;
  std::vector<char> lent(static_cast<size_t>(kBytes)), own(static_cast<size_t>(kBytes));
  std::iota(lent.begin(), lent.end(), char{3});
  std::iota(own.begin(), own.end(), char{5});
  {
    const auto pinned = cuda::Pinned::pin(test::device(), lent.data(), kBytes);
    REQUIRE(pinned.isOk());
    CHECK(pinnedBytesInUse() == before + kBytes);
    CHECK(cuda::isPinned(lent.data() + 1, kBytes - 1));
    // Twice is refused, and changes nothing.
    CHECK_FALSE(cuda::Pinned::pin(test::device(), lent.data(), kBytes).isOk());
    CHECK(pinnedBytesInUse() == before + kBytes);
    const std::vector<HostBytes> parts{{lent.data(), 100},       {own.data(), kBytes}, {lent.data() + 100, 1},
                                       {lent.data() + 101, 999}, {own.data(), 0},      {own.data() + 5, 64}};
    std::vector<char> expected;
    for (const auto& [data, bytes] : parts) {
      const char* const first = static_cast<const char*>(data);
      expected.insert(expected.end(), first, first + bytes);
    }
    const auto memory = test::device().allocate(static_cast<int64_t>(expected.size()));
    REQUIRE(memory.isOk());
    REQUIRE(queue->upload(parts, memory.value().data()).isOk());
    std::vector<char> received(expected.size());
    REQUIRE(queue->download(memory.value(), received.data()).isOk());
    CHECK(received == expected);
  }
  CHECK(pinnedBytesInUse() == before);
  CHECK_FALSE(cuda::isPinned(lent.data(), 1));
}

TEST_CASE("a resident convolution takes its operands from anywhere, from several threads at once") {
  const auto queue = openQueue();
  std::mt19937 random(test::fuzzSeed());
  for (int round = 0; round < 20; ++round) {
    HostCase one = hostCase(random);
    INFO(describe(one.problem));
    const auto convolution = prepared(queue, one);
    std::vector<std::thread> threads;
    std::vector<std::vector<float>> outputs(4, std::vector<float>(one.reference.output.size()));
    std::atomic<int> failures{0};
    for (auto& output : outputs) {
      threads.emplace_back([&] {
        const Operands operands{
            {one.tensors.input.data(), nullptr}, {one.tensors.residual.data(), nullptr}, {output.data(), nullptr}};
        if (!convolution->run(operands, nullptr).isOk()) ++failures;
      });
    }
    for (std::thread& thread : threads) thread.join();
    REQUIRE(failures == 0);
    for (const auto& output : outputs) requireEqual(output, one.reference);
  }
}

TEST_CASE("enqueueing resident operands, and being told of the end on another thread") {
  const auto queue = openQueue();
  std::mt19937 random(test::fuzzSeed());
  const HostCase one = hostCase(random);
  const auto convolution = prepared(queue, one);
  const auto resident = [&](const std::vector<float>& values) {
    auto memory = test::device().allocate(static_cast<int64_t>(values.size() * sizeof(float)));
    REQUIRE(queue->upload(values.data(), memory.value()).isOk());
    return Operand{nullptr, std::make_shared<const cuda::ResidentMemory>(std::move(memory.value()), 0)};
  };
  const Operands operands{resident(one.tensors.input), resident(one.tensors.residual),
                          resident(std::vector<float>(one.reference.output.size()))};
  REQUIRE(operands.areResident());
  std::mutex mutex;
  std::condition_variable told;
  bool ended = false;
  Status ending;
  const Status asked = convolution->enqueue(operands, [&](Status status) {
    const std::lock_guard lock(mutex);
    ending = std::move(status);
    ended = true;
    told.notify_one();
  });
  REQUIRE(asked.isOk());
  std::unique_lock lock(mutex);
  told.wait(lock, [&] { return ended; });
  REQUIRE(ending.isOk());
  std::vector<float> output(one.reference.output.size());
  REQUIRE(queue->download(static_cast<const cuda::ResidentMemory&>(*operands.output.resident).memory(), output.data())
              .isOk());
  requireEqual(output, one.reference);
}

TEST_CASE("weights that are not finite do not leak out of the padding") {
  const auto queue = openQueue();
  ConvRequest request;
  request.inputDims = {1, 2, 9, 40};
  request.weightDims = {3, 2, 3, 3};
  request.padding = {1, 1, 1, 1};
  HostCase one{request, makeConvProblem(request).value(), {}, {}};
  one.tensors = {std::vector<float>(720, 1.0f), std::vector<float>(54, 1.0f), std::vector<float>(3), {}};
  one.tensors.weight[0] = std::numeric_limits<float>::infinity();
  one.reference = test::convolveInDouble(request, one.problem.outputDims(), 1, 1, one.tensors);
  for (const cuda::GpuAlgorithm& algorithm : cuda::gpuAlgorithms()) {
    if (algorithm.refusal(test::requestFor(one.problem, ""))) continue;
    const auto made = cuda::ResidentConvolution::prepare(queue, algorithm, test::requestFor(one.problem, ""),
                                                         one.tensors.weight.data(), one.tensors.bias.data());
    REQUIRE(made.isOk());
    std::vector<float> output(one.reference.output.size());
    REQUIRE(made.value()->run({{one.tensors.input.data(), nullptr}, {}, {output.data(), nullptr}}, nullptr).isOk());
    INFO(std::string(algorithm.name));
    requireEqual(output, one.reference);
  }
}

TEST_CASE("a call that was cancelled before its kernels says so") {
  const auto queue = openQueue();
  std::mt19937 random(test::fuzzSeed());
  HostCase one = hostCase(random);
  const auto convolution = prepared(queue, one);
  Cancellation cancellation;
  cancellation.request();
  std::vector<float> output(one.reference.output.size());
  const Operands operands{
      {one.tensors.input.data(), nullptr}, {one.tensors.residual.data(), nullptr}, {output.data(), nullptr}};
  CHECK(convolution->run(operands, &cancellation).code() == StatusCode::aborted);
  REQUIRE(convolution->run(operands, nullptr).isOk());
  requireEqual(output, one.reference);
}

TEST_CASE("memory that the device does not have is refused, and the next call works") {
  const int64_t before = cuda::Device::bytesInUse(0);
  const auto refused = test::device().allocate(int64_t{1} << 45);
  REQUIRE_FALSE(refused.isOk());
  CHECK(refused.status().code() == StatusCode::outOfMemory);
  CHECK(refused.status().cudaError() == "cudaErrorMemoryAllocation");
  {
    const auto small = test::device().allocate(1000);
    REQUIRE(small.isOk());
    CHECK(cuda::Device::bytesInUse(0) == before + 1000);
  }
  CHECK(cuda::Device::bytesInUse(0) == before);
}

TEST_CASE("a device that does not exist is refused") {
  CHECK(cuda::Device::open(-1).status().code() == StatusCode::invalidArgument);
  CHECK(cuda::Device::open(63).status().code() == StatusCode::cuda);
}
