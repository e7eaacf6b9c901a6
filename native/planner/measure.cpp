#include "planner/measure.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <random>
#include <utility>

namespace warpconv {
namespace {

using Clock = Cancellation::Clock;

/** For all of it, besides first looks at what takes longer: two seconds a layer, less what packing weights may take. */
constexpr double kBudgetMilliseconds = 1500;
/**
 * Of each entrant that is left after the first look. On two virtual cores that other work kept busy, four contests for
 * each of fifteen layers took 130 ms at most, and differed in their winner only where im2col and sconv are the same,
 * with 1 x 1 filters.
 */
constexpr int kRounds = 11;
/**
 * Of those that are then about as fast as the fastest, where there is time for as many again: of kernels of 2 us,
 * eleven samples of 20 calls took one for the fastest that another measurement found up to 14 % slower.
 */
constexpr int kCloseRounds = 33;
constexpr double kClose = 1.25;
/** A first look takes so long; its fastest call counts, since the first ones find caches cold. */
constexpr double kLookMilliseconds = 10;
/** Times as slow as the fastest at the first look, at which an entrant is given up: disturbances are smaller. */
constexpr double kHopeless = 4;
/** The same by prediction, where an entrant is not even looked at: no prediction is off by as much. */
constexpr double kPredictedHopeless = 10;
/** Reading the clock takes a ten-thousandth of that, and a change of threads is rarer. */
constexpr double kSampleMilliseconds = 1;

double millisecondsSince(Clock::time_point begin) {
  return std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
}

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

int callsPerSample(double milliseconds) {
  constexpr double kMostCalls = 10'000;
  return static_cast<int>(std::clamp(std::ceil(kSampleMilliseconds / milliseconds), 1.0, kMostCalls));
}

bool isCancelled(const Cancellation* cancellation) { return cancellation != nullptr && cancellation->isRequested(); }

/** The fastest call of the first look. */
Result<double> look(Measurable& contestant, double limit, const Cancellation* cancellation) {
  if (Status status = contestant.prepare(); !status.isOk()) return status;
  const Clock::time_point begin = Clock::now();
  double fastest = std::numeric_limits<double>::infinity();
  Status failure;
  do {
    const Result<double> taken = contestant.once(limit, cancellation);
    if (taken.isOk()) {
      fastest = std::min(fastest, taken.value());
    } else {
      failure = taken.status();
      if (failure.code() != StatusCode::aborted || isCancelled(cancellation)) return failure;
    }
  } while (millisecondsSince(begin) < kLookMilliseconds);
  if (std::isfinite(fastest)) return fastest;
  return failure;
}

/** An entrant that is still in the contest, and how long it has taken. */
struct Finalist {
  Entrant entrant;
  double milliseconds;
};

class Contest {
 public:
  explicit Contest(const Cancellation* cancellation) : cancellation_(cancellation) {}

  /** Whether its prediction is not worth a look, against that of one that was measured. */
  bool isHopeless(const Entrant& entrant) const {
    return entrant.predictedMilliseconds > kPredictedHopeless * predicted_;
  }

  /** Looks at one more. */
  void admit(Entrant entrant) {
    // What takes as long as the fastest need not be seen to its end, however much time is left.
    const double limit = std::max(fastest_, std::min(kHopeless * fastest_, remaining()));
    const Result<double> looked = look(*entrant.contestant, limit, cancellation_);
    if (!looked.isOk()) {
      if (!failure_) failure_ = looked.status();
      return;
    }
    fastest_ = std::min(fastest_, looked.value());
    predicted_ = std::min(predicted_, entrant.predictedMilliseconds);
    finalists_.push_back({std::move(entrant), looked.value()});
    // Whoever leaves frees the memory that the next one may need.
    std::erase_if(finalists_, [&](const Finalist& one) { return one.milliseconds > kHopeless * fastest_; });
  }

