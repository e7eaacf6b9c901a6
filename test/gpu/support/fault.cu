#include <cstdint>

#include "support/fault.h"

namespace warpconv::test {
namespace {

__global__ void writeTo(uintptr_t address) { *reinterpret_cast<volatile float*>(address) = 1.0f; }

}  // namespace

void enqueueFault(cudaStream_t stream) { writeTo<<<1, 1, 0, stream>>>(uintptr_t{16}); }

}  // namespace warpconv::test
