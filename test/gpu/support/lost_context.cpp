#include "support/lost_context.h"

#include <condition_variable>
#include <cstdio>
#include <mutex>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "cuda/host/resident.h"
#include "gpu/gpu.h"
#include "support/fault.h"

namespace warpconv::test {
namespace {

int64_t floatBytes(int64_t count) { return count * static_cast<int64_t>(sizeof(float)); }

void require(bool condition, std::string_view what) {
  if (!condition) throw std::runtime_error(std::string(what));
}

template <typename T>
T valueOf(Result<T> result) {
  require(result.isOk(), result.isOk() ? "" : result.status().message());
  return std::move(result.value());
}

void requireSaid(const char* call, const Status& status) {
  const std::string said = std::string(call) + " says: " + std::string(status.message());
  require(status.code() == StatusCode::cuda, said);
  require(said.find("the GPU context of this process") != std::string::npos, said);
  require(said.find("restart the process, or use device 'cpu'") != std::string::npos, said);
}

void requireLost(const char* call, const Status& status) {
  requireSaid(call, status);
  require(status.cudaError() == "cudaErrorIllegalAddress", std::string(call) + " fails with " + status.cudaError());
}

template <typename T>
void requireLost(const char* call, const Result<T>& result) {
  requireLost(call, result.isOk() ? Status() : result.status());
}

/** How calls ended, as they tell it on other threads. */
class Endings {
 public:
  void add(Status status) {
    const std::lock_guard lock(mutex_);
    all_.push_back(std::move(status));
    changed_.notify_one();
  }
  std::vector<Status> await(size_t count) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return all_.size() == count; });
    return all_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Status> all_;
};

ConvProblem smallProblem() {
  ConvRequest request;
  request.inputDims = {1, 4, 32, 32};
  request.weightDims = {4, 4, 3, 3};
  return valueOf(makeConvProblem(request));
}

void faultWithCallsInFlight() {
  const ConvProblem x = smallProblem();
  std::vector<float> host(static_cast<size_t>(x.inputSize()), 1.0f);
  const auto gpu = valueOf(openGpu(0));
  cuda::Device& device = *valueOf(cuda::Device::open(0));
  const auto queue = valueOf(cuda::Queue::create(device));
  const auto convolution = valueOf(cuda::ResidentConvolution::prepare(
      queue, cuda::gpuAlgorithms().back(), {x, {}, "", device.traits()}, host.data(), nullptr));
  const auto resident = [&](int64_t count) {
    auto memory = valueOf(device.allocate(floatBytes(count)));
    return Operand{nullptr, std::make_shared<const cuda::ResidentMemory>(std::move(memory), 0)};
  };
  const Operands operands{resident(x.inputSize()), {}, resident(x.outputSize())};
  const auto memory = valueOf(gpu->allocate(floatBytes(x.inputSize())));
  require(gpu->upload(host.data(), *memory).isOk(), "uploading before the fault");

  Endings endings;
  size_t begun = 0;
  const auto enqueueSome = [&] {
    for (int call = 0; call < 20; ++call) {
      const Status status = convolution->enqueue(operands, [&](Status ended) { endings.add(std::move(ended)); });
      if (status.isOk()) ++begun;
      if (!status.isOk()) requireLost("enqueueing", status);
    }
  };
  enqueueSome();
  const Status fault = queue->compute([](cudaStream_t stream) {
    enqueueFault(stream);
    return Status{};
  });
  require(fault.isOk(), fault.message());
  enqueueSome();
  requireLost("waiting for the fault", queue->wait());
  for (const Status& ended : endings.await(begun)) {
    // Those before the fault may have ended well; what the driver tells the others is its own choice.
    if (!ended.isOk()) requireSaid("a call in flight", ended);
  }

  requireLost("waiting", queue->wait());
  requireLost("enqueueing", convolution->enqueue(operands, [](Status) {}));
  requireLost("uploading", gpu->upload(host.data(), *memory));
  requireLost("downloading", gpu->download(*memory, host.data()));
  requireLost("allocating", gpu->allocate(1000));
  requireLost("running", convolution->run({{host.data(), nullptr}, {}, {host.data(), nullptr}}, nullptr));
  requireLost("opening", openGpu(0));
}

}  // namespace

int loseContext() {
  try {
    faultWithCallsInFlight();
    require(cuda::Device::bytesInUse(0) == 0, "memory is still counted");
    return 0;
  } catch (const std::runtime_error& error) {
    std::printf("%s\n", error.what());
    return 1;
  }
}

}  // namespace warpconv::test
