#include <cstdint>

#include "cuda/host/cuda_status.h"
#include "cuda/host/gpu_weights.h"
#include "cuda/shuffle/launches.h"
#include "cuda/shuffle/shuffle.h"

namespace warpconv::cuda {
namespace {

/** The widest access that every row of `width` elements takes, in a tensor that starts at `data`. */
int accessWidth(const float* data, int width) {
  const auto address = reinterpret_cast<uintptr_t>(data);
  for (const int elements : {4, 2}) {
    if (width % elements == 0 && address % (elements * sizeof(float)) == 0) return elements;
  }
  return 1;
}

class Shuffle final : public GpuConvolution {
 public:
  Shuffle(const GpuRequest& request, std::shared_ptr<const DeviceFilters> filters, const float* bias)
      : shape_(shapeOf(request.problem)),
        plan_(planShuffle(request)),
        overlaps_(shouldOverlap(request.traits.computeCapability, plan_.blocks,
                                plan_.blocksResident * request.traits.multiprocessors)),
        activation_(request.activation),
        filters_(std::move(filters)),
        bias_(bias) {}

  Status enqueue(const GpuTensors& given, void*, cudaStream_t stream) const override {
    const FloatTensors tensors = floatsOf(given);
    // Blocks of `planes` take maps as one long row, whose length is a multiple of four floats.
    const bool flat = plan_.form == ShuffleForm::planes;
    const ShuffleCall call{shape_,
                           plan_,
                           tensors,
                           filters_->floats(),
                           {bias_, tensors.residual, activation_},
                           accessWidth(tensors.input, flat ? 4 : shape_.w),
                           accessWidth(tensors.output, flat ? 4 : shape_.q),
                           FastDivisor(plan_.lanes),
                           FastDivisor(plan_.segments),
                           FastDivisor(plan_.runs),
                           FastDivisor(shape_.k),
                           FastDivisor(shape_.groupOutputs),
                           overlaps_};
    return toStatus(launch(call, stream), "shuffle");
  }

 private:
  static cudaError_t launch(const ShuffleCall& call, cudaStream_t stream) {
    switch (call.plan.form) {
      case ShuffleForm::sliding: return launchSliding(call, stream);
      case ShuffleForm::blocked: return launchBlocked(call, stream);
      case ShuffleForm::wide: return launchWide(call, stream);
      case ShuffleForm::wideFilters: return launchWideFilters(call, stream);
      case ShuffleForm::dilated: return launchDilated(call, stream);
      case ShuffleForm::planes: return launchPlanes(call, stream);
    }
    return cudaErrorInvalidValue;
  }

  const Shape shape_;
  const ShufflePlan plan_;
  const bool overlaps_;
  const Activation activation_;
  const std::shared_ptr<const DeviceFilters> filters_;
  const float* const bias_;
};

}  // namespace

Result<std::unique_ptr<GpuConvolution>> prepareShuffle(const GpuRequest& request, const GpuWeights& weights) {
  auto filters = givenFilters(weights, request.problem);
  if (!filters.isOk()) return filters.status();
  return std::unique_ptr<GpuConvolution>(
      std::make_unique<Shuffle>(request, std::move(filters.value()), weights.bias));
}

}  // namespace warpconv::cuda
