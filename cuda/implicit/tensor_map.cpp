#include "cuda/implicit/tensor_map.h"

#include <cuda_runtime_api.h>

#include <string>

#include "cuda/host/cuda_status.h"

namespace warpconv::cuda::implicit {
namespace {

/** A function of the driver, or null where it has none. */
template <typename Function>
Function find(const char* name) {
  constexpr unsigned kSince = 12000;
  void* function = nullptr;
  cudaDriverEntryPointQueryResult found{};
  const cudaError_t error = cudaGetDriverEntryPointByVersion(name, &function, kSince, cudaEnableDefault, &found);
  return error == cudaSuccess && found == cudaDriverEntryPointSuccess ? reinterpret_cast<Function>(function) : nullptr;
}

/** Elements of float32 arrive as `wide`. */
CUtensorMapDataType mapType(FloatType type, CUtensorMapDataType wide) {
  if (type == FloatType::float32) return wide;
  return type == FloatType::bfloat16 ? CU_TENSOR_MAP_DATA_TYPE_BFLOAT16 : CU_TENSOR_MAP_DATA_TYPE_FLOAT16;
}

Status withoutMaps() { return {StatusCode::cuda, "the driver has no maps of tensors: update it to CUDA 12 or later"}; }

Status toStatus(CUresult result, const char* what) {
  if (result == CUDA_SUCCESS) return {};
  return {StatusCode::cuda, std::string("the driver refuses a map of ") + what + " (CUresult " +
                                std::to_string(static_cast<int>(result)) + ")"};
}

}  // namespace

Status mapWindows(const ConvProblem& x, const void* input, int channels, int pixels, CUtensorMap& map) {
  static const auto encode = find<decltype(&cuTensorMapEncodeIm2col)>("cuTensorMapEncodeIm2col");
  if (encode == nullptr) return withoutMaps();
  const auto wide = [](int64_t value) { return static_cast<cuuint64_t>(value); };
  const auto narrow = [](int64_t value) { return static_cast<int>(value); };
  const TensorFormat& format = x.format.input;
  const int64_t pixelBytes = (format.pitch == 0 ? x.c : format.pitch) * widthOf(format.type);
  // Axes from the innermost on
  const cuuint64_t extents[] = {wide(x.c), wide(x.w), wide(x.h), wide(x.n)};
  const cuuint64_t strides[] = {wide(pixelBytes), wide(pixelBytes * x.w), wide(pixelBytes * x.w * x.h)};
  // Where a first tap may be: in the padding, and no nearer to the end than the last tap lets it
  const int lower[] = {narrow(-x.padding.left), narrow(-x.padding.top)};
  const int upper[] = {narrow(x.padding.right - (x.s - 1) * x.dilation.w),
                       narrow(x.padding.bottom - (x.r - 1) * x.dilation.h)};
  const cuuint32_t steps[] = {1, static_cast<cuuint32_t>(x.stride.w), static_cast<cuuint32_t>(x.stride.h), 1};
  return toStatus(
      encode(&map, mapType(format.type, CU_TENSOR_MAP_DATA_TYPE_TFLOAT32), 4, const_cast<void*>(input), extents,
             strides, lower, upper, static_cast<cuuint32_t>(channels), static_cast<cuuint32_t>(pixels), steps,
             CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
             CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE),
      "windows");
}

Status mapBoxes(const PixelRows& rows, int64_t pitch, const void* tensor, int columns, CUtensorMap& map) {
  static const auto encode = find<decltype(&cuTensorMapEncodeTiled)>("cuTensorMapEncodeTiled");
  if (encode == nullptr) return withoutMaps();
  const cuuint64_t extents[] = {static_cast<cuuint64_t>(rows.channels), static_cast<cuuint64_t>(rows.pixels)};
  const cuuint64_t strides[] = {static_cast<cuuint64_t>(pitch * widthOf(rows.type))};
  const cuuint32_t box[] = {static_cast<cuuint32_t>(columns), 64}, steps[] = {1, 1};
  return toStatus(encode(&map, mapType(rows.type, CU_TENSOR_MAP_DATA_TYPE_FLOAT32), 2, const_cast<void*>(tensor),
                         extents, strides, box, steps, CU_TENSOR_MAP_INTERLEAVE_NONE,
                         columns * widthOf(rows.type) == 128 ? CU_TENSOR_MAP_SWIZZLE_128B : CU_TENSOR_MAP_SWIZZLE_64B,
                         CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE),
                  "outputs");
}

}  // namespace warpconv::cuda::implicit
