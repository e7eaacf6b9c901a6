#pragma once

#include <array>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "cuda/host/device.h"
#include "status.h"

namespace warpconv::cuda {

/** Device memory, by a number that no other has: an address may come again once memory is given back. */
struct Block {
  DeviceMemory memory;
  uint64_t number = 0;
};

/**
 * Where the runs of a network's programs keep their tensors, as large as the largest of them needs. There is one arena,
 * since the kernels of a queue run one after another, and two sets of ports, the inputs and outputs, so that the copies
 * of one run overlap with the kernels of another; a third run waits. Any thread may call it.
 */
class Scratch {
 public:
  static constexpr size_t kPorts = 2;

  /** What a program's runs need. */
  struct Bytes {
    int64_t arena = 0, ports = 0;
  };

  /** A run's memory, which stays where it is for as long as this lives. Given back once the run's work is done. */
  class Lease {
   public:
    Lease(Lease&& other) noexcept
        : scratch_(std::exchange(other.scratch_, nullptr)),
          arena_(std::move(other.arena_)),
          ports_(std::move(other.ports_)),
          set_(other.set_),
          isAlone_(other.isAlone_) {}
    Lease(const Lease&) = delete;
    Lease& operator=(const Lease&) = delete;
    Lease& operator=(Lease&&) = delete;
    ~Lease();

    const Block& arena() const { return *arena_; }
    const Block& ports() const { return *ports_; }
    /** Which of the sets of ports */
    size_t set() const { return set_; }
    /** Whether no other run had a set when this one was taken */
    bool isAlone() const { return isAlone_; }

   private:
    friend class Scratch;
    Lease(Scratch& scratch, std::shared_ptr<const Block> arena, std::shared_ptr<const Block> ports, size_t set,
          bool isAlone)
        : scratch_(&scratch), arena_(std::move(arena)), ports_(std::move(ports)), set_(set), isAlone_(isAlone) {}

    Scratch* scratch_;
    std::shared_ptr<const Block> arena_, ports_;
    size_t set_;
    bool isAlone_;
  };

  explicit Scratch(Device& device) : device_(device) {}

  /** Waits for a set of ports. Fails with `outOfMemory` where the device has not so much, even while nobody else runs. */
  Result<Lease> take(const Bytes& bytes);
  /** Gives back what no run has. */
  void trim();
  int64_t bytes() const;

 private:
  using Shared = std::shared_ptr<const Block>;

  /** Makes it larger if it is too small. What is there goes first, unless a run has it, too. With the mutex held. */
  Status grow(Shared& block, int64_t bytes);
  Status growAll(const Bytes& bytes, size_t set);
  void giveBack(Lease& lease);

  Device& device_;
  mutable std::mutex mutex_;
  std::condition_variable returned_;
  Shared arena_;
  std::array<Shared, kPorts> ports_;
  /** Sets that no run has; the last one is taken next, so that runs one after the other have the same */
  std::vector<size_t> spare_{1, 0};
  /** Somebody waits for all others to give back what they have. */
  bool isClearing_ = false;
};

}  // namespace warpconv::cuda
