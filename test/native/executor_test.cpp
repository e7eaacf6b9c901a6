#include "executor/executor.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <barrier>
#include <chrono>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <numeric>
#include <set>
#include <stdexcept>
#include <thread>
#include <vector>

using namespace warpconv;

namespace {

/** A call that runs until it is let go, so that a test can hold a thread busy. */
class Gate {
 public:
  Executor::Work work() {
    return [this](const Cancellation&) {
      entered_.set_value();
      opened_.get_future().wait();
      return Status{};
    };
  }
  void waitUntilEntered() { entered_.get_future().wait(); }
  void open() { opened_.set_value(); }

 private:
  std::promise<void> entered_;
  std::promise<void> opened_;
};

Executor::Done into(std::promise<Status>& promise) {
  return [&promise](Status status) { promise.set_value(std::move(status)); };
}

}  // namespace

TEST_CASE("work runs on another thread and its status arrives") {
  Executor executor(1);
  std::promise<Status> done;
  std::thread::id ranOn;
  executor.submit(
      [&](const Cancellation&) {
        ranOn = std::this_thread::get_id();
        return unsupported("no");
      },
      into(done));
  const Status status = done.get_future().get();
  CHECK(status.code() == StatusCode::unsupported);
  CHECK(status.message() == "no");
  CHECK(ranOn != std::this_thread::get_id());
}

TEST_CASE("one thread serves calls in the order of their submission") {
  Executor executor(1);
  std::vector<int> order;
  std::promise<Status> last;
  for (int i = 0; i < 100; ++i) {
    executor.submit(
        [&order, i](const Cancellation&) {
          order.push_back(i);
          return Status{};
        },
        [](Status) {});
  }
  executor.submit([](const Cancellation&) { return Status{}; }, into(last));
  last.get_future().wait();
  REQUIRE(order.size() == 100);
  for (int i = 0; i < 100; ++i) CHECK(order[static_cast<size_t>(i)] == i);
}

TEST_CASE("calls that come together to sleeping threads have a thread each, whatever the number of threads was") {
  constexpr unsigned kThreads = 6;
  Executor executor(kThreads);
  for (int round = 0; round < 30; ++round) {
    // Those that a smaller number has made superfluous are woken for nothing.
    executor.setThreads(round % 3 == 1 ? kThreads / 2 : kThreads);
    const unsigned count = executor.threads();
    // Longer than a thread looks for more before it sleeps
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    std::barrier all(count);
    std::vector<std::promise<Status>> ends(count);
    for (std::promise<Status>& end : ends) {
      // Each waits for all others: were one left asleep, none would end.
      executor.submit(
          [&all](const Cancellation&) {
            all.arrive_and_wait();
            return Status{};
          },
          into(end));
    }
    for (std::promise<Status>& end : ends) REQUIRE(end.get_future().get().isOk());
  }
}

TEST_CASE("a queued call that is cancelled never runs") {
  Executor executor(1);
  Gate gate;
  std::promise<Status> first, second;
  executor.submit(gate.work(), into(first));
  gate.waitUntilEntered();
  bool ran = false;
  const auto queued = executor.submit(
      [&ran](const Cancellation&) {
        ran = true;
        return Status{};
      },
      into(second));
  executor.cancel(queued);
  CHECK(second.get_future().get().code() == StatusCode::aborted);
  gate.open();
  CHECK(first.get_future().get().isOk());
  CHECK_FALSE(ran);
  executor.cancel(queued);  // ended already: nothing happens
}

TEST_CASE("a running call is asked to stop") {
  Executor executor(1);
  std::promise<void> entered;
  std::promise<Status> done;
  const auto call = executor.submit(
      [&entered](const Cancellation& cancellation) {
        entered.set_value();
        while (!cancellation.isRequested()) std::this_thread::yield();
        return Status{StatusCode::aborted, "stopped"};
      },
      into(done));
  entered.get_future().wait();
  executor.cancel(call);
  CHECK(done.get_future().get().message() == "stopped");
}

