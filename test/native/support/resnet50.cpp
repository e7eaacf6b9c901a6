#include "support/resnet50.h"

namespace warpconv::test {
namespace {

ConvProblem layer(int64_t batch, int64_t channels, int64_t extent, int64_t filters, int64_t window, int64_t stride) {
  ConvRequest request;
  request.inputDims = {batch, channels, extent, extent};
  request.weightDims = {filters, channels, window, window};
  request.stride = {stride, stride};
  request.padding = {window / 2, window / 2, window / 2, window / 2};
  return makeConvProblem(request).value();
}

}  // namespace

std::vector<ConvProblem> ResNet50::convolutions() const {
  std::vector<ConvProblem> all{stem};
  for (const Bottleneck& block : blocks) {
    all.insert(all.end(), {block.reduce, block.spatial, block.expand});
    all.insert(all.end(), block.projection.begin(), block.projection.end());
  }
  return all;
}

ResNet50 resNet50(int64_t batch) {
  ResNet50 network{layer(batch, 3, 224, 64, 7, 2), {}};
  int64_t channels = 64, extent = 56, width = 64;
  for (const int blocks : {3, 4, 6, 3}) {
    for (int i = 0; i < blocks; ++i) {
      const int64_t stride = i == 0 && width > 64 ? 2 : 1, smaller = extent / stride;
      Bottleneck block{layer(batch, channels, extent, width, 1, 1),
                       layer(batch, width, extent, width, 3, stride),
                       layer(batch, width, smaller, 4 * width, 1, 1),
                       {}};
      if (i == 0) block.projection = {layer(batch, channels, extent, 4 * width, 1, stride)};
      network.blocks.push_back(block);
      channels = 4 * width, extent = smaller;
    }
    width *= 2;
  }
  return network;
}

}  // namespace warpconv::test
