#include <dlfcn.h>

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <vector>

#include "rival.h"

namespace rivals {
namespace {

using Sgemm = void (*)(int order, int transA, int transB, int m, int n, int k, float alpha, const float* a, int lda,
                       const float* b, int ldb, float beta, float* c, int ldc);
constexpr int kRowMajor = 101;
constexpr int kNoTranspose = 111;

struct OpenBlas {
  Sgemm sgemm;
  void (*setThreads)(int);
  const char* (*config)();
};

const OpenBlas& openBlas() {
  static const OpenBlas library = [] {
    void* handle = nullptr;
    for (const char* name : {"libopenblas.so.0", "libopenblas.so", "libopenblas.dylib"}) {
      if (handle == nullptr) handle = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    }
    if (handle == nullptr) throw std::runtime_error("OpenBLAS is not installed: apt-get install libopenblas0");
    OpenBlas found{reinterpret_cast<Sgemm>(dlsym(handle, "cblas_sgemm")),
                   reinterpret_cast<void (*)(int)>(dlsym(handle, "openblas_set_num_threads")),
                   reinterpret_cast<const char* (*)()>(dlsym(handle, "openblas_get_config"))};
    if (!found.sgemm || !found.setThreads || !found.config) throw std::runtime_error("this OpenBLAS lacks cblas_sgemm");
    return found;
  }();
  return library;
}

/** im2col as Caffe does it: columns[c][r][s][p][q] of one group. */
void im2col(const Layer& x, const float* maps, int64_t channels, float* columns) {
  const int64_t p = x.p(), q = x.q();
  for (int64_t c = 0; c < channels; ++c) {
    for (int64_t r = 0; r < x.r; ++r) {
      for (int64_t s = 0; s < x.s; ++s) {
        const int64_t shift = s * x.dilationW - x.padW;
        for (int64_t row = 0; row < p; ++row, columns += q) {
          const int64_t h = row * x.strideH + r * x.dilationH - x.padH;
          if (h < 0 || h >= x.h) {
            std::fill_n(columns, q, 0.0f);
            continue;
          }
          const float* from = maps + (c * x.h + h) * x.w;
          if (x.strideW == 1) {
            const int64_t begin = std::clamp<int64_t>(-shift, 0, q), end = std::clamp<int64_t>(x.w - shift, begin, q);
            std::fill_n(columns, begin, 0.0f);
            std::memcpy(columns + begin, from + begin + shift, sizeof(float) * static_cast<size_t>(end - begin));
            std::fill_n(columns + end, q - end, 0.0f);
            continue;
          }
          for (int64_t i = 0; i < q; ++i) {
            const int64_t w = i * x.strideW + shift;
            columns[i] = w >= 0 && w < x.w ? from[w] : 0.0f;
          }
        }
      }
    }
  }
}

class Im2colSgemm final : public Rival {
 public:
  Im2colSgemm(const Layer& layer, const float* weight, int threads) : layer_(layer), weight_(weight) {
    openBlas().setThreads(threads);
    if (!isGemm()) columns_.resize(static_cast<size_t>(depth() * layer.p() * layer.q()));
  }

  void run(const float* input, float* output) override {
    const Layer& x = layer_;
    const int64_t channels = x.c / x.groups, filters = x.k / x.groups, pixels = x.p() * x.q();
    for (int64_t group = 0; group < x.groups; ++group) {
      const float* maps = input + group * channels * x.h * x.w;
      if (!isGemm()) im2col(x, maps, channels, columns_.data());
      openBlas().sgemm(kRowMajor, kNoTranspose, kNoTranspose, static_cast<int>(filters), static_cast<int>(pixels),
                       static_cast<int>(depth()), 1.0f, weight_ + group * filters * depth(), static_cast<int>(depth()),
                       isGemm() ? maps : columns_.data(), static_cast<int>(pixels), 0.0f,
                       output + group * filters * pixels, static_cast<int>(pixels));
    }
  }

 private:
  /** A pointwise layer needs no im2col (SConv, section 7.5). */
  bool isGemm() const {
    return layer_.r * layer_.s * layer_.strideH * layer_.strideW == 1 && layer_.padH + layer_.padW == 0;
  }
  int64_t depth() const { return layer_.c / layer_.groups * layer_.r * layer_.s; }

  const Layer layer_;
  const float* weight_;
  std::vector<float> columns_;
};

}  // namespace

std::unique_ptr<Rival> makeIm2colSgemm(const Layer& layer, const float* weight, int threads) {
  return std::make_unique<Im2colSgemm>(layer, weight, threads);
}

std::string openBlasConfig() { return openBlas().config(); }

}  // namespace rivals
