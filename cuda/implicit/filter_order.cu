#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "cuda/implicit/filter_order.h"
#include "cuda/implicit/tile.h"

namespace warpconv::cuda::implicit {
namespace {

constexpr int kOrderThreads = 256;

/**
 * Channel of a row of a tile of filters, where pieces have `piece` channels: of each 4 * piece rows, row 8 j + 2 t + i
 * has channel piece * t + 2 j + i, so that a thread's sums are adjacent channels: see PiecePlace.
 */
__device__ inline int channelOf(int row, int piece) {
  const int group = 4 * piece, j = row % group / 8, t = row / 2 % 4, i = row % 2;
  return row / group * group + piece * t + 2 * j + i;
}

__device__ inline void encode(float value, FloatType type, uint16_t& bits) {
  bits = type == FloatType::bfloat16 ? __bfloat16_as_ushort(__float2bfloat16_rn(value))
                                     : __half_as_ushort(__float2half_rn(value));
}

/** TF32, to the nearest, ties away from zero. Of a NaN it keeps bits that products may not read: they would find
 * infinity. */
__device__ inline void encode(float value, FloatType, uint32_t& bits) {
  constexpr uint32_t kNaN = 0x7fffffff;
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(bits) : "f"(value));
  if (isnan(value)) bits = kNaN;
}

/**
 * Thread i owns element i of the ordered filters: chunk by chunk, row by row, 128 bytes of channels of a tap each,
 * whose pieces of 16 bytes are exchanged as the copy engine would: piece u of row r lies at u ^ r % 8.
 */
template <typename Bits>
__global__ void __launch_bounds__(kOrderThreads)
    filterOrderKernel(Shape x, FloatType type, int rows, int channelChunks, int64_t elements, const float* filter,
                      Bits* ordered) {
  constexpr int kChunk = kRowBytes / sizeof(Bits), kPiece = kPieceBytes / sizeof(Bits);
  const int64_t i = blockIdx.x * int64_t{kOrderThreads} + threadIdx.x;
  if (i >= elements) return;
  const int row = static_cast<int>(i / kChunk % rows);
  const int chunk = static_cast<int>(i / kChunk / rows);
  const int place = static_cast<int>(i % kChunk);
  const int c = chunk % channelChunks * kChunk + ((place / kPiece) ^ (row % 8)) * kPiece + place % kPiece;
  const int tap = chunk / channelChunks, k = channelOf(row, kPiece);
  const bool exists = k < x.k && c < x.c;
  encode(exists ? filter[(int64_t{k} * x.c + c) * x.r * x.s + tap] : 0.0f, type, ordered[i]);
}

template <typename Bits>
cudaError_t launch(const Shape& shape, FloatType type, int rows, int channelChunks, const float* filter, void* ordered,
                   cudaStream_t stream) {
  const int64_t elements =
      int64_t{rows} * channelChunks * shape.r * shape.s * (kRowBytes / static_cast<int>(sizeof(Bits)));
  const auto blocks = static_cast<unsigned>((elements + kOrderThreads - 1) / kOrderThreads);
  filterOrderKernel<<<blocks, kOrderThreads, 0, stream>>>(shape, type, rows, channelChunks, elements, filter,
                                                          static_cast<Bits*>(ordered));
  return cudaGetLastError();
}

}  // namespace

cudaError_t launchFilterOrder(const Shape& shape, FloatType type, int rows, int channelChunks, const float* filter,
                              void* ordered, cudaStream_t stream) {
  const auto enqueue = type == FloatType::float32 ? launch<uint32_t> : launch<uint16_t>;
  return enqueue(shape, type, rows, channelChunks, filter, ordered, stream);
}

}  // namespace warpconv::cuda::implicit
