#pragma once

#include <functional>
#include <string>
#include <vector>

namespace warpconv::cuda {

/** Takes one function after another out of a library, and remembers the first that is missing. */
class Symbols {
 public:
  explicit Symbols(void* library) : library_(library) {}

  template <typename Function>
  void find(Function& function, const char* name) {
    function = reinterpret_cast<Function>(address(name));
  }
  /** Null where it is missing, which is not remembered. */
  template <typename Function>
  void findOptional(Function& function, const char* name) {
    function = reinterpret_cast<Function>(find(name));
  }
  const std::string& missing() const { return missing_; }

 private:
  void* address(const char* name);
  void* find(const char* name) const;

  void* library_;
  std::string missing_;
};

/**
 * Loads the first of `libraries`, file names or paths, in which `findAll` finds all it looks for. Empty when one did;
 * else what was tried, a line each. A library stays until the process ends: it takes most of a second to load, and the
 * driver may know kernels of it.
 */
std::string loadFirst(const std::vector<std::string>& libraries, const std::function<void(Symbols&)>& findAll);

}  // namespace warpconv::cuda
