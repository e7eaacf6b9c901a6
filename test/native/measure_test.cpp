#include "planner/measure.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "cpu/cpu_backend.h"
#include "memory/aligned_buffer.h"

using namespace warpconv;

namespace {

/** What happened to a contestant, beyond its own life. */
struct Log {
  std::vector<double> limits;
  int samples = 0;
  bool alive = true;
};

/** Takes the times that it is told, of which the last repeats. No time passes. */
class Actor final : public Measurable {
 public:
  Actor(Log& log, std::vector<double> times, Status preparing)
      : log_(log), times_(std::move(times)), preparing_(preparing) {}
  ~Actor() override { log_.alive = false; }

  Status prepare() override { return preparing_; }
  Result<double> once(double limit, const Cancellation*) override {
    log_.limits.push_back(limit);
    const double time = next();
    if (time > limit) return Status{StatusCode::aborted, "too slow"};
    return time;
  }
  Result<double> sample(int, const Cancellation*) override {
    ++log_.samples;
    return next();
  }

 private:
  double next() {
    const double time = times_.front();
    if (times_.size() > 1) times_.erase(times_.begin());
    return time;
  }

  Log& log_;
  std::vector<double> times_;
  const Status preparing_;
};

/** Entrants by name, and what became of them. */
class Stage {
 public:
  void add(const std::string& name, double predicted, std::vector<double> times, Status preparing = {}) {
    Log& log = logs[name];
    entrants_.push_back({name, "", predicted, std::make_unique<Actor>(log, std::move(times), std::move(preparing))});
  }
  Result<std::vector<Measurement>> run(const Cancellation* cancellation = nullptr) {
    return compete(std::move(entrants_), cancellation);
  }
  std::map<std::string, Log> logs;

 private:
  std::vector<Entrant> entrants_;
};

std::vector<std::string> namesOf(const std::vector<Measurement>& measurements) {
  std::vector<std::string> names;
  for (const Measurement& one : measurements) names.push_back(one.algorithm);
  return names;
}

PlanProblem plainProblem() {
  ConvRequest request;
  request.inputDims = {1, 16, 20, 20};
  request.weightDims = {16, 16, 3, 3};
  // At a stride of 3 sconv takes a workspace.
  request.stride = {3, 3};
  return {makeConvProblem(request).value(), {}, {}};
}

}  // namespace

TEST_CASE("samples are taken in turns, and their medians told") {
  std::string order;
  std::vector<double> first{5, 1, 100};
  std::vector<double> second{2, 2, 8};
  const auto taking = [&](char name, std::vector<double>& times) {
    return [&order, &times, name]() -> Result<double> {
      order += name;
      const double time = times.back();
      times.pop_back();
      return time;
    };
  };
  const auto medians = mediansInTurns({taking('a', first), taking('b', second)}, 3);
  REQUIRE(medians.isOk());
  CHECK(order == "ababab");
  CHECK(medians.value() == std::vector<double>{5, 2});
}

TEST_CASE("the fastest comes first, whatever was predicted") {
  Stage stage;
  stage.add("predicted", 1, {3});
  stage.add("best", 2, {1.5});
  stage.add("middle", 3, {2});
  const auto measured = stage.run();
  REQUIRE(measured.isOk());
  CHECK(namesOf(measured.value()) == std::vector<std::string>{"best", "middle", "predicted"});
  CHECK(measured.value().front().milliseconds == 1.5);
  CHECK(stage.logs["best"].samples == 11);
}

TEST_CASE("those about as fast as the fastest are timed again, and those far from it are not") {
  Stage stage;
  stage.add("steady", 1, {3});
  stage.add("close", 1, {3.3});
  stage.add("far", 1, {4.5});
  const auto measured = stage.run();
  REQUIRE(measured.isOk());
  CHECK(namesOf(measured.value()) == std::vector<std::string>{"steady", "close", "far"});
  CHECK(stage.logs["far"].samples > 0);
  CHECK(stage.logs["steady"].samples > 2 * stage.logs["far"].samples);
  CHECK(stage.logs["close"].samples == stage.logs["steady"].samples);
}

TEST_CASE("close ones are not timed again where that would be less often than before") {
  Stage stage;
  stage.add("steady", 1, {140});
  stage.add("close", 1, {141});
  REQUIRE(stage.run().isOk());
  // Of 1,500 ms, a round of 281
  CHECK(stage.logs["steady"].samples <= 5);
  CHECK(stage.logs["close"].samples == stage.logs["steady"].samples);
}

TEST_CASE("a cold first call is forgiven, a slow algorithm given up and let go") {
  Stage stage;
  stage.add("cold", 1, {1000, 2});
  stage.add("slow", 2, {9});
  stage.add("fast", 3, {1});
  stage.add("slower than what came before it", 4, {4.5});
  const auto measured = stage.run();
  REQUIRE(measured.isOk());
  CHECK(namesOf(measured.value()) == std::vector<std::string>{"fast", "cold"});
  CHECK(stage.logs["cold"].limits.front() == std::numeric_limits<double>::infinity());
  CHECK(stage.logs["slow"].limits.front() == 8);
  CHECK(stage.logs["slow"].samples == 0);
  CHECK(stage.logs["slower than what came before it"].limits.front() == 4);
}