TEST_CASE("what work throws becomes a status, and the next call works") {
  Executor executor(1);
  std::promise<Status> memory, other, fine;
  executor.submit([](const Cancellation&) -> Status { throw std::bad_alloc(); }, into(memory));
  executor.submit([](const Cancellation&) -> Status { throw std::runtime_error("odd"); }, into(other));
  executor.submit([](const Cancellation&) { return Status{}; }, into(fine));
  CHECK(memory.get_future().get().code() == StatusCode::outOfMemory);
  CHECK(other.get_future().get().code() == StatusCode::internal);
  CHECK(fine.get_future().get().isOk());
}

TEST_CASE("an executor that ends waits for running calls and aborts queued ones") {
  std::promise<Status> first, second;
  Gate gate;
  std::thread opener;
  {
    Executor executor(1);
    executor.submit(gate.work(), into(first));
    gate.waitUntilEntered();
    executor.submit([](const Cancellation&) { return Status{}; }, into(second));
    opener = std::thread([&] { gate.open(); });
  }
  opener.join();
  CHECK(first.get_future().get().isOk());
  // The thread may have reached the second call before the executor began to end.
  const StatusCode code = second.get_future().get().code();
  CHECK((code == StatusCode::aborted || code == StatusCode::ok));
}

TEST_CASE("submitters and cancellers on many threads: every call ends exactly once") {
  constexpr int kSubmitters = 4;
  constexpr int kCalls = 500;
  std::atomic<int> ended{0};
  {
    Executor executor(3);
    std::vector<std::thread> submitters;
    for (int t = 0; t < kSubmitters; ++t) {
      submitters.emplace_back([&executor, &ended, t] {
        for (int i = 0; i < kCalls; ++i) {
          const auto call =
              executor.submit([](const Cancellation&) { return Status{}; }, [&ended](Status) { ended.fetch_add(1); });
          if ((i + t) % 3 == 0) executor.cancel(call);
        }
      });
    }
    for (std::thread& submitter : submitters) submitter.join();
  }
  CHECK(ended.load() == kSubmitters * kCalls);
}

TEST_CASE("the shared executor is one for the process while somebody holds it") {
  const std::shared_ptr<Executor> first = Executor::shared();
  CHECK(first == Executor::shared());
}

TEST_CASE("parallelFor runs every task exactly once, from any thread, and calls go on beside it") {
  Executor executor(3);
  std::vector<std::thread> callers;
  std::atomic<int> ended{0};
  for (int t = 0; t < 3; ++t) {
    callers.emplace_back([&executor] {
      for (int64_t tasks : {0, 1, 2, 5, 100, 1000}) {
        std::vector<std::atomic<int>> ran(static_cast<size_t>(tasks));
        executor.parallelFor(tasks, [&ran](int64_t task) { ran[static_cast<size_t>(task)].fetch_add(1); });
        for (const auto& times : ran) CHECK(times.load() == 1);
      }
    });
  }
  std::vector<std::promise<Status>> done(20);
  for (auto& promise : done) {
    executor.submit(
        [&](const Cancellation&) {
          executor.parallelFor(10, [&ended](int64_t) { ended.fetch_add(1); });
          return Status{};
        },
        into(promise));
  }
  for (std::thread& caller : callers) caller.join();
  for (auto& promise : done) CHECK(promise.get_future().get().isOk());
  CHECK(ended.load() == 200);
}

