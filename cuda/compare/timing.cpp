#include "cuda/compare/timing.h"

#include <algorithm>
#include <utility>

#include "cuda/host/cuda_status.h"
#include "cuda/host/timed_calls.h"

namespace warpconv::cuda {
namespace {

/** Calls of a sample: what takes about a millisecond, in which the beginning of a graph is lost. */
constexpr double kSampleMilliseconds = 1;
constexpr int kMostCalls = 20;

/** What a contestant's samples may take together; a slow one has few of them. */
constexpr double kContestantMilliseconds = 60;
constexpr int kFewestRounds = 3;

/** A longer call has read many times the L2 cache, and does not care what was in it. */
constexpr double kLongestColdMilliseconds = 1;
constexpr int64_t kFlushedCaches = 4;

/** Overwrites what the L2 cache holds. */
class Flush {
 public:
  Flush(Device& device, cudaStream_t stream) : stream_(stream) {
    Result<DeviceMemory> memory = device.allocate(kFlushedCaches * device.traits().l2Bytes);
    if (memory.isOk()) memory_ = std::move(memory.value());
  }
  bool isPossible() const { return memory_.data() != nullptr; }
  Status operator()() const {
    return toStatus(cudaMemsetAsync(memory_.data(), 0, static_cast<size_t>(memory_.bytes()), stream_),
                    "clearing the cache");
  }

 private:
  DeviceMemory memory_;
  cudaStream_t stream_;
};

/** One contestant while it is timed. */
struct TimedEntrant {
  TimedCalls warm;
  std::optional<TimedCalls> cold;
  int rounds = 0;
  int coldRounds = 0;
  Status status;
  std::vector<double> warmSamples;
  std::vector<double> coldSamples;

  void keep(Result<double> sample, std::vector<double>& samples) {
    if (sample.isOk()) {
      samples.push_back(sample.value());
    } else {
      status = sample.status();
    }
  }

  Result<Timing> timing() const {
    if (!status.isOk()) return status;
    Timing result{spreadOf(warmSamples), std::nullopt, warm.count(), warm.isGraph()};
    if (!coldSamples.empty()) result.cold = spreadOf(coldSamples);
    return result;
  }
};

int roundsWithin(double sampleMilliseconds, int most) {
  return std::clamp(static_cast<int>(kContestantMilliseconds / sampleMilliseconds), std::min(kFewestRounds, most),
                    most);
}

TimedEntrant entrantFor(const Enqueue& enqueue, const Pace& pace, bool canFlush, Stopwatch& stopwatch,
                        cudaStream_t stream) {
  const Result<double> once = stopwatch.time(enqueue, stream);
  const double milliseconds = once.isOk() ? std::max(once.value(), 1e-3) : 1;
  const int calls = std::clamp(static_cast<int>(kSampleMilliseconds / milliseconds), 1, kMostCalls);
  TimedEntrant entrant{TimedCalls(enqueue, once.isOk() ? calls : 1, stream), std::nullopt, 0, 0, {}, {}, {}};
  if (!once.isOk()) entrant.status = once.status();
  entrant.rounds = roundsWithin(milliseconds * calls, pace.rounds);
  if (!canFlush || milliseconds > kLongestColdMilliseconds) return entrant;
  entrant.coldRounds = pace.coldRounds;
  entrant.cold.emplace(enqueue, 1, stream);
  return entrant;
}

/** One turn of each that is still to be timed. The first round warms up and is not kept. */
void warmRound(std::vector<TimedEntrant>& entrants, int round, Stopwatch& stopwatch) {
  for (size_t turn = 0; turn < entrants.size(); ++turn) {
    TimedEntrant& entrant = entrants[(turn + static_cast<size_t>(round)) % entrants.size()];
    if (!entrant.status.isOk() || round > entrant.rounds) continue;
    std::vector<double> unkept;
    entrant.keep(entrant.warm.timeWarm(stopwatch), round == 0 ? unkept : entrant.warmSamples);
  }
}

void coldRound(std::vector<TimedEntrant>& entrants, int round, const Flush& flush, Stopwatch& stopwatch) {
  for (size_t turn = 0; turn < entrants.size(); ++turn) {
    TimedEntrant& entrant = entrants[(turn + static_cast<size_t>(round)) % entrants.size()];
    if (!entrant.status.isOk() || round >= entrant.coldRounds) continue;
    Status flushed = flush();
    entrant.keep(flushed.isOk() ? entrant.cold->time(stopwatch) : Result<double>(flushed), entrant.coldSamples);
  }
}

}  // namespace

Spread spreadOf(std::vector<double> samples) {
  std::sort(samples.begin(), samples.end());
  const size_t last = samples.size() - 1;
  return {samples[(last + 1) / 2], samples[last / 4], samples[last - last / 4]};
}

std::vector<Result<Timing>> timeInTurns(const std::vector<Enqueue>& contestants, const Pace& pace, Device& device,
                                        cudaStream_t stream) {
  Stopwatch stopwatch;
  if (Status status = stopwatch.open(); !status.isOk()) return {contestants.size(), Result<Timing>(status)};
  std::optional<Flush> flush;
  if (pace.coldRounds > 0) flush.emplace(device, stream);
  const bool canFlush = flush && flush->isPossible();

  std::vector<TimedEntrant> entrants;
  entrants.reserve(contestants.size());
  for (const Enqueue& one : contestants) entrants.push_back(entrantFor(one, pace, canFlush, stopwatch, stream));
  for (int round = 0; round <= pace.rounds; ++round) warmRound(entrants, round, stopwatch);
  for (int round = 0; canFlush && round < pace.coldRounds; ++round) coldRound(entrants, round, *flush, stopwatch);

  std::vector<Result<Timing>> timings;
  timings.reserve(entrants.size());
  for (const TimedEntrant& entrant : entrants) timings.push_back(entrant.timing());
  // The graphs are about to go.
  (void)cudaStreamSynchronize(stream);
  return timings;
}

Result<double> eventMilliseconds(Device& device, cudaStream_t stream) {
  Result<DeviceMemory> word = device.allocate(4);
  if (!word.isOk()) return word.status();
  const std::vector<Enqueue> least{
      [&] { return toStatus(cudaMemsetAsync(word.value().data(), 0, 4, stream), "clearing a word"); }};
  const Result<Timing> timing = timeInTurns(least, {3, 11}, device, stream)[0];
  if (!timing.isOk()) return timing.status();
  const auto& cold = timing.value().cold;
  return cold ? cold->median : Result<double>(Status{StatusCode::outOfMemory, "no memory to overwrite the cache with"});
}

}  // namespace warpconv::cuda
