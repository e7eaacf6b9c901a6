#include "cuda/host/graph.h"

#include "cuda/host/cuda_status.h"

namespace warpconv::cuda {

void Graph::Destroy::operator()(cudaGraph_t graph) const {
  if (contextStatus().isOk()) (void)cudaGraphDestroy(graph);
}

void Graph::Destroy::operator()(cudaGraphExec_t graph) const {
  // A lost context takes it along; otherwise this fails only for what does not exist.
  if (contextStatus().isOk()) (void)cudaGraphExecDestroy(graph);
}

Graph Graph::captured(const Enqueue& enqueue, cudaStream_t stream) {
  if (!toStatus(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "capturing").isOk()) return {};
  bool taken = enqueue().isOk();
  cudaGraph_t made = nullptr;
  // Also where a call has failed: the stream must not stay in capture.
  taken = toStatus(cudaStreamEndCapture(stream, &made), "capturing").isOk() && taken;
  cudaGraphExec_t executable = nullptr;
  if (taken) (void)toStatus(cudaGraphInstantiate(&executable, made, 0), "making a graph");
  Graph graph;
  graph.made_.reset(made);
  graph.executable_.reset(executable);
  return graph;
}

Result<cudaGraphNode_t> Graph::lastNode(cudaStream_t stream) {
  cudaStreamCaptureStatus capture{};
  const cudaGraphNode_t* last = nullptr;
  size_t count = 0;
#if CUDART_VERSION >= 13000
  const cudaError_t error = cudaStreamGetCaptureInfo(stream, &capture, nullptr, nullptr, &last, nullptr, &count);
#else
  const cudaError_t error = cudaStreamGetCaptureInfo_v2(stream, &capture, nullptr, nullptr, &last, &count);
#endif
  if (Status status = toStatus(error, "capturing"); !status.isOk()) return status;
  if (count != 1) return Status{StatusCode::internal, "a captured stream goes on after several nodes, or none"};
  return *last;
}

Status Graph::setCopy(cudaGraphNode_t node, const void* from, void* to, int64_t bytes, cudaMemcpyKind kind) {
  const auto count = static_cast<size_t>(bytes);
  return toStatus(cudaGraphExecMemcpyNodeSetParams1D(executable_.get(), node, to, from, count, kind),
                  "addressing a copy of a graph");
}

Status Graph::enable(cudaGraphNode_t node, bool isEnabled) {
  return toStatus(cudaGraphNodeSetEnabled(executable_.get(), node, isEnabled ? 1 : 0), "changing a graph");
}

Status Graph::upload(cudaStream_t stream) const {
  return toStatus(cudaGraphUpload(executable_.get(), stream), "bringing a graph to the GPU");
}

Status Graph::launch(cudaStream_t stream) const {
  return toStatus(cudaGraphLaunch(executable_.get(), stream), "launching a graph");
}

}  // namespace warpconv::cuda
