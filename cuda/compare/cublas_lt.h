#pragma once

#include <memory>
#include <vector>

#include "cuda/compare/cublas.h"

namespace warpconv::cuda {

/**
 * One way of cuBLASLt, the library behind cuBLAS, to compute products: cuBLAS takes one by its own rule, and a search
 * over what the heuristics propose finds faster ones, as the search of cuDNN does.
 */
class LtProduct {
 public:
  /**
   * What the heuristics propose for the products of matrices of that arithmetic's type, with sums of float32, best
   * first. Empty where the library is missing, or has nothing.
   */
  static std::vector<std::shared_ptr<const LtProduct>> propose(const std::shared_ptr<const Cublas>& cublas,
                                                               const Products& products, Precision arithmetic);
  LtProduct(const LtProduct&) = delete;
  LtProduct& operator=(const LtProduct&) = delete;
  ~LtProduct();

  Status multiply(const void* a, const void* b, void* output) const;

 private:
  struct Layouts;
  struct Algorithm;
  LtProduct(std::shared_ptr<const Cublas> cublas, std::shared_ptr<const Layouts> layouts, const Algorithm& algorithm);

  const std::shared_ptr<const Cublas> cublas_;
  const std::shared_ptr<const Layouts> layouts_;
  const std::unique_ptr<const Algorithm> algorithm_;
};

}  // namespace warpconv::cuda