TEST_CASE("parallelFor without waking anybody runs every task exactly once, beside others that wake") {
  Executor executor(3);
  std::vector<std::thread> callers;
  for (int t = 0; t < 3; ++t) {
    callers.emplace_back([&executor, t] {
      for (int round = 0; round < 300; ++round) {
        std::vector<std::atomic<int>> ran(7);
        executor.parallelFor(
            7, [&ran](int64_t task) { ran[static_cast<size_t>(task)].fetch_add(1); },
            (round + t) % 2 == 0 ? Executor::Sleepers::leave : Executor::Sleepers::wake);
        for (const auto& times : ran) CHECK(times.load() == 1);
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
}

TEST_CASE("in every loop of a call a thread begins with the same share of the tasks") {
  constexpr int64_t kTasks = 9;
  for (const unsigned threads : {2u, 3u}) {
    Executor executor(threads);
    // Tasks that a thread begins with: nobody goes on to a second one before every thread has one.
    std::vector<std::map<std::thread::id, int64_t>> begun(3);
    std::promise<Status> done;
    executor.submit(
        [&](const Cancellation&) {
          for (auto& first : begun) {
            std::barrier all(threads);
            std::mutex mutex;
            executor.parallelFor(kTasks, [&](int64_t task) {
              const bool isFirst = [&] {
                const std::lock_guard lock(mutex);
                return first.emplace(std::this_thread::get_id(), task).second;
              }();
              if (isFirst) all.arrive_and_wait();
            });
          }
          return Status{};
        },
        into(done));
    REQUIRE(done.get_future().get().isOk());
    for (const auto& first : begun) CHECK(first == begun.front());
    std::set<int64_t> tasks;
    for (const auto& [thread, task] : begun.front()) tasks.insert(task);
    CHECK(tasks == (threads == 2 ? std::set<int64_t>{0, 4} : std::set<int64_t>{0, 3, 6}));
  }
}

TEST_CASE("as many threads as the executor has share a loop, the caller among them") {
  Executor executor(3);
  const auto meetAndTell = [&executor](std::set<std::thread::id>& met) {
    std::barrier meeting(3);
    std::mutex mutex;
    executor.parallelFor(3, [&](int64_t) {
      meeting.arrive_and_wait();
      const std::lock_guard lock(mutex);
      met.insert(std::this_thread::get_id());
    });
  };

  SUBCASE("a caller from outside replaces the last thread, which joins none of its loops") {
    std::set<std::thread::id> met;
    for (int i = 0; i < 200; ++i) meetAndTell(met);
    CHECK(met.size() == 3);
    CHECK(met.count(std::this_thread::get_id()) == 1);
  }
  SUBCASE("a caller of the pool's own has all the others") {
    std::promise<Status> done;
    std::set<std::thread::id> met;
    executor.submit(
        [&](const Cancellation&) {
          meetAndTell(met);
          return Status{};
        },
        into(done));
    CHECK(done.get_future().get().isOk());
    CHECK(met.size() == 3);
    CHECK(met.count(std::this_thread::get_id()) == 0);
  }
}

TEST_CASE("what a task throws is thrown by parallelFor, after every task has ended") {
  Executor executor(2);
  std::atomic<int> ended{0};
  const auto body = [&ended](int64_t task) {
    ended.fetch_add(1);
    if (task == 3) throw std::bad_alloc();
  };
  CHECK_THROWS_AS(executor.parallelFor(10, body), std::bad_alloc);
  CHECK(ended.load() == 10);
  // The next loop of this thread knows nothing of it.
  executor.parallelFor(3, body);
  CHECK(ended.load() == 13);
}

TEST_CASE("loops within loops run every task exactly once, on few and on many threads") {
  for (const unsigned threads : {1u, 2u, 4u}) {
    Executor executor(threads);
    for (int round = 0; round < 50; ++round) {
      std::vector<std::atomic<int>> ran(64);
      executor.parallelFor(8, [&](int64_t outer) {
        executor.parallelFor(8, [&](int64_t inner) { ran[static_cast<size_t>(8 * outer + inner)].fetch_add(1); });
      });
      CHECK(std::all_of(ran.begin(), ran.end(), [](const std::atomic<int>& count) { return count.load() == 1; }));
    }
  }
}

TEST_CASE("the number of threads can change between and during calls") {
  Executor executor(1);
  for (unsigned threads : {4u, 1u, 0u, 3u, 2u}) {
    executor.setThreads(threads);
    CHECK(executor.threads() == (threads == 0 ? 1 : threads));
    std::atomic<int> ended{0};
    std::promise<Status> done;
    executor.submit(
        [&](const Cancellation&) {
          executor.parallelFor(50, [&ended](int64_t) { ended.fetch_add(1); });
          return Status{};
        },
        into(done));
    CHECK(done.get_future().get().isOk());
    CHECK(ended.load() == 50);
  }
}

namespace {

using std::chrono::milliseconds;

/** Far longer than anything here takes, so that a call that never has its turn fails a test instead of blocking it. */
constexpr std::chrono::seconds kForever{20};
/** Longer than a turn */
constexpr milliseconds kLong{12};

/** Keeps the thread busy, as a step does that nobody interrupts. */
void spin(milliseconds time) {
  const auto end = Executor::Clock::now() + time;
  while (Executor::Clock::now() < end) {
  }
}

/** Yields until `happened()`; false where that takes forever. */
template <typename Happened>
bool yieldUntil(Executor& executor, const Happened& happened) {
  const auto end = Executor::Clock::now() + kForever;
  while (!happened()) {
    if (Executor::Clock::now() > end) return false;
    executor.yield();
  }
  return true;
}

Executor::Done counting(std::atomic<int>& ended) {
  return [&ended](Status status) {
    CHECK(status.isOk());
    ended.fetch_add(1);
  };
}

}  // namespace

TEST_CASE("a long call lets those of other clients go first, wherever it yields") {
  Executor executor(1);
  std::atomic<int> ended{0};
  std::promise<void> entered;
  std::promise<Status> done;
  bool all = false;
  const auto isOver = [&ended] { return ended.load() == 5; };
  executor.submit(
      [&](const Cancellation&) {
        entered.set_value();
        SUBCASE("between steps") { all = yieldUntil(executor, isOver); }
        SUBCASE("between the tasks of a loop in a loop") {
          const auto end = Executor::Clock::now() + kForever;
          executor.parallelFor(1, [&](int64_t) {
            while (!isOver() && Executor::Clock::now() < end) executor.parallelFor(2, [](int64_t) {});
          });
          all = isOver();
        }
        return Status{};
      },
      into(done));
  entered.get_future().wait();
  for (int i = 0; i < 5; ++i) executor.submit([](const Cancellation&) { return Status{}; }, counting(ended));
  CHECK(done.get_future().get().isOk());
  CHECK(all);
}

TEST_CASE("a stream of short calls does not starve a long one") {
  Executor executor(1);
  const auto client = std::make_shared<Executor::Client>();
  std::atomic<bool> over{false};
  std::atomic<int> inFlight{0};
  std::function<void()> submitShort = [&] {
    inFlight.fetch_add(1);
    executor.submit(
        [](const Cancellation&) {
          spin(milliseconds(1));
          return Status{};
        },
        [&](Status) {
          // Two for one until there are many, so that one always waits
          for (int i = inFlight.load() < 8 ? 2 : 1; i > 0 && !over.load(); --i) submitShort();
          inFlight.fetch_sub(1);
        },
        client);
  };
  std::promise<void> entered;
  std::promise<Status> done;
  executor.submit(
      [&](const Cancellation&) {
        entered.set_value();
        for (int step = 0; step < 20; ++step) {
          spin(milliseconds(2));
          executor.yield();
        }
        return Status{};
      },
      into(done));
  entered.get_future().wait();
  submitShort();
  auto ended = done.get_future();
  CHECK(ended.wait_for(kForever) == std::future_status::ready);
  over.store(true);
  while (inFlight.load() > 0) std::this_thread::yield();
}

TEST_CASE("calls of one client do not overtake each other while they take turns with another's") {
  Executor executor(1);
  const auto client = std::make_shared<Executor::Client>();
  const auto other = std::make_shared<Executor::Client>();
  std::mutex mutex;
  std::vector<int> ended;
  std::atomic<int> left{8};
  for (int i = 0; i < 8; ++i) {
    executor.submit(
        [&](const Cancellation&) {
          for (int step = 0; step < 4; ++step) {
            spin(milliseconds(3));
            executor.yield();
          }
          return Status{};
        },
        [&, i](Status) {
          const std::lock_guard lock(mutex);
          ended.push_back(i);
          left.fetch_sub(1);
        },
        i % 2 == 0 ? client : other);
  }
  while (left.load() > 0) std::this_thread::yield();
  std::vector<int> own, others;
  for (const int i : ended) (i % 2 == 0 ? own : others).push_back(i);
  CHECK(own == std::vector<int>{0, 2, 4, 6});
  CHECK(others == std::vector<int>{1, 3, 5, 7});
}

TEST_CASE("a suspended call that is cancelled goes on at once, and one that is not when its turn comes") {
  Executor executor(1);
  Gate gate;
  std::promise<void> entered;
  std::promise<Status> first, second;
  const auto suspended = executor.submit(
      [&](const Cancellation& cancellation) {
        entered.set_value();
        const bool ends = yieldUntil(executor, [&] { return cancellation.isRequested(); });
        return ends ? Status{StatusCode::aborted, "stopped"} : Status{};
      },
      into(first));
  entered.get_future().wait();
  executor.submit(gate.work(), into(second));
  gate.waitUntilEntered();
  executor.cancel(suspended);
  CHECK(first.get_future().get().message() == "stopped");
  gate.open();
  CHECK(second.get_future().get().isOk());
  std::promise<Status> third;
  executor.submit([](const Cancellation&) { return Status{}; }, into(third));
  CHECK(third.get_future().get().isOk());
}

TEST_CASE("an executor that ends waits for suspended calls, too") {
  std::promise<void> entered;
  std::promise<Status> first, second;
  Gate gate;
  std::thread opener;
  {
    Executor executor(1);
    bool suspended = false;
    executor.submit(
        [&](const Cancellation&) {
          entered.set_value();
          yieldUntil(executor, [&] { return suspended; });
          return Status{};
        },
        into(first));
    entered.get_future().wait();
    executor.submit(
        [&, work = gate.work()](const Cancellation& cancellation) {
          suspended = true;
          return work(cancellation);
        },
        into(second));
    gate.waitUntilEntered();
    opener = std::thread([&] { gate.open(); });
  }
  opener.join();
  CHECK(first.get_future().get().isOk());
  CHECK(second.get_future().get().isOk());
}

TEST_CASE("what is timed is not interrupted") {
  Executor executor(1);
  std::promise<void> entered;
  std::promise<Status> first, second;
  std::atomic<bool> begun{false};
  bool early = true, later = false;
  executor.submit(
      [&](const Cancellation&) {
        entered.set_value();
        {
          const Executor::Undisturbed undisturbed;
          const auto end = Executor::Clock::now() + kLong;
          while (Executor::Clock::now() < end) executor.yield();
          early = begun.load();
        }
        later = yieldUntil(executor, [&] { return begun.load(); });
        return Status{};
      },
      into(first));
  entered.get_future().wait();
  executor.submit(
      [&](const Cancellation&) {
        begun.store(true);
        return Status{};
      },
      into(second));
  CHECK(first.get_future().get().isOk());
  CHECK(second.get_future().get().isOk());
  CHECK_FALSE(early);
  CHECK(later);
}

TEST_CASE("clients take turns in as many places as there are threads, and every task runs once") {
  for (const unsigned threads : {1u, 3u}) {
    constexpr int kClients = 6;
    constexpr int kCalls = 4;
    std::atomic<int> active{0}, most{0}, ended{0}, aborted{0};
    std::vector<std::atomic<int>> ran(kClients * kCalls * 16);
    {
      Executor executor(threads);
      std::vector<std::shared_ptr<Executor::Call>> cancelled;
      for (int c = 0; c < kClients; ++c) {
        const auto client = std::make_shared<Executor::Client>();
        for (int i = 0; i < kCalls; ++i) {
          const auto first = static_cast<size_t>(16 * (kCalls * c + i));
          const auto call = executor.submit(
              [&, first](const Cancellation& cancellation) {
                for (size_t step = 0; step < 4; ++step) {
                  const int now = active.fetch_add(1) + 1;
                  for (int seen = most.load(); seen < now && !most.compare_exchange_weak(seen, now);) {
                  }
                  spin(milliseconds(2));
                  active.fetch_sub(1);
                  executor.parallelFor(4, [&](int64_t task) {
                    executor.yield();
                    ran[first + 4 * step + static_cast<size_t>(task)].fetch_add(1);
                  });
                  if (cancellation.isRequested()) return Status{StatusCode::aborted, "stopped"};
                }
                return Status{};
              },
              [&](Status status) {
                ended.fetch_add(1);
                if (!status.isOk()) aborted.fetch_add(1);
              },
              client);
          if (i == 2) cancelled.push_back(call);
        }
      }
      for (const auto& call : cancelled) {
        spin(milliseconds(3));
        executor.cancel(call);
      }
      while (ended.load() < kClients * kCalls) std::this_thread::yield();
    }
    // Calls that were cancelled while they were suspended end beside the others.
    CHECK(most.load() <= static_cast<int>(threads) + kClients);
    CHECK(std::all_of(ran.begin(), ran.end(), [](const std::atomic<int>& count) { return count.load() <= 1; }));
    const int runs = std::accumulate(ran.begin(), ran.end(), 0);
    CHECK(runs >= 16 * (kClients * kCalls - aborted.load()));
    CHECK(aborted.load() <= kClients);
  }
}
