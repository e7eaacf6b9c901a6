#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace warpconv::test {

inline void check(cudaError_t error) {
  if (error != cudaSuccess) throw std::runtime_error(std::string("CUDA in the test: ") + cudaGetErrorString(error));
}

/** An allocation of its own, so that compute-sanitizer sees any access beyond it; separate from the library's pool. */
template <typename T>
class DeviceArray {
 public:
  explicit DeviceArray(size_t count) : count_(count) {
    if (count > 0) check(cudaMalloc(reinterpret_cast<void**>(&data_), count * sizeof(T)));
  }
  explicit DeviceArray(const std::vector<T>& values) : DeviceArray(values.size()) {
    if (count_ > 0) check(cudaMemcpy(data_, values.data(), count_ * sizeof(T), cudaMemcpyHostToDevice));
  }
  DeviceArray(DeviceArray&& other) noexcept : data_(std::exchange(other.data_, nullptr)), count_(other.count_) {}
  DeviceArray& operator=(DeviceArray&&) = delete;
  ~DeviceArray() { (void)cudaFree(data_); }

  /** Null when empty. */
  T* data() const { return data_; }
  size_t size() const { return count_; }
  std::vector<T> toHost() const {
    std::vector<T> values(count_);
    if (count_ > 0) check(cudaMemcpy(values.data(), data_, count_ * sizeof(T), cudaMemcpyDeviceToHost));
    return values;
  }

 private:
  T* data_ = nullptr;
  size_t count_ = 0;
};

}  // namespace warpconv::test
