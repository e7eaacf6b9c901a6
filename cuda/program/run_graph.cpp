#include "cuda/program/run_graph.h"

#include <utility>

#include "cuda/host/cuda_status.h"
#include "cuda/host/device.h"
#include "divide.h"

namespace warpconv::cuda {

std::shared_ptr<RunGraph> RunGraph::captured(const Ports& ports, const Enqueue& enqueue, cudaStream_t stream) {
  const std::shared_ptr<RunGraph> made(new RunGraph);
  if (!toStatus(cudaEventCreateWithFlags(&made->ended_, kEventFlags), "creating an event").isOk()) return nullptr;
  const auto all = [&] {
    if (Status status = made->enqueueInputs(ports, stream); !status.isOk()) return status;
    if (Status status = enqueue(); !status.isOk()) return status;
    return made->enqueueOutputs(ports, stream);
  };
  made->graph_ = Graph::captured(all, stream);
  if (!made->graph_.isGiven()) return nullptr;
  (void)made->graph_.upload(stream);
  return made;
}

RunGraph::~RunGraph() {
  // A lost context takes it along.
  if (ended_ != nullptr && contextStatus().isOk()) (void)cudaEventDestroy(ended_);
}

Status RunGraph::enqueueInputs(const Ports& ports, cudaStream_t stream) {
  for (const Port& port : ports.inputs) {
    // From any memory of the device: a launch says where from.
    Copy& copy = inputs_.emplace_back(Copy{cudaMemcpyDeviceToDevice, nullptr, port.address, port.address, port.bytes});
    if (Status status = enqueue(copy, stream); !status.isOk()) return status;
  }
  return {};
}

Status RunGraph::enqueueOutputs(const Ports& ports, cudaStream_t stream) {
  int64_t end = 0;
  for (const Port& port : ports.outputs) {
    Output& output = outputs_.emplace_back();
    output.within = {cudaMemcpyDeviceToDevice, nullptr, port.address, port.address, port.bytes};
    if (Status status = enqueue(output.within, stream); !status.isOk()) return status;
    const int64_t begin = std::exchange(end, end + roundUp(port.bytes, DeviceMemory::kAlignment));
    if (ports.landing == nullptr || end > ports.landingBytes) continue;
    output.landing = ports.landing + begin;
    output.toHost = {cudaMemcpyDeviceToHost, nullptr, port.address, ports.landing + begin, port.bytes};
    if (Status status = enqueue(output.toHost, stream); !status.isOk()) return status;
  }
  return {};
}

Status RunGraph::enqueue(Copy& copy, cudaStream_t stream) {
  if (copy.bytes == 0) return {};
  const auto bytes = static_cast<size_t>(copy.bytes);
  const cudaError_t error = cudaMemcpyAsync(copy.to, copy.from, bytes, copy.kind, stream);
  if (Status status = toStatus(error, "capturing a copy"); !status.isOk()) return status;
  const Result<cudaGraphNode_t> node = Graph::lastNode(stream);
  if (!node.isOk()) return node.status();
  copy.node = node.value();
  return {};
}

Status RunGraph::set(Copy& copy, const void* from, void* to) {
  if (copy.node == nullptr) return {};
  const bool isWanted = from != nullptr && to != nullptr;
  if (isWanted && (copy.from != from || copy.to != to)) {
    if (Status status = graph_.setCopy(copy.node, from, to, copy.bytes, copy.kind); !status.isOk()) return status;
    copy.from = from, copy.to = to;
  }
  if (isWanted == copy.isEnabled) return {};
  Status status = graph_.enable(copy.node, isWanted);
  if (status.isOk()) copy.isEnabled = isWanted;
  return status;
}

Status RunGraph::bring(size_t input, const void* from) { return set(inputs_[input], from, inputs_[input].to); }

Status RunGraph::handOver(size_t output, void* to) {
  Copy& copy = outputs_[output].within;
  return set(copy, copy.from, to);
}

Status RunGraph::land(size_t output, bool isWanted) {
  Copy& copy = outputs_[output].toHost;
  return set(copy, isWanted ? copy.from : nullptr, copy.to);
}

Status RunGraph::launch(cudaStream_t stream) const {
  if (Status status = graph_.launch(stream); !status.isOk()) return status;
  return toStatus(cudaEventRecord(ended_, stream), "running a network");
}

}  // namespace warpconv::cuda
