#pragma once

/** Of functions that planners on the host share with kernels: nothing where no nvcc compiles. */
#ifdef __CUDACC__
#define WARPCONV_HOST_DEVICE __host__ __device__
#else
#define WARPCONV_HOST_DEVICE
#endif
