#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <vector>

#include "cuda/device.h"
#include "cuda/graph.h"

namespace warpconv::cuda {

/** Where one run has its inputs and outputs, at addresses that its graph has, too. */
struct Ports {
  std::vector<DeviceMemory> inputs, outputs;
  std::vector<const void*> inputAddresses;
  std::vector<void*> outputAddresses;
  DeviceMemory wrongIndices;
  bool hasRun = false;
  bool hasCaptured = false;
  Graph graph;
};

/** What runs take and give back; who finds none waits. */
class PortsPool {
 public:
  /** Gives back what it has taken. */
  class Lease {
   public:
    Lease(PortsPool& pool, Ports& ports) : pool_(pool), ports_(ports) {}
    Lease(const Lease&) = delete;
    Lease& operator=(const Lease&) = delete;
    ~Lease() { pool_.giveBack(ports_); }
    Ports& operator*() const { return ports_; }

   private:
    PortsPool& pool_;
    Ports& ports_;
  };

  void add(std::unique_ptr<Ports> ports) {
    spare_.push_back(ports.get());
    all_.push_back(std::move(ports));
  }
  Lease take() {
    std::unique_lock lock(mutex_);
    returned_.wait(lock, [this] { return !spare_.empty(); });
    Ports* const ports = spare_.back();
    spare_.pop_back();
    return {*this, *ports};
  }

 private:
  void giveBack(Ports& ports) {
    {
      const std::lock_guard lock(mutex_);
      spare_.push_back(&ports);
    }
    returned_.notify_one();
  }

  std::mutex mutex_;
  std::condition_variable returned_;
  std::vector<std::unique_ptr<Ports>> all_;
  std::vector<Ports*> spare_;
};

}  // namespace warpconv::cuda
