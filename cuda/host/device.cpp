#include "cuda/host/device.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <memory>
#include <mutex>
#include <utility>

#include "cuda/host/code_capability.h"
#include "cuda/host/cuda_status.h"

namespace warpconv::cuda {
namespace {

constexpr int kMostDevices = 64;

/** Devices are kept for good, so a registry without an order of destruction is enough. */
struct OpenDevices {
  /** Held while a device is opened, which takes seconds: reading must do without */
  std::mutex opening;
  std::array<std::atomic<Device*>, kMostDevices> devices{};
};

OpenDevices& openDevices() {
  static auto* const only = new OpenDevices;
  return *only;
}

int attribute(cudaDeviceAttr which, int device) {
  int value = 0;
  // An attribute that a driver does not know stays zero.
  if (cudaDeviceGetAttribute(&value, which, device) != cudaSuccess) (void)cudaGetLastError();
  return value;
}

/** FP32 lanes of one multiprocessor: 64 on Turing and GA100, 128 on the others from 8.6 on. */
int lanesPerMultiprocessor(int computeCapability) { return computeCapability <= 80 ? 64 : 128; }

GpuTraits traitsOf(int device, int codeCapability) {
  GpuTraits traits;
  const int computeCapability =
      10 * attribute(cudaDevAttrComputeCapabilityMajor, device) + attribute(cudaDevAttrComputeCapabilityMinor, device);
  traits.computeCapability = std::min(computeCapability, codeCapability);
  traits.multiprocessors = attribute(cudaDevAttrMultiProcessorCount, device);
  traits.registersPerMultiprocessor = attribute(cudaDevAttrMaxRegistersPerMultiprocessor, device);
  traits.sharedBytesPerMultiprocessor = attribute(cudaDevAttrMaxSharedMemoryPerMultiprocessor, device);
  traits.sharedBytesPerBlock = attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin, device);
  traits.l2Bytes = attribute(cudaDevAttrL2CacheSize, device);
  const double kilohertz = attribute(cudaDevAttrClockRate, device);
  const int lanes = lanesPerMultiprocessor(computeCapability);
  traits.flopsPerSecond = 2.0 * lanes * traits.multiprocessors * kilohertz * 1e3;
  // Two transfers a clock, over a bus counted in bits.
  traits.bytesPerSecond = 2.0 * attribute(cudaDevAttrMemoryClockRate, device) * 1e3 *
                          attribute(cudaDevAttrGlobalMemoryBusWidth, device) / 8;
  return withoutGaps(traits);
}

}  // namespace

DeviceMemory::DeviceMemory(DeviceMemory&& other) noexcept
    : device_(other.device_), data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}

DeviceMemory& DeviceMemory::operator=(DeviceMemory&& other) noexcept {
  std::swap(device_, other.device_);
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

DeviceMemory::~DeviceMemory() {
  if (data_ != nullptr) device_->free(data_, bytes_);
}

Result<Device*> Device::open(int index) {
  if (index < 0 || index >= kMostDevices) {
    return invalidArgument("device 'cuda:" + std::to_string(index) + "' is beyond the " + std::to_string(kMostDevices) +
                           " devices that a process may use");
  }
  const std::lock_guard lock(openDevices().opening);
  std::atomic<Device*>& slot = openDevices().devices[static_cast<size_t>(index)];
  if (Device* opened = slot; opened != nullptr) return opened;
  auto device = std::unique_ptr<Device>(new Device(index));
  if (Status status = device->initialise(); !status.isOk()) return status;
  slot = device.get();
  return device.release();
}

Result<Device*> Device::current() {
  int index = 0;
  if (Status status = toStatus(cudaGetDevice(&index), "asking for the device"); !status.isOk()) return status;
  return open(index);
}

int64_t Device::bytesInUse(int index) {
  const Device* device = openDevices().devices[static_cast<size_t>(index)];
  return device == nullptr ? 0 : device->bytes_.load();
}

Status Device::initialise() {
  if (Status status = makeCurrent(); !status.isOk()) return status;
  const Result<int> capability = codeCapability();
  if (!capability.isOk()) return capability.status();
  traits_ = traitsOf(index_, capability.value());
  if (Status status = toStatus(cudaDeviceGetDefaultMemPool(&pool_, index_), "finding the memory pool");
      !status.isOk()) {
    return status;
  }
  // Freed memory stays with the process for the next tensor, since asking the driver takes milliseconds, but not so
  // much of it that another process finds none.
  constexpr uint64_t kKeptShare = 16;
  size_t free = 0;
  size_t total = 0;
  if (Status status = toStatus(cudaMemGetInfo(&free, &total), "asking for the size of the memory"); !status.isOk()) {
    return status;
  }
  uint64_t keep = total / kKeptShare;
  if (Status status = toStatus(cudaMemPoolSetAttribute(pool_, cudaMemPoolAttrReleaseThreshold, &keep),
                               "setting up the memory pool");
      !status.isOk()) {
    return status;
  }
  return toStatus(cudaStreamCreateWithFlags(&memoryStream_, cudaStreamNonBlocking), "creating a stream");
}

Status Device::makeCurrent() const {
  if (Status status = contextStatus(); !status.isOk()) return status;
  return toStatus(cudaSetDevice(index_), "choosing the device");
}

Result<DeviceMemory> Device::allocate(int64_t bytes) {
  if (bytes == 0) return DeviceMemory();
  if (Status status = makeCurrent(); !status.isOk()) return status;
  void* data = nullptr;
  const std::string what = "allocating " + std::to_string(bytes) + " bytes on the GPU";
  cudaError_t error = cudaMallocFromPoolAsync(&data, static_cast<size_t>(bytes), pool_, memoryStream_);
  if (error == cudaSuccess) error = cudaStreamSynchronize(memoryStream_);
  if (error != cudaSuccess) {
    // The pool keeps what it had gathered before it gave up. Where that fails too, the first failure says more.
    (void)cudaMemPoolTrimTo(pool_, 0);
    return toStatus(error, what.c_str());
  }
  bytes_ += bytes;
  return DeviceMemory(this, data, bytes);
}

void Device::free(void* data, int64_t bytes) {
  bytes_ -= bytes;
  // It goes with a lost context.
  if (!contextStatus().isOk()) return;
  (void)cudaSetDevice(index_);
  (void)cudaFreeAsync(data, memoryStream_);
}

}  // namespace warpconv::cuda
