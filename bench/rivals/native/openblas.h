#pragma once

namespace rivals {

/** One thread's share of a row-major product of `rows` x `depth` and `depth` x `columns`; widths from row to row. */
struct Product {
  const float* left;
  int leftWidth;
  const float* right;
  int rightWidth;
  float* result;
  int resultWidth;
  int rows, columns, depth;
};

/** OpenBLAS as it is found at run time. Both throw std::runtime_error, with how to install it, where it is missing. */
void setOpenBlasThreads(int threads);
void multiplyByOpenBlas(const Product& product);

}  // namespace rivals