TEST_CASE("what takes all of the time is seen once, and others as long as it") {
  Stage stage;
  stage.add("first", 1, {10'000});
  stage.add("second", 2, {9'000});
  stage.add("third", 3, {9'500});
  const auto measured = stage.run();
  REQUIRE(measured.isOk());
  CHECK(namesOf(measured.value()) == std::vector<std::string>{"second", "first"});
  CHECK(stage.logs["second"].limits.front() == 10'000);
  CHECK(stage.logs["third"].limits.front() == 9'000);
  CHECK(stage.logs["first"].samples == 0);
}

TEST_CASE("what is predicted to take many times as long is not tried") {
  Stage stage;
  stage.add("predicted", 1, {5});
  stage.add("near", 10, {4});
  stage.add("far", 10.5, {3});
  CHECK(namesOf(stage.run().value()) == std::vector<std::string>{"near", "predicted"});
  CHECK(stage.logs["far"].limits.empty());
}

TEST_CASE("what is predicted to take many times as long is tried where the faster ones fail") {
  const Status noMemory{StatusCode::outOfMemory, "no room"};
  Stage stage;
  stage.add("large", 1, {1}, noMemory);
  stage.add("small", 20, {20});
  stage.add("near", 150, {30});
  stage.add("far", 210, {1});
  CHECK(namesOf(stage.run().value()) == std::vector<std::string>{"small", "near"});
  CHECK(stage.logs["far"].limits.empty());
}

TEST_CASE("where the caller sets no limit, a gibibyte of scratch memory is tried, and no activation") {
  PlanProblem asked = plainProblem();
  asked.activation.kind = ActivationKind::relu;
  const PlanProblem measured = measurable(asked);
  CHECK(measured.request.workspaceLimit == int64_t{1} << 30);
  CHECK(measured.activation.kind == ActivationKind::none);
  asked.request.workspaceLimit = int64_t{1} << 40;
  CHECK(measurable(asked).request.workspaceLimit == int64_t{1} << 40);
}

TEST_CASE("who fails is left out, and all failing tells the first one's failure") {
  const Status noMemory{StatusCode::outOfMemory, "no room"};
  Stage stage;
  stage.add("large", 1, {1}, noMemory);
  stage.add("small", 2, {2});
  CHECK(namesOf(stage.run().value()) == std::vector<std::string>{"small"});
  Stage unlucky;
  unlucky.add("large", 1, {1}, noMemory);
  unlucky.add("broken", 2, {1}, Status{StatusCode::cuda, "lost"});
  const auto failed = unlucky.run();
  REQUIRE_FALSE(failed.isOk());
  CHECK(failed.status().code() == StatusCode::outOfMemory);
  CHECK(compete({}, nullptr).status().code() == StatusCode::internal);
}

TEST_CASE("a cancelled contest ends between contestants") {
  Stage stage;
  stage.add("first", 1, {1});
  stage.add("second", 2, {1});
  Cancellation cancellation;
  cancellation.request();
  CHECK(stage.run(&cancellation).status().code() == StatusCode::aborted);
  CHECK(stage.logs["second"].limits.empty());
}

TEST_CASE("a cancellation with a deadline") {
  const auto now = Cancellation::Clock::now();
  const auto never = now + std::chrono::hours(1);
  Cancellation parent;
  CHECK(Cancellation(nullptr, now).isRequested());
  const Cancellation limited(&parent, never);
  CHECK_FALSE(limited.isRequested());
  parent.request();
  CHECK(limited.isRequested());
  CHECK_FALSE(Cancellation(nullptr, never).isRequested());
}

TEST_CASE("the CPU measures what accepts, and keeps nothing") {
  Executor executor(2);
  CpuBackend backend(executor, usableCpu().value());
  const int64_t before = AlignedBuffer::bytesInUse();
  PlanProblem asked = plainProblem();
  const auto measured = backend.measure(asked, nullptr);
  REQUIRE(measured.isOk());
  REQUIRE_FALSE(measured.value().empty());
  const std::vector<Candidate> candidates = backend.candidates(asked);
  for (const Measurement& one : measured.value()) {
    CHECK(one.milliseconds > 0);
    CHECK(one.milliseconds >= measured.value().front().milliseconds);
    CHECK(std::any_of(candidates.begin(), candidates.end(), [&](const Candidate& candidate) {
      return candidate.algorithm == one.algorithm && candidate.accepts();
    }));
  }
  asked.request.workspaceLimit = 0;
  CHECK(namesOf(backend.measure(asked, nullptr).value()) == std::vector<std::string>{"direct"});
  Cancellation cancellation;
  cancellation.request();
  CHECK(backend.measure(asked, &cancellation).status().code() == StatusCode::aborted);
  CHECK(AlignedBuffer::bytesInUse() == before);
}

TEST_CASE("noise fills everything, with both signs and nothing too small") {
  for (const size_t count : {size_t{1}, size_t{65'521}, size_t{200'000}}) {
    std::vector<float> values(count, 5.0f);
    fillWithNoise(values.data(), static_cast<int64_t>(count));
    CHECK(std::all_of(values.begin(), values.end(), [](float value) { return value >= -1 && value < 1; }));
    if (count > 1) CHECK(std::any_of(values.begin(), values.end(), [](float value) { return value > 0.5f; }));
    if (count > 1) CHECK(std::any_of(values.begin(), values.end(), [](float value) { return value < -0.5f; }));
  }
}
