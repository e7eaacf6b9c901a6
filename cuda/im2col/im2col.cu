#include <algorithm>

#include "cuda/host/cuda_status.h"
#include "cuda/im2col/im2col.h"
#include "cuda/planning/shape.h"
#include "cuda/pointwise/pointwise.h"

namespace warpconv::cuda {
namespace {

constexpr int kIm2colThreads = 256;

/**
 * columns[n][(c * R + r) * S + s][p * Q + q] = input[n][c][p * strideH + r * dilationH - padTop][…], zero in the
 * padding. Block x covers kIm2colThreads pixels, block y one row of the matrix and goes on to the rows after gridDim.y.
 */
__global__ void __launch_bounds__(kIm2colThreads) im2colKernel(Shape x, const float* input, float* columns) {
  const int pixel = static_cast<int>(blockIdx.x) * kIm2colThreads + static_cast<int>(threadIdx.x);
  if (pixel >= x.p * x.q) return;
  const int p = pixel / x.q;
  const int q = pixel - p * x.q;
  for (int row = static_cast<int>(blockIdx.y); row < x.n * x.c * x.r * x.s; row += static_cast<int>(gridDim.y)) {
    const int s = row % x.s;
    const int r = row / x.s % x.r;
    const int map = row / (x.s * x.r);
    const int h = p * x.strideH + r * x.dilationH - x.padTop;
    const int w = q * x.strideW + s * x.dilationW - x.padLeft;
    const bool inside = h >= 0 && h < x.h && w >= 0 && w < x.w;
    columns[row * (x.p * x.q) + pixel] = inside ? input[(map * x.h + h) * x.w + w] : 0.0f;
  }
}

class Im2col final : public GpuConvolution {
 public:
  Im2col(const Shape& shape, int64_t matrixBytes, std::unique_ptr<GpuConvolution> product)
      : shape_(shape), matrixBytes_(matrixBytes), product_(std::move(product)) {}

  Status enqueue(const GpuTensors& tensors, void* workspace, cudaStream_t stream) const override {
    auto* columns = static_cast<float*>(workspace);
    if (Status status = launchIm2col(shape_, floatsOf(tensors).input, columns, stream); !status.isOk()) return status;
    return product_->enqueue({columns, tensors.residual, tensors.output}, static_cast<char*>(workspace) + matrixBytes_,
                             stream);
  }

  Status load(bool withResidual) const override { return product_->load(withResidual); }

 private:
  const Shape shape_;
  const int64_t matrixBytes_;
  const std::unique_ptr<GpuConvolution> product_;
};

}  // namespace

Status launchIm2col(const Shape& x, const float* input, float* columns, cudaStream_t stream) {
  constexpr int kMostRows = 65535;
  const int rows = std::min(kMostRows, x.n * x.c * x.r * x.s);
  const dim3 grid(static_cast<unsigned>((x.p * x.q + kIm2colThreads - 1) / kIm2colThreads),
                  static_cast<unsigned>(rows));
  im2colKernel<<<grid, kIm2colThreads, 0, stream>>>(x, input, columns);
  return launchStatus("im2col");
}

Result<std::unique_ptr<GpuConvolution>> prepareIm2col(const GpuRequest& request, const GpuWeights& weights) {
  const GpuRequest matrix = matrixProductOf(request);
  auto product = kPointwise.prepare(matrix, weights);
  if (!product.isOk()) return product;
  return std::unique_ptr<GpuConvolution>(
      std::make_unique<Im2col>(shapeOf(request.problem), columnBytes(matrix.problem), std::move(product.value())));
}

}  // namespace warpconv::cuda
