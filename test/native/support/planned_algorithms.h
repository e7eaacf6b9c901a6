#pragma once

#include "cuda/depthwise/gpu_depthwise.h"
#include "cuda/direct/direct.h"
#include "cuda/halo/halo.h"
#include "cuda/im2col/im2col.h"
#include "cuda/im2win/im2win.h"
#include "cuda/image/image.h"
#include "cuda/implicit/implicit.h"
#include "cuda/pointwise/pointwise.h"
#include "cuda/shuffle/shuffle.h"
#include "cuda/stem/stem.h"

namespace warpconv::test {

/** The GPU's algorithms in the order of cuda/gpu_algorithm_list.cpp, less what makes kernels of them and needs nvcc. */
inline constexpr cuda::GpuAlgorithm kPlannedAlgorithms[] = {
    {"pointwise", cuda::pointwise::kVariants, cuda::refusePointwise, cuda::estimatePointwise, cuda::formsPointwise,
     cuda::packedPointwiseVariant, nullptr},
    {"shuffle", cuda::kShuffleVariants, cuda::refuseShuffle, cuda::estimateShuffle, cuda::formsShuffle, nullptr,
     nullptr},
    {"im2win", cuda::kIm2winVariants, cuda::refuseIm2win, cuda::estimateIm2win, cuda::formsIm2win,
     cuda::packedIm2winVariant, nullptr},
    {"halo", cuda::kHaloVariants, cuda::refuseHalo, cuda::estimateHalo, cuda::formsHalo, cuda::packedHaloVariant,
     nullptr},
    {"stem", cuda::kStemVariants, cuda::refuseStem, cuda::estimateStem, cuda::formsStem, cuda::packedStemVariant,
     nullptr},
    {"implicit", cuda::kImplicitVariants, cuda::refuseImplicit, cuda::estimateImplicit, cuda::formsImplicit, nullptr,
     nullptr, cuda::formatImplicit},
    {"image", {}, cuda::refuseImage, cuda::estimateImage, cuda::formsImage, nullptr, nullptr, cuda::formatImage},
    {"im2col", {}, cuda::refuseIm2col, cuda::estimateIm2col, cuda::formsIm2col, nullptr, nullptr},
    {"depthwise",
     {},
     cuda::refuseDepthwise,
     cuda::estimateDepthwise,
     cuda::formsDepthwise,
     nullptr,
     nullptr,
     cuda::formatDepthwise},
    {"direct", {}, cuda::refuseDirect, cuda::estimateDirect, cuda::formsDirect, nullptr, nullptr}};

}  // namespace warpconv::test
