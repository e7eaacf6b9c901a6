#include <vector>

#include "im2col.h"
#include "openblas.h"

namespace rivals {
namespace {

class Im2colSgemm final : public Rival {
 public:
  Im2colSgemm(const Layer& layer, const float* weight, int threads) : layer_(layer), weight_(weight) {
    setOpenBlasThreads(threads);
    if (!isMatrix(layer_)) columns_.resize(static_cast<size_t>(depth() * layer.p() * layer.q()));
  }

  void run(const float* input, float* output) override {
    const Layer& x = layer_;
    const int64_t channels = x.c / x.groups, filters = x.k / x.groups, pixels = x.p() * x.q();
    for (int64_t group = 0; group < x.groups; ++group) {
      const float* maps = input + group * channels * x.h * x.w;
      if (!isMatrix(x)) writeColumns(x, maps, channels, columns_.data());
      multiplyByOpenBlas({.left = weight_ + group * filters * depth(),
                          .leftWidth = static_cast<int>(depth()),
                          .right = isMatrix(x) ? maps : columns_.data(),
                          .rightWidth = static_cast<int>(pixels),
                          .result = output + group * filters * pixels,
                          .resultWidth = static_cast<int>(pixels),
                          .rows = static_cast<int>(filters),
                          .columns = static_cast<int>(pixels),
                          .depth = static_cast<int>(depth())});
    }
  }

 private:
  int64_t depth() const { return layer_.c / layer_.groups * layer_.r * layer_.s; }

  const Layer layer_;
  const float* weight_;
  std::vector<float> columns_;
};

}  // namespace

std::unique_ptr<Rival> makeIm2colSgemm(const Layer& layer, const float* weight, int threads) {
  return std::make_unique<Im2colSgemm>(layer, weight, threads);
}

}  // namespace rivals
