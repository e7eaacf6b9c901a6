#pragma once

/** Of functions that kernels share with code of the CPU: nothing where no nvcc compiles. */
#ifdef __CUDACC__
#define WARPCONV_HOST_DEVICE __host__ __device__
#else
#define WARPCONV_HOST_DEVICE
#endif
