#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <set>
#include <thread>
#include <utility>

#include "memory/pages.h"

namespace warpconv {

/** Spans that nobody uses. Adjacent ones are one. */
class IdleSpans {
 public:
  size_t bytes() const { return bytes_; }
  bool isEmpty() const { return bytes_ == 0; }

  /** Throws std::bad_alloc, and has not taken it then. */
  void add(Span span);
  /** So many bytes of the smallest that has as many; a null span where none has. */
  Span take(size_t bytes) noexcept;
  /** So many bytes at most of the one that lies highest: there must be one. */
  Span takeHighest(size_t most) noexcept;

 private:
  using ByAddress = std::map<char*, size_t>;

  void insert(Span span);
  void replace(ByAddress::iterator place, Span by) noexcept;
  void erase(ByAddress::iterator place) noexcept;

  ByAddress byAddress_;
  std::set<std::pair<size_t, char*>> bySize_;
  size_t bytes_ = 0;
};

/**
 * Memory for results, which is used again when it is given back: memory that is new to the process brings a page fault
 * with every 4 KB that are first written to.
 *
 * What is idle is bounded and does not stay. It is `mostIdle` bytes at most. New memory is only asked for where what is
 * idle has no room, and then so much of it goes that all is no more than was in use at some moment of the last two
 * periods: recycling makes no process larger than its results did. What has been idle through a whole period goes back
 * to the system, too. A thread sees to that, which there is as long as something is idle, also where no call comes
 * again.
 *
 * Where many results are in use, new memory for small ones comes out of huge pages, one page fault for 2 MB. What is
 * left of these is not idle, since nobody has had it yet; it goes when nothing is idle any more.
 *
 * Any thread may take memory and give it back. A new owner finds in it what earlier owners wrote, or zeros.
 */
class RecycledMemory {
 public:
  /** Of this process. It is never destroyed: memory of threads that have ended may come back at any time. */
  static RecycledMemory& shared();

  RecycledMemory(std::chrono::milliseconds period, size_t mostIdle) : period_(period), mostIdle_(mostIdle) {}
  RecycledMemory(const RecycledMemory&) = delete;
  RecycledMemory& operator=(const RecycledMemory&) = delete;
  /** All memory must have been given back. */
  ~RecycledMemory();

  /** At least one byte, on a page's boundary. Throws std::bad_alloc. */
  void* take(size_t bytes);
  /** With as many bytes as were taken. */
  void giveBack(void* data, size_t bytes) noexcept;
  /** Returns all idle memory to the system. */
  void releaseIdle() noexcept;

  int64_t idleBytes() const noexcept;

 private:
  using Lock = std::unique_lock<std::mutex>;

  Span mapNew(size_t bytes, Lock& lock);
  Span mapAlone(size_t bytes, Lock& lock);
  Span takeFresh(size_t bytes) noexcept;
  void releaseFresh() noexcept;
  void makeRoom(size_t bytes, Lock& lock) noexcept;
  void release(size_t bytes, Lock& lock) noexcept;
  void startTrimming(Lock& lock) noexcept;
  void trim() noexcept;

  const std::chrono::milliseconds period_;
  const size_t mostIdle_;
  mutable std::mutex mutex_;
  IdleSpans idle_;
  /** What nobody has had of the last huge pages */
  Span fresh_;
  size_t inUse_ = 0;
  /** The most bytes in use in this period and in the one before, and the fewest idle in this one */
  size_t peak_ = 0;
  size_t earlierPeak_ = 0;
  size_t leastIdle_ = 0;
  bool trimming_ = false;
  bool ended_ = false;
  std::condition_variable ending_;
  std::thread trimmer_;
};

}  // namespace warpconv
