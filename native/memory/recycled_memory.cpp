#include "memory/recycled_memory.h"

#include <algorithm>
#include <exception>
#include <iterator>
#include <limits>
#include <new>

#include "memory/huge_pages.h"

namespace warpconv {
namespace {

/** Mapped at once. What nobody touches takes up addresses alone. */
constexpr size_t kFreshBytes = 8 * kHugePageBytes;
/** Of one result: larger ones come in huge pages of their own. */
constexpr size_t kMostOfHugePages = 2 * kHugePageBytes;
/** With less in use, a process that has a few results pays for 2 MB of zeros that it does not need. */
constexpr size_t kLeastInUse = kHugePageBytes / 2;

}  // namespace

void IdleSpans::add(Span span) {
  const auto next = byAddress_.lower_bound(span.begin);
  const auto before = next == byAddress_.begin() ? byAddress_.end() : std::prev(next);
  const bool meetsNext = next != byAddress_.end() && span.begin + span.bytes == next->first;
  const bool meetsBefore = before != byAddress_.end() && before->first + before->second == span.begin;
  Span joined = span;
  if (meetsNext) joined.bytes += next->second;
  if (meetsBefore) joined = {before->first, before->second + joined.bytes};
  if (meetsBefore) {
    if (meetsNext) erase(next);
    replace(before, joined);
  } else if (meetsNext) {
    replace(next, joined);
  } else {
    insert(joined);
  }
  bytes_ += span.bytes;
}

Span IdleSpans::take(size_t bytes) noexcept {
  const auto smallest = bySize_.lower_bound({bytes, nullptr});
  if (smallest == bySize_.end()) return {};
  const auto place = byAddress_.find(smallest->second);
  const Span taken{place->first, bytes};
  const size_t left = place->second - bytes;
  if (left > 0) {
    replace(place, {taken.begin + bytes, left});
  } else {
    erase(place);
  }
  bytes_ -= bytes;
  return taken;
}

Span IdleSpans::takeHighest(size_t most) noexcept {
  const auto place = std::prev(byAddress_.end());
  const size_t bytes = std::min(most, place->second);
  const size_t left = place->second - bytes;
  const Span taken{place->first + left, bytes};
  if (left > 0) {
    replace(place, {place->first, left});
  } else {
    erase(place);
  }
  bytes_ -= bytes;
  return taken;
}

void IdleSpans::insert(Span span) {
  const auto place = byAddress_.emplace(span.begin, span.bytes).first;
  try {
    bySize_.emplace(span.bytes, span.begin);
  } catch (const std::bad_alloc&) {
    byAddress_.erase(place);
    throw;
  }
}

/** Allocates nothing: what is known of the one before is written over. */
void IdleSpans::replace(ByAddress::iterator place, Span by) noexcept {
  auto sized = bySize_.extract({place->second, place->first});
  sized.value() = {by.bytes, by.begin};
  bySize_.insert(std::move(sized));
  auto addressed = byAddress_.extract(place);
  addressed.key() = by.begin;
  addressed.mapped() = by.bytes;
  byAddress_.insert(std::move(addressed));
}

void IdleSpans::erase(ByAddress::iterator place) noexcept {
  bySize_.erase({place->second, place->first});
  byAddress_.erase(place);
}

RecycledMemory& RecycledMemory::shared() {
  // Longer than most pauses between two collections of a process that computes, and soon for one that is done.
  constexpr std::chrono::seconds kPeriod{5};
  // Collections come with every 32 MB of results, or with every few results that are larger.
  constexpr size_t kMostIdle = size_t{256} << 20;
  static auto* const only = new RecycledMemory(kPeriod, kMostIdle);
  return *only;
}

RecycledMemory::~RecycledMemory() {
  {
    const std::lock_guard lock(mutex_);
    ended_ = true;
  }
  ending_.notify_all();
  if (trimmer_.joinable()) trimmer_.join();
  releaseIdle();
}

void* RecycledMemory::take(size_t bytes) {
  const size_t size = inPages(bytes);
  Lock lock(mutex_);
  Span span = idle_.take(size);
  if (span.bytes == 0) span = mapNew(size, lock);
  leastIdle_ = std::min(leastIdle_, idle_.bytes());
  inUse_ += size;
  peak_ = std::max(peak_, inUse_);
  return span.begin;
}

Span RecycledMemory::mapNew(size_t bytes, Lock& lock) {
  makeRoom(bytes, lock);
  if (bytes < kMostOfHugePages && inUse_ >= kLeastInUse) {
    if (const Span fresh = takeFresh(bytes); fresh.bytes > 0) return fresh;
  }
  return mapAlone(bytes, lock);
}

Span RecycledMemory::mapAlone(size_t bytes, Lock& lock) {
  lock.unlock();
  Span span;
  try {
    span = mapPages(bytes);
  } catch (const std::bad_alloc&) {
    releaseIdle();
    span = mapPages(bytes);
  }
  lock.lock();
  return span;
}

/** The next of what nobody has had; a null span where there is no memory for it. */
Span RecycledMemory::takeFresh(size_t bytes) noexcept {
  if (fresh_.bytes < bytes) {
    releaseFresh();
    try {
      fresh_ = mapPages(kFreshBytes);
    } catch (const std::bad_alloc&) {
      return {};
    }
  }
  const Span taken{fresh_.begin, bytes};
  fresh_ = {fresh_.begin + bytes, fresh_.bytes - bytes};
  return taken;
}

void RecycledMemory::releaseFresh() noexcept { unmapPages(std::exchange(fresh_, {})); }

void RecycledMemory::giveBack(void* data, size_t bytes) noexcept {
  const Span span{static_cast<char*>(data), inPages(bytes)};
  Lock lock(mutex_);
  inUse_ -= span.bytes;
  try {
    idle_.add(span);
  } catch (const std::bad_alloc&) {
    lock.unlock();
    unmapPages(span);
    return;
  }
  if (idle_.bytes() > mostIdle_) release(idle_.bytes() - mostIdle_, lock);
  if (!trimming_) startTrimming(lock);
}

void RecycledMemory::releaseIdle() noexcept {
  Lock lock(mutex_);
  release(std::numeric_limits<size_t>::max(), lock);
  releaseFresh();
}

int64_t RecycledMemory::idleBytes() const noexcept {
  const std::lock_guard lock(mutex_);
  return static_cast<int64_t>(idle_.bytes());
}

/** Lets idle memory go until that many bytes more, with all others, are no more than were in use lately. */
void RecycledMemory::makeRoom(size_t bytes, Lock& lock) noexcept {
  const size_t wanted = inUse_ + bytes;
  const size_t most = std::max({peak_, earlierPeak_, wanted});
  if (wanted + idle_.bytes() > most) release(wanted + idle_.bytes() - most, lock);
}

/** That much of what is idle, or all of it. Without the lock while it goes, which takes a while. */
void RecycledMemory::release(size_t bytes, Lock& lock) noexcept {
  while (bytes > 0 && !idle_.isEmpty()) {
    const Span span = idle_.takeHighest(bytes);
    bytes -= span.bytes;
    lock.unlock();
    unmapPages(span);
    lock.lock();
  }
  leastIdle_ = std::min(leastIdle_, idle_.bytes());
}

void RecycledMemory::startTrimming(Lock& lock) noexcept {
  try {
    // The one before has ended, or is about to and needs nothing more for it.
    if (trimmer_.joinable()) trimmer_.join();
    trimmer_ = std::thread([this] { trim(); });
  } catch (const std::exception&) {
    // There is no memory or no thread for it, and nobody would see to it later.
    release(idle_.bytes(), lock);
    return;
  }
  trimming_ = true;
  peak_ = inUse_ + idle_.bytes();
  earlierPeak_ = 0;
  leastIdle_ = idle_.bytes();
}

void RecycledMemory::trim() noexcept {
  Lock lock(mutex_);
  do {
    ending_.wait_for(lock, period_, [this] { return ended_; });
    release(leastIdle_, lock);
    leastIdle_ = idle_.bytes();
    earlierPeak_ = std::exchange(peak_, inUse_);
    makeRoom(0, lock);
  } while (!ended_ && !idle_.isEmpty());
  releaseFresh();
  trimming_ = false;
}

}  // namespace warpconv
