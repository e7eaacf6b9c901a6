#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <vector>

#include "cpu/cpu_backend.h"
#include "executor/executor.h"
#include "program/program_spec.h"
#include "support/failing_allocations.h"

using namespace warpconv;

namespace {

/** How a call ended, and how often. Takes no memory. */
class Ending {
 public:
  Executor::Done done() {
    return [this](Status status) {
      code_ = status.code();
      times_.fetch_add(1);
      times_.notify_all();
    };
  }
  StatusCode await() {
    times_.wait(0);
    return code_;
  }
  int times() const { return times_.load(); }

 private:
  StatusCode code_ = StatusCode::internal;
  std::atomic<int> times_{0};
};

/** Of a call that runs `work`, and has ended. */
template <typename Work>
StatusCode codeOf(Executor& executor, const Work& work) {
  Ending ending;
  executor.submit([&work](const Cancellation&) { return work(); }, ending.done());
  const StatusCode code = ending.await();
  const FailingAllocation::Spared spared;
  CHECK(ending.times() == 1);
  return code;
}

bool isTold(StatusCode code) { return code == StatusCode::ok || code == StatusCode::outOfMemory; }

/** Calls `attempt` with the first allocation failing, with the second, and so on until it makes fewer. */
template <typename Attempt>
void failEach(const Attempt& attempt) {
  int64_t points = 0;
  for (bool happened = true; happened; ++points) {
    CAPTURE(points);
    const FailingAllocation failing(points + 1);
    attempt();
    happened = failing.happened();
  }
  REQUIRE(points > 1);
}

/** Convolutions with filters that are packed once and filters that every run brings. */
class Network {
 public:
  explicit Network(Executor& executor) : executor_(executor) {
    ConvRequest request;
    request.inputDims = {1, kChannels, kExtent, kExtent};
    request.weightDims = {kChannels, kChannels, 3, 3};
    request.padding = {1, 1, 1, 1};
    auto made = makeConvProblem(request);
    REQUIRE(made.isOk());
    problem_ = made.value();
    x_.resize(static_cast<size_t>(problem_.inputSize()));
    weight_.resize(static_cast<size_t>(problem_.weightSize()));
    for (size_t i = 0; i < x_.size(); ++i) x_[i] = static_cast<float>(i % 7) - 3;
    for (size_t i = 0; i < weight_.size(); ++i) weight_[i] = static_cast<float>(i % 5) - 2;
  }

  Status prepare() {
    using program::Buffer;
    program::ProgramSpec spec;
    const Buffer between{Buffer::Space::arena};
    const Buffer packed{Buffer::Space::constant};
    const Buffer brought{Buffer::Space::input, 1};
    spec.steps.push_back(program::ConvolutionStep{problem_, {}, {}, {Buffer::Space::input}, packed, {}, {}, {}, between});
    spec.steps.push_back(program::ConvolutionStep{problem_, {}, {}, between, brought, {}, {}, {}, {Buffer::Space::output}});
    const auto mapBytes = static_cast<int64_t>(x_.size() * sizeof(float));
    const auto weightBytes = static_cast<int64_t>(weight_.size() * sizeof(float));
    spec.constants = {weight_.data()};
    spec.constantBytes = {weightBytes};
    spec.inputBytes = {mapBytes, weightBytes};
    spec.outputBytes = {mapBytes};
    spec.arenaBytes = mapBytes;
    CpuBackend backend(executor_, cpuInfo());
    auto prepared = backend.prepareProgram(std::move(spec), backend.makeStore().value());
    if (!prepared.isOk()) return prepared.status();
    prepared_ = std::move(prepared.value());
    return {};
  }

  Status run(std::vector<float>& y, std::vector<double>* milliseconds) const {
    const std::vector<const void*> inputs{x_.data(), weight_.data()};
    const std::vector<void*> outputs{y.data()};
    return prepared_->run({inputs, outputs}, nullptr, milliseconds);
  }

  size_t outputs() const { return x_.size(); }

 private:
  static constexpr int64_t kChannels = 32;
  static constexpr int64_t kExtent = 12;

