#include "cuda/host/queue.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstring>

#include "cuda/host/cuda_status.h"
#include "cuda/host/pinned.h"
#include "cuda/host/waiting.h"

namespace warpconv::cuda {
namespace {

/** One half of a staging buffer: large enough for the copy engine's full rate, small enough to stay in a cache. */
constexpr int64_t kHalfBytes = int64_t{1} << 20;

/** Calls `body(offset, bytes, index)` for each piece of at most half a staging buffer, until one fails. */
template <typename Body>
Status forEachPiece(int64_t bytes, Body body) {
  int64_t index = 0;
  for (int64_t offset = 0; offset < bytes; offset += kHalfBytes, ++index) {
    Status status = body(offset, std::min(kHalfBytes, bytes - offset), static_cast<size_t>(index));
    if (!status.isOk()) return status;
  }
  return {};
}

/** The first failure of several calls, so that a sequence reads as one. */
class Sequence {
 public:
  explicit Sequence(const char* what) : what_(what) {}
  Sequence& operator<<(cudaError_t error) {
    if (error_ == cudaSuccess) error_ = error;
    return *this;
  }
  bool failed() const { return error_ != cudaSuccess; }
  Status status() const { return toStatus(error_, what_); }

 private:
  const char* what_;
  cudaError_t error_ = cudaSuccess;
};

}  // namespace

Staging::~Staging() {
  // A lost context takes all of it along.
  if (!contextStatus().isOk()) return;
  for (Half& half : halves_) {
    if (half.free != nullptr) (void)cudaEventDestroy(half.free);
    if (half.data != nullptr) (void)cudaFreeHost(half.data);
  }
}

Status Staging::open() {
  Sequence opening("allocating page-locked memory");
  for (Half& half : halves_) {
    if (half.data == nullptr) opening << cudaMallocHost(reinterpret_cast<void**>(&half.data), kHalfBytes);
    if (half.free == nullptr) opening << cudaEventCreateWithFlags(&half.free, kEventFlags);
  }
  return opening.status();
}

Status Staging::upload(const void* from, void* to, int64_t bytes, cudaStream_t stream) {
  if (Status status = open(); !status.isOk()) return status;
  return forEachPiece(bytes, [&](int64_t offset, int64_t count, size_t) {
    const Half& half = halves_[turn_++ % 2];
    Sequence copying("copying to the GPU");
    copying << waitFor(half.free);
    if (copying.failed()) return copying.status();
    std::memcpy(half.data, static_cast<const char*>(from) + offset, static_cast<size_t>(count));
    copying << cudaMemcpyAsync(static_cast<char*>(to) + offset, half.data, static_cast<size_t>(count),
                               cudaMemcpyHostToDevice, stream);
    copying << cudaEventRecord(half.free, stream);
    return copying.status();
  });
}

Status Staging::download(const void* from, void* to, int64_t bytes, cudaStream_t stream) {
  if (Status status = open(); !status.isOk()) return status;
  const auto fetch = [&](int64_t offset, int64_t count, size_t index) {
    const Half& half = halves_[index % 2];
    Sequence copying("copying from the GPU");
    copying << cudaMemcpyAsync(half.data, static_cast<const char*>(from) + offset, static_cast<size_t>(count),
                               cudaMemcpyDeviceToHost, stream);
    copying << cudaEventRecord(half.free, stream);
    return copying.status();
  };
  const auto fetchAfter = [&](int64_t offset) {
    const int64_t next = offset + kHalfBytes;
    if (next >= bytes) return Status{};
    return fetch(next, std::min(kHalfBytes, bytes - next), static_cast<size_t>(next / kHalfBytes));
  };
  if (bytes == 0) return {};
  if (Status status = fetch(0, std::min(kHalfBytes, bytes), 0); !status.isOk()) return status;
  return forEachPiece(bytes, [&](int64_t offset, int64_t count, size_t index) {
    if (Status status = fetchAfter(offset); !status.isOk()) return status;
    const Half& half = halves_[index % 2];
    if (Status status = toStatus(waitFor(half.free), "copying from the GPU"); !status.isOk()) return status;
    std::memcpy(static_cast<char*>(to) + offset, half.data, static_cast<size_t>(count));
    return Status{};
  });
}

Result<std::shared_ptr<Queue>> Queue::create(Device& device) {
  if (Status status = device.makeCurrent(); !status.isOk()) return status;
  const std::shared_ptr<Queue> queue(new Queue(device));
  if (Status status = queue->open(); !status.isOk()) return status;
  return queue;
}

Status Queue::open() {
  Sequence opening("creating the streams of a queue");
  for (cudaStream_t* stream : {&compute_, &upload_, &download_}) {
    opening << cudaStreamCreateWithFlags(stream, cudaStreamNonBlocking);
  }
  for (cudaEvent_t* event : {&uploaded_, &computed_, &downloaded_})
    opening << cudaEventCreateWithFlags(event, kEventFlags);
  return opening.status();
}

Queue::~Queue() {
  // A lost context has nothing to wait for, and takes streams and events along.
  if (!contextStatus().isOk()) return;
  (void)device_.makeCurrent();
  for (cudaStream_t stream : {compute_, upload_, download_}) {
    if (stream == nullptr) continue;
    (void)cudaStreamSynchronize(stream);
    (void)cudaStreamDestroy(stream);
  }
  for (cudaEvent_t event : {uploaded_, computed_, downloaded_}) {
    if (event != nullptr) (void)cudaEventDestroy(event);
  }
}

Status Queue::copyPinned(const void* from, void* to, int64_t bytes, cudaStream_t stream, cudaEvent_t done) {
  Sequence copying("copying between pinned memory and the GPU");
  copying << cudaMemcpyAsync(to, from, static_cast<size_t>(bytes), cudaMemcpyDefault, stream);
  if (!copying.failed()) copying << cudaEventRecord(done, stream) << waitFor(done);
  return copying.status();
}

Status Queue::upload(const void* from, void* to, int64_t bytes) {
  const std::lock_guard lock(uploading_);
  return beginUpload(from, to, bytes);
}

Status Queue::upload(std::span<const HostBytes> parts, void* to) {
  const std::lock_guard lock(uploading_);
  if (Status status = device_.makeCurrent(); !status.isOk()) return status;
  char* end = static_cast<char*>(to);
  bool isRead = false;
  Status copied;
  for (const HostBytes& part : parts) {
    const bool isDirect = isPinned(part.data, part.bytes);
    copied = isDirect ? toStatus(cudaMemcpyAsync(end, part.data, static_cast<size_t>(part.bytes),
                                                 cudaMemcpyHostToDevice, upload_),
                                 "copying from pinned memory to the GPU")
                      : up_.upload(part.data, end, part.bytes, upload_);
    isRead = isRead || isDirect;
    if (!copied.isOk()) break;
    end += part.bytes;
  }
  const Status ordered = orderAfterUploads();
  // What is pinned is read in place: also where another piece failed, its memory is free only after that.
  const Status ended = isRead ? toStatus(waitFor(uploaded_), "copying from pinned memory to the GPU") : Status{};
  for (const Status& status : {copied, ordered, ended}) {
    if (!status.isOk()) return status;
  }
  return {};
}

Status Queue::uploadAll(const void* from, void* to, int64_t bytes) {
  const std::lock_guard lock(uploading_);
  const Status begun = beginUpload(from, to, bytes);
  // Some of it may be under way where another part failed.
  const Status ended = toStatus(cudaStreamSynchronize(upload_), "copying to the GPU");
  return begun.isOk() ? ended : begun;
}

Status Queue::beginUpload(const void* from, void* to, int64_t bytes) {
  if (Status status = device_.makeCurrent(); !status.isOk()) return status;
  const Status copied = isPinned(from, bytes) ? copyPinned(from, to, bytes, upload_, uploaded_)
                                              : up_.upload(from, to, bytes, upload_);
  return copied.isOk() ? orderAfterUploads() : copied;
}

Status Queue::orderAfterUploads() {
  Sequence ordering("ordering kernels after a copy");
  ordering << cudaEventRecord(uploaded_, upload_) << cudaStreamWaitEvent(compute_, uploaded_, 0);
  return ordering.status();
}

Status Queue::download(const void* from, void* to, int64_t bytes) {
  const std::lock_guard lock(downloading_);
  if (Status status = device_.makeCurrent(); !status.isOk()) return status;
  Sequence ordering("ordering a copy after kernels");
  ordering << cudaEventRecord(computed_, compute_) << cudaStreamWaitEvent(download_, computed_, 0);
  return ordering.failed() ? ordering.status() : copyDown(from, to, bytes);
}

Status Queue::fetch(const void* from, void* to, int64_t bytes) {
  const std::lock_guard lock(downloading_);
  if (Status status = device_.makeCurrent(); !status.isOk()) return status;
  return copyDown(from, to, bytes);
}

Status Queue::copyDown(const void* from, void* to, int64_t bytes) {
  return isPinned(to, bytes) ? copyPinned(from, to, bytes, download_, downloaded_)
                             : down_.download(from, to, bytes, download_);
}

Status Queue::compute(const std::function<Status(cudaStream_t)>& enqueue) {
  const std::lock_guard lock(computing_);
  if (Status status = device_.makeCurrent(); !status.isOk()) return status;
  return enqueue(compute_);
}

Status Queue::wait() {
  if (Status status = device_.makeCurrent(); !status.isOk()) return status;
  cudaEvent_t ended = nullptr;
  Sequence waiting("running kernels");
  waiting << cudaEventCreateWithFlags(&ended, kEventFlags);
  if (waiting.failed()) return waiting.status();
  waiting << cudaEventRecord(ended, compute_) << waitFor(ended) << cudaEventDestroy(ended);
  return waiting.status();
}

Status Queue::whenDone(std::function<void(Status)> done) {
  if (Status status = device_.makeCurrent(); !status.isOk()) return status;
  auto held = std::make_unique<std::function<void(Status)>>(std::move(done));
  // Not cudaLaunchHostFunc: it says nothing after a failure, and its callback would never come.
  const auto call = [](cudaStream_t, cudaError_t error, void* data) {
    const std::unique_ptr<std::function<void(Status)>> callback(static_cast<std::function<void(Status)>*>(data));
    (*callback)(describeError(error, "running kernels"));
  };
  const Status status =
      toStatus(cudaStreamAddCallback(compute_, call, held.get(), 0), "asking to be told when kernels end");
  if (status.isOk()) (void)held.release();
  return status;
}

}  // namespace warpconv::cuda
