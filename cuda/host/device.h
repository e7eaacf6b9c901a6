#pragma once

#include <atomic>
#include <cstdint>

#include "cuda/planning/traits.h"
#include "status.h"

// As the CUDA runtime's headers have them, which planners must do without.
typedef struct CUstream_st* cudaStream_t;
typedef struct CUmemPoolHandle_st* cudaMemPool_t;

namespace warpconv::cuda {

class Device;

inline int64_t floatBytes(int64_t count) { return count * int64_t{sizeof(float)}; }

/**
 * Memory of one device, from its pool. Freed at once: whoever lets go of it has seen the end of the work that uses it.
 * Each begins on a boundary of kAlignment bytes.
 */
class DeviceMemory {
 public:
  static constexpr int64_t kAlignment = 256;

  DeviceMemory() = default;
  DeviceMemory(DeviceMemory&& other) noexcept;
  DeviceMemory& operator=(DeviceMemory&& other) noexcept;
  ~DeviceMemory();

  float* floats() const { return static_cast<float*>(data_); }
  void* data() const { return data_; }
  int64_t bytes() const { return bytes_; }

 private:
  friend class Device;
  DeviceMemory(Device* device, void* data, int64_t bytes) : device_(device), data_(data), bytes_(bytes) {}

  Device* device_ = nullptr;
  void* data_ = nullptr;
  int64_t bytes_ = 0;
};

/**
 * One GPU as this process uses it: its primary context, shared by all threads, and one memory pool. Opened once and
 * kept until the process ends, which is when the driver frees what is left.
 */
class Device {
 public:
  /** The device of that number, the same object for every caller. Fails with `cuda` where it cannot be used. */
  static Result<Device*> open(int index);
  /** The one that CUDA calls of the calling thread go to. */
  static Result<Device*> current();
  /** Bytes in use on every device opened so far. */
  static int64_t bytesInUse(int index);

  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  int index() const { return index_; }
  const GpuTraits& traits() const { return traits_; }

  /** CUDA calls of the calling thread go to this device from now on. Fails for good once the context is lost. */
  Status makeCurrent() const;
  /** Fails with `outOfMemory`, after which the device is as usable as before. No bytes give null. */
  Result<DeviceMemory> allocate(int64_t bytes);

 private:
  friend class DeviceMemory;
  explicit Device(int index) : index_(index) {}
  Status initialise();
  void free(void* data, int64_t bytes);

  const int index_;
  GpuTraits traits_;
  cudaMemPool_t pool_ = nullptr;
  /** Carries allocations and frees alone, so that both are done as soon as they are asked for */
  cudaStream_t memoryStream_ = nullptr;
  std::atomic<int64_t> bytes_{0};
};

}  // namespace warpconv::cuda