  Executor& executor_;
  ConvProblem problem_;
  std::vector<float> x_, weight_;
  std::shared_ptr<const program::PreparedProgram> prepared_;
};

}  // namespace

TEST_CASE("whatever allocation fails, a call ends once, with a status, and the executor goes on") {
  for (const unsigned threads : {1u, 3u}) {
    CAPTURE(threads);
    failEach([threads] {
      Executor executor(threads);
      std::vector<std::atomic<int>> ran;
      {
        const FailingAllocation::Spared spared;
        ran = std::vector<std::atomic<int>>(20);
      }
      const auto work = [&] {
        executor.parallelFor(20, [&](int64_t task) {
          ran[static_cast<size_t>(task)].fetch_add(1);
          const std::vector<int> some(static_cast<size_t>(task + 1));
          executor.parallelFor(2, [](int64_t) {});
        });
        return Status{};
      };
      const StatusCode code = codeOf(executor, work);
      const FailingAllocation::Spared spared;
      CHECK(isTold(code));
      const auto isOnce = [](const std::atomic<int>& times) { return times.load() == 1; };
      const bool began = std::any_of(ran.begin(), ran.end(), [](const auto& times) { return times.load() > 0; });
      CHECK((!began || std::all_of(ran.begin(), ran.end(), isOnce)));
      CHECK(codeOf(executor, [] { return Status{}; }) == StatusCode::ok);
    });
  }
}

TEST_CASE("a loop of a caller from outside runs every task, whatever allocation fails") {
  failEach([] {
    Executor executor(3);
    std::atomic<int> ran{0};
    executor.parallelFor(50, [&ran](int64_t) { ran.fetch_add(1); });
    const FailingAllocation::Spared spared;
    CHECK(ran.load() == 50);
    CHECK(codeOf(executor, [] { return Status{}; }) == StatusCode::ok);
  });
}

TEST_CASE("calls take turns or wait, are cancelled and abandoned, whatever allocation fails") {
  failEach([] {
    Ending endings[4];
    {
      Executor executor(1);
      const auto work = [&executor](const Cancellation& cancellation) {
        const auto end = Executor::Clock::now() + std::chrono::milliseconds(8);
        while (Executor::Clock::now() < end && !cancellation.isRequested()) executor.yield();
        return Status{};
      };
      std::shared_ptr<Executor::Call> calls[4];
      for (int i = 0; i < 4; ++i) calls[i] = executor.submit(work, endings[i].done());
      endings[0].await();
      executor.cancel(calls[2]);
      executor.cancel(calls[1]);
    }
    const FailingAllocation::Spared spared;
    for (const Ending& ending : endings) CHECK(ending.times() == 1);
  });
}

TEST_CASE("preparing and running a program ends with a status, whatever allocation fails, and then works") {
  Executor executor(2);
  Network network(executor);
  REQUIRE(network.prepare().isOk());
  std::vector<float> expected(network.outputs());
  REQUIRE(network.run(expected, nullptr).isOk());

  SUBCASE("preparing") {
    failEach([&] {
      const StatusCode code = codeOf(executor, [&network] { return network.prepare(); });
      const FailingAllocation::Spared spared;
      CHECK(isTold(code));
    });
  }
  SUBCASE("running on the executor, with times") {
    failEach([&] {
      std::vector<float> y;
      std::vector<double> milliseconds;
      {
        const FailingAllocation::Spared spared;
        y.resize(network.outputs());
      }
      const StatusCode code = codeOf(executor, [&] { return network.run(y, &milliseconds); });
      const FailingAllocation::Spared spared;
      CHECK(isTold(code));
      CHECK((code != StatusCode::ok || (y == expected && milliseconds.size() == 2)));
    });
  }
  SUBCASE("running on the caller's thread") {
    failEach([&] {
      std::vector<float> y;
      {
        const FailingAllocation::Spared spared;
        y.resize(network.outputs());
      }
      const Status status = callToStatus([&] { return network.run(y, nullptr); });
      const FailingAllocation::Spared spared;
      CHECK(isTold(status.code()));
      CHECK((!status.isOk() || y == expected));
    });
  }
  std::vector<float> y(network.outputs());
  REQUIRE(network.run(y, nullptr).isOk());
  CHECK(y == expected);
}
