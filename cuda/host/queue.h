#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>

#include "cuda/host/device.h"
#include "memory/host_bytes.h"
#include "status.h"

typedef struct CUevent_st* cudaEvent_t;

namespace warpconv::cuda {

/**
 * Page-locked memory between a host tensor and the device, in two halves: while the copy engine works on one, the
 * processor fills or empties the other.
 */
class Staging {
 public:
  Staging() = default;
  Staging(const Staging&) = delete;
  Staging& operator=(const Staging&) = delete;
  ~Staging();

  /** Returns when `from` is free again; the copy itself is ordered on `stream`. */
  Status upload(const void* from, void* to, int64_t bytes, cudaStream_t stream);
  /** Returns when `to` is complete. */
  Status download(const void* from, void* to, int64_t bytes, cudaStream_t stream);

 private:
  struct Half {
    char* data = nullptr;
    /** The copy engine is done with it */
    cudaEvent_t free = nullptr;
  };
  /** Not before the first copy: many environments never make one. */
  Status open();

  std::array<Half, 2> halves_;
  /** Of uploads: the next takes the other half than the last, across calls, whose copy may still run. */
  size_t turn_ = 0;
};

/**
 * What one JavaScript environment has enqueued on one device: a stream each for uploads, kernels and downloads, so that
 * the copies of one call overlap with the kernels of another. Kernels of one queue run in the order they were enqueued,
 * which lets a plan have one workspace. All of it may be called from any thread.
 */
class Queue {
 public:
  static Result<std::shared_ptr<Queue>> create(Device& device);
  Queue(const Queue&) = delete;
  Queue& operator=(const Queue&) = delete;
  /** Waits for what is enqueued. */
  ~Queue();

  Device& device() const { return device_; }

  /** Kernels enqueued from now on see the data. Returns when `from` is free again. */
  Status upload(const void* from, void* to, int64_t bytes);
  Status upload(const void* from, const DeviceMemory& to) { return upload(from, to.data(), to.bytes()); }
  /** The same for pieces, one after the other. */
  Status upload(std::span<const HostBytes> parts, void* to);
  /** The same, and returns when all of it is there, so that the memory may go. */
  Status uploadAll(const void* from, void* to, int64_t bytes);
  Status uploadAll(const void* from, const DeviceMemory& to) { return uploadAll(from, to.data(), to.bytes()); }
  /** Waits for the kernels enqueued so far, then for the copy. */
  Status download(const void* from, void* to, int64_t bytes);
  Status download(const DeviceMemory& from, void* to) { return download(from.data(), to, from.bytes()); }
  /** The same, without waiting for kernels: those that write `from` must have ended. */
  Status fetch(const void* from, void* to, int64_t bytes);
  /** Calls `enqueue(stream)` while nobody else enqueues kernels. */
  Status compute(const std::function<Status(cudaStream_t)>& enqueue);
  /** Waits for the kernels enqueued so far, and says whether they went well. */
  Status wait();
  /** Calls `done`, on a thread of the driver, when the kernels enqueued so far have ended, well or not. */
  Status whenDone(std::function<void(Status)> done);

 private:
  explicit Queue(Device& device) : device_(device) {}
  Status open();
  /** While uploading_ is held. */
  Status beginUpload(const void* from, void* to, int64_t bytes);
  Status orderAfterUploads();
  /** While downloading_ is held. */
  Status copyDown(const void* from, void* to, int64_t bytes);
  /** To or from pinned memory, without staging. Returns when it is done. */
  static Status copyPinned(const void* from, void* to, int64_t bytes, cudaStream_t stream, cudaEvent_t done);

  Device& device_;
  std::mutex computing_;
  std::mutex uploading_;
  std::mutex downloading_;
  cudaStream_t compute_ = nullptr;
  cudaStream_t upload_ = nullptr;
  cudaStream_t download_ = nullptr;
  cudaEvent_t uploaded_ = nullptr;
  cudaEvent_t computed_ = nullptr;
  cudaEvent_t downloaded_ = nullptr;
  Staging up_;
  Staging down_;
};

}  // namespace warpconv::cuda
