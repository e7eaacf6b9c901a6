#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "cuda/implicit/filter_order.h"
#include "cuda/implicit/tile.h"

namespace warpconv::cuda::implicit {
namespace {

constexpr int kOrderThreads = 256;

/**
 * Channel of a row of a tile of filters: of each 32 rows, row 8 j + 2 t + i has channel 8 t + 2 j + i, so that a
 * thread's sums are adjacent channels: see OctetPlace.
 */
__device__ inline int channelOf(int row) {
  const int j = row / 8 % 4, t = row / 2 % 4, i = row % 2;
  return row / kFilterGroup * kFilterGroup + 8 * t + 2 * j + i;
}

__device__ inline uint16_t encoded(float value, FloatType type) {
  return type == FloatType::bfloat16 ? __bfloat16_as_ushort(__float2bfloat16_rn(value))
                                     : __half_as_ushort(__float2half_rn(value));
}

/**
 * Thread i owns element i of the ordered filters: chunk by chunk, row by row, 64 channels of a tap each, whose pieces
 * of 16 bytes are exchanged as the copy engine would: piece u of row r lies at u ^ r % 8.
 */
__global__ void __launch_bounds__(kOrderThreads)
    filterOrderKernel(Shape x, FloatType type, int rows, int channelChunks, int64_t elements, const float* filter,
                      uint16_t* ordered) {
  const int64_t i = blockIdx.x * int64_t{kOrderThreads} + threadIdx.x;
  if (i >= elements) return;
  const int row = static_cast<int>(i / kChunkChannels % rows);
  const int chunk = static_cast<int>(i / kChunkChannels / rows);
  const int place = static_cast<int>(i % kChunkChannels);
  const int c = chunk % channelChunks * kChunkChannels + ((place / 8) ^ (row % 8)) * 8 + place % 8;
  const int tap = chunk / channelChunks, k = channelOf(row);
  const bool exists = k < x.k && c < x.c;
  ordered[i] = encoded(exists ? filter[(int64_t{k} * x.c + c) * x.r * x.s + tap] : 0.0f, type);
}

}  // namespace

cudaError_t launchFilterOrder(const Shape& shape, FloatType type, int rows, int channelChunks, const float* filter,
                              void* ordered, cudaStream_t stream) {
  const int64_t elements = int64_t{rows} * channelChunks * shape.r * shape.s * kChunkChannels;
  const auto blocks = static_cast<unsigned>((elements + kOrderThreads - 1) / kOrderThreads);
  filterOrderKernel<<<blocks, kOrderThreads, 0, stream>>>(shape, type, rows, channelChunks, elements, filter,
                                                          static_cast<uint16_t*>(ordered));
  return cudaGetLastError();
}

}  // namespace warpconv::cuda::implicit
