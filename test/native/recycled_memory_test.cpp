#include "memory/recycled_memory.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <limits>
#include <mutex>
#include <new>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "memory/huge_pages.h"
#include "support/failing_allocations.h"

namespace warpconv {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;

constexpr size_t kMost = std::numeric_limits<size_t>::max();
/** A page of any system */
constexpr size_t kPage = size_t{64} << 10;

/** Memory of one test, of which nothing goes by itself */
RecycledMemory lastingMemory(size_t mostIdle = kMost) { return {hours{1}, mostIdle}; }

size_t idleIn(const RecycledMemory& memory) { return static_cast<size_t>(memory.idleBytes()); }

TEST_CASE("adjacent idle spans are one") {
  std::vector<char> memory(100);
  const auto at = [&](size_t begin, size_t bytes) { return Span{memory.data() + begin, bytes}; };
  IdleSpans spans;
  for (const auto& [begin, bytes] : {std::pair<size_t, size_t>{10, 10}, {40, 10}, {30, 10}, {0, 10}, {20, 10}}) {
    spans.add(at(begin, bytes));
  }
  CHECK(spans.bytes() == 50);
  CHECK(spans.take(51).begin == nullptr);
  CHECK(spans.take(50).begin == memory.data());
  CHECK(spans.isEmpty());
}

TEST_CASE("the smallest idle span that is large enough is taken, and the rest of it stays") {
  std::vector<char> memory(100);
  IdleSpans spans;
  spans.add({memory.data(), 40});
  spans.add({memory.data() + 50, 20});
  spans.add({memory.data() + 80, 10});
  CHECK(spans.take(15).begin == memory.data() + 50);
  CHECK(spans.take(5).begin == memory.data() + 65);
  CHECK(spans.take(11).begin == memory.data());
  CHECK(spans.bytes() == 29 + 10);
}

TEST_CASE("what lies highest goes first") {
  std::vector<char> memory(100);
  IdleSpans spans;
  spans.add({memory.data(), 40});
  spans.add({memory.data() + 50, 20});
  CHECK(spans.takeHighest(5).begin == memory.data() + 65);
  const Span rest = spans.takeHighest(kMost);
  CHECK(rest.begin == memory.data() + 50);
  CHECK(rest.bytes == 15);
  CHECK(spans.bytes() == 40);
}

TEST_CASE("memory is zeros at first, and used again when it was given back") {
  RecycledMemory memory = lastingMemory();
  auto* const first = static_cast<unsigned char*>(memory.take(kPage));
  CHECK(std::all_of(first, first + kPage, [](unsigned char byte) { return byte == 0; }));
  std::memset(first, 7, kPage);
  memory.giveBack(first, kPage);
  CHECK(idleIn(memory) == kPage);
  auto* const second = static_cast<unsigned char*>(memory.take(kPage));
  CHECK(second == first);
  CHECK(second[kPage - 1] == 7);
  CHECK(idleIn(memory) == 0);
  memory.giveBack(second, kPage);
}

TEST_CASE("sizes are rounded to pages, and others take what they leave") {
  RecycledMemory memory = lastingMemory();
  void* const large = memory.take(4 * kPage - 1);
  memory.giveBack(large, 4 * kPage - 1);
  CHECK(idleIn(memory) == 4 * kPage);
  void* const small = memory.take(kPage);
  CHECK(small == large);
  void* const other = memory.take(3 * kPage);
  CHECK(other == static_cast<char*>(large) + kPage);
  memory.giveBack(small, kPage);
  memory.giveBack(other, 3 * kPage);
}

TEST_CASE("large memory begins on a huge page") {
  RecycledMemory memory = lastingMemory();
  const size_t bytes = 3 * kHugePageBytes;
  auto* const data = static_cast<char*>(memory.take(bytes));
  CHECK(reinterpret_cast<uintptr_t>(data) % kHugePageBytes == 0);
  data[bytes - 1] = 1;
  memory.giveBack(data, bytes);
}

TEST_CASE("where much is in use, small new memory is adjacent, zeros, and apart") {
  RecycledMemory memory = lastingMemory();
  const size_t bytes = 3 * kPage;
  std::vector<unsigned char*> taken;
  size_t adjacent = 0;
  for (size_t inUse = 0; inUse < 20 * kHugePageBytes; inUse += bytes) {
    auto* const data = static_cast<unsigned char*>(memory.take(bytes));
    REQUIRE(std::all_of(data, data + bytes, [](unsigned char byte) { return byte == 0; }));
    std::memset(data, static_cast<int>(taken.size() % 255) + 1, bytes);
    adjacent += !taken.empty() && data == taken.back() + bytes;
    taken.push_back(data);
  }
  CHECK(adjacent > taken.size() * 9 / 10);
  for (size_t i = 0; i < taken.size(); ++i) {
    REQUIRE(taken[i][0] == i % 255 + 1);
    REQUIRE(taken[i][bytes - 1] == i % 255 + 1);
    memory.giveBack(taken[i], bytes);
  }
  CHECK(idleIn(memory) == taken.size() * bytes);
}

TEST_CASE("idle memory and memory in use are never more than was in use") {
  RecycledMemory memory = lastingMemory();
  std::mt19937 random(1);
  std::vector<std::pair<void*, size_t>> taken;
  size_t inUse = 0;
  size_t peak = 0;
  for (int step = 0; step < 2000; ++step) {
    const size_t bytes = kPage * std::uniform_int_distribution<size_t>(1, 64)(random);
    taken.emplace_back(memory.take(bytes), bytes);
    inUse += bytes;
    peak = std::max(peak, inUse);
    REQUIRE(inUse + idleIn(memory) <= peak);
    // Results are given back by the dozen, and some of them late.
    if (step % 13 != 0) continue;
    std::shuffle(taken.begin(), taken.end(), random);
    while (taken.size() > 3) {
      memory.giveBack(taken.back().first, taken.back().second);
      inUse -= taken.back().second;
      taken.pop_back();
    }
  }
  for (const auto& [data, bytes] : taken) memory.giveBack(data, bytes);
  CHECK(idleIn(memory) > 0);
}

TEST_CASE("no more than so many bytes are idle") {
  RecycledMemory memory = lastingMemory(3 * kPage);
  void* const first = memory.take(2 * kPage);
  void* const second = memory.take(2 * kPage);
  memory.giveBack(first, 2 * kPage);
  CHECK(idleIn(memory) == 2 * kPage);
  memory.giveBack(second, 2 * kPage);
  CHECK(idleIn(memory) == 3 * kPage);
  memory.releaseIdle();
  CHECK(idleIn(memory) == 0);
}

TEST_CASE("what nobody wants goes back to the system by itself, again and again") {
  RecycledMemory memory(milliseconds{5}, kMost);
  for (int round = 0; round < 3; ++round) {
    memory.giveBack(memory.take(kPage), kPage);
    while (idleIn(memory) > 0) std::this_thread::sleep_for(milliseconds{1});
  }
}

TEST_CASE("memory that cannot be had is refused, after what is idle went") {
  RecycledMemory memory = lastingMemory();
  memory.giveBack(memory.take(kPage), kPage);
  CHECK_THROWS_AS(memory.take(size_t{1} << 60), std::bad_alloc);
  CHECK(idleIn(memory) == 0);
  CHECK_THROWS_AS(memory.take(kMost), std::bad_alloc);
}

TEST_CASE("where there is no memory to keep count of it, or no thread, memory goes back at once") {
  for (int64_t nth = 1;; ++nth) {
    CAPTURE(nth);
    RecycledMemory memory = lastingMemory();
    void* const data = memory.take(kPage);
    const FailingAllocation failing(nth);
    memory.giveBack(data, kPage);
    const FailingAllocation::Spared spared;
    if (!failing.happened()) {
      CHECK(nth > 1);
      CHECK(idleIn(memory) == kPage);
      break;
    }
    CHECK(idleIn(memory) == 0);
  }
}

TEST_CASE("threads have memory of their own, and give back that of others") {
  using Taken = std::pair<unsigned char*, size_t>;
  RecycledMemory memory(milliseconds{2}, 20 * kPage);
  std::mutex mutex;
  Taken handedOver{static_cast<unsigned char*>(memory.take(kPage)), kPage};
  std::atomic<int> mistakes{0};
  const auto work = [&](unsigned char mark) {
    std::mt19937 random(mark);
    for (int step = 0; step < 500; ++step) {
      const size_t bytes = kPage * std::uniform_int_distribution<size_t>(1, 8)(random);
      Taken taken{static_cast<unsigned char*>(memory.take(bytes)), bytes};
      taken.first[0] = taken.first[bytes - 1] = mark;
      std::this_thread::yield();
      if (taken.first[0] != mark || taken.first[bytes - 1] != mark) ++mistakes;
      {
        const std::lock_guard lock(mutex);
        std::swap(taken, handedOver);
      }
      memory.giveBack(taken.first, taken.second);
    }
  };
  std::vector<std::thread> threads;
  for (unsigned char mark = 1; mark <= 4; ++mark) threads.emplace_back(work, mark);
  for (std::thread& thread : threads) thread.join();
  CHECK(mistakes == 0);
  memory.giveBack(handedOver.first, handedOver.second);
}

}  // namespace
}  // namespace warpconv
