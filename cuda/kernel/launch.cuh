#pragma once

#include <cuda_runtime.h>

namespace warpconv::cuda {

// Programmatic dependent launch: a kernel may take its place on the device while those before it run to their end. It
// must then wait itself before it touches a tensor. Both halves are compiled for compute capability 9.0 and later.

/**
 * The next kernel of the stream may begin once all blocks have called this or are done. Not before
 * waitForKernelsBefore, in kernels that were launched to overlap, nor before a kernel has read what it writes itself:
 * then the first cache of a multiprocessor could hold for the next kernel what was read there after that had begun, and
 * has been overwritten since. What this kernel does not write, a residual for example, may be read later, too: the next
 * one waits before it writes anything.
 */
__device__ inline void letNextKernelBegin() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

/** Until all that the kernels before have written can be read, and all that they read can be written. */
__device__ inline void waitForKernelsBefore() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

/** A branch, which the compiler moves no instruction past. Harmless should it ever be taken. */
__device__ inline void branchRarely(unsigned value) {
  if (value == 0x5bd1e995) asm volatile("nanosleep.u32 1;");
}

/**
 * letNextKernelBegin right here. By itself it becomes one of the last instructions before the next branch, and may come
 * behind the first that wait for what was loaded. `arguments`: what bringArguments gave, whose condition this shares.
 * On an H100, pw_56_24_144 took 2.20 us by it instead of 2.42, by BF16's rows with 48 filters.
 */
__device__ inline void letNextKernelBeginNow(unsigned arguments) {
  letNextKernelBegin();
  branchRarely(arguments);
}

/**
 * Reads each line of a kernel's arguments, which a launch begins with in no cache of constants. As the kernel before
 * still runs that costs nothing; a line that is read for the first time later is waited for then. It took 2 to 4 % from
 * most 1x1 layers at batch 1 on an H100, nothing from depthwise ones, and added to those of halo, whose blocks begin
 * late.
 */
template <typename Arguments>
__device__ inline unsigned bringArguments(const Arguments& x) {
  const auto* const words = reinterpret_cast<const unsigned*>(&x);
  unsigned all = 0;
#pragma unroll
  for (size_t i = 0; i < sizeof(x) / sizeof(*words); i += 64 / sizeof(*words)) all ^= words[i];
  // For the compiler to leave the reads
  branchRarely(all);
  return all;
}

struct Launch {
  unsigned blocks, threads;
  /** Of dynamic shared memory */
  int sharedBytes = 0;
  /** Only for kernels that call waitForKernelsBefore, from compute capability 9.0 on */
  bool overlaps = false;
  /** Blocks of a cluster, from compute capability 9.0 on */
  unsigned cluster = 1;
};

template <typename... Parameters, typename... Arguments>
cudaError_t launchKernel(void (*kernel)(Parameters...), const Launch& launch, cudaStream_t stream,
                         const Arguments&... arguments) {
  cudaLaunchAttribute attributes[2]{};
  unsigned count = 0;
  if (launch.overlaps) {
    attributes[count].id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attributes[count++].val.programmaticStreamSerializationAllowed = 1;
  }
  if (launch.cluster > 1) {
    attributes[count].id = cudaLaunchAttributeClusterDimension;
    attributes[count++].val.clusterDim = {launch.cluster, 1, 1};
  }
  cudaLaunchConfig_t configuration{};
  configuration.gridDim = dim3(launch.blocks);
  configuration.blockDim = dim3(launch.threads);
  configuration.dynamicSmemBytes = static_cast<size_t>(launch.sharedBytes);
  configuration.stream = stream;
  configuration.attrs = attributes;
  configuration.numAttrs = count;
  return cudaLaunchKernelEx(&configuration, kernel, arguments...);
}

/**
 * Whether a grid should begin before the kernels before it are done. On an H200 that takes 0.5 to 0.8 us from the 2 to
 * 4 us of a 1x1 layer at batch 1, and added 3 us to some of 30 to 50 us at batch 128: only for grids that the device
 * holds at once.
 */
inline bool shouldOverlap(int computeCapability, int64_t blocks, int64_t blocksHeld) {
  return computeCapability >= 90 && blocks <= blocksHeld;
}

}  // namespace warpconv::cuda
