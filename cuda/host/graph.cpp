#include "cuda/host/graph.h"

#include "cuda/host/cuda_status.h"

namespace warpconv::cuda {

void Graph::Destroy::operator()(cudaGraphExec_t graph) const {
  // A lost context takes it along; otherwise this fails only for what does not exist.
  if (contextStatus().isOk()) (void)cudaGraphExecDestroy(graph);
}

Graph Graph::captured(const Enqueue& enqueue, cudaStream_t stream) {
  if (!toStatus(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "capturing").isOk()) return {};
  bool taken = enqueue().isOk();
  cudaGraph_t graph = nullptr;
  // Also where a call has failed: the stream must not stay in capture.
  taken = toStatus(cudaStreamEndCapture(stream, &graph), "capturing").isOk() && taken;
  cudaGraphExec_t executable = nullptr;
  if (taken) (void)toStatus(cudaGraphInstantiate(&executable, graph, 0), "making a graph");
  if (graph != nullptr) (void)cudaGraphDestroy(graph);
  return Graph(executable);
}

Status Graph::upload(cudaStream_t stream) const {
  return toStatus(cudaGraphUpload(executable_.get(), stream), "bringing a graph to the GPU");
}

Status Graph::launch(cudaStream_t stream) const {
  return toStatus(cudaGraphLaunch(executable_.get(), stream), "launching a graph");
}

}  // namespace warpconv::cuda