  Result<std::vector<Measurement>> decide() {
    if (finalists_.empty()) return failure_.value_or(Status{StatusCode::internal, "there was nothing to measure"});
    std::vector<Finalist*> all;
    for (Finalist& one : finalists_) all.push_back(&one);
    if (Status status = time(all, 1, kRounds); !status.isOk()) return status;
    if (Status status = time(closeOnes(), kRounds, kCloseRounds); !status.isOk()) return status;
    std::vector<Measurement> measurements;
    for (const Finalist& one : finalists_) {
      measurements.push_back({one.entrant.algorithm, one.entrant.variant, one.milliseconds});
    }
    const auto faster = [](const Measurement& a, const Measurement& b) { return a.milliseconds < b.milliseconds; };
    std::stable_sort(measurements.begin(), measurements.end(), faster);
    return measurements;
  }

 private:
  double remaining() const { return kBudgetMilliseconds - millisecondsSince(begin_); }

  /** The fastest and those that are nearly as fast; nobody where nobody else is. */
  std::vector<Finalist*> closeOnes() {
    const auto faster = [](const Finalist& a, const Finalist& b) { return a.milliseconds < b.milliseconds; };
    const double fastest = std::min_element(finalists_.begin(), finalists_.end(), faster)->milliseconds;
    std::vector<Finalist*> close;
    for (Finalist& one : finalists_) {
      if (one.milliseconds <= kClose * fastest) close.push_back(&one);
    }
    return close.size() > 1 ? close : std::vector<Finalist*>{};
  }

  /** As many rounds as there is time for; where that is for fewer than `least`, what was found before has to do. */
  Status time(const std::vector<Finalist*>& finalists, int least, int most) {
    if (finalists.empty()) return {};
    double round = 0;
    std::vector<Sample> samples;
    for (const Finalist* one : finalists) {
      const int calls = callsPerSample(one->milliseconds);
      round += one->milliseconds * calls;
      samples.push_back([this, calls, contestant = one->entrant.contestant.get()] {
        return contestant->sample(calls, cancellation_);
      });
    }
    const int rounds = static_cast<int>(std::clamp<double>(std::floor(remaining() / round), 0, most));
    if (rounds < least) return {};
    const Result<std::vector<double>> times = mediansInTurns(samples, rounds);
    if (!times.isOk()) return times.status();
    for (size_t i = 0; i < finalists.size(); ++i) finalists[i]->milliseconds = times.value()[i];
    return {};
  }

  const Cancellation* const cancellation_;
  const Clock::time_point begin_ = Clock::now();
  double fastest_ = std::numeric_limits<double>::infinity();
  /** The least of those that did not fail */
  double predicted_ = std::numeric_limits<double>::infinity();
  std::vector<Finalist> finalists_;
  std::optional<Status> failure_;
};

}  // namespace

Result<std::vector<double>> mediansInTurns(const std::vector<Sample>& samples, int rounds) {
  std::vector<std::vector<double>> taken(samples.size());
  for (int round = 0; round < rounds; ++round) {
    for (size_t i = 0; i < samples.size(); ++i) {
      const Result<double> milliseconds = samples[i]();
      if (!milliseconds.isOk()) return milliseconds.status();
      taken[i].push_back(milliseconds.value());
    }
  }
  std::vector<double> medians;
  for (std::vector<double>& one : taken) medians.push_back(median(std::move(one)));
  return medians;
}

Result<std::vector<Measurement>> compete(std::vector<Entrant> entrants, const Cancellation* cancellation) {
  // Those that ought to be slow then find a fast one to be held against.
  std::stable_sort(entrants.begin(), entrants.end(), [](const Entrant& a, const Entrant& b) {
    return a.predictedMilliseconds < b.predictedMilliseconds;
  });
  Contest contest(cancellation);
  for (Entrant& entrant : entrants) {
    if (contest.isHopeless(entrant)) break;
    contest.admit(std::move(entrant));
    if (isCancelled(cancellation)) return stoppedWhileRunning();
  }
  return contest.decide();
}

void fillWithNoise(float* values, int64_t count) {
  // No multiple of any map's extent; filling gigabytes one by one would take longer than measuring.
  constexpr int64_t kPeriod = 65'521;
  const int64_t drawn = std::min(count, kPeriod);
  std::minstd_rand random;
  std::uniform_real_distribution<float> pick(-1.0f, 1.0f);
  std::generate_n(values, drawn, [&] { return pick(random); });
  for (int64_t filled = drawn; filled < count; filled *= 2) {
    std::copy_n(values, std::min(filled, count - filled), values + filled);
  }
}

}  // namespace warpconv
