#include "cuda/compare/library.h"

#include <dlfcn.h>

namespace warpconv::cuda {

void* Symbols::find(const char* name) const { return dlsym(library_, name); }

void* Symbols::address(const char* name) {
  void* const found = find(name);
  if (found == nullptr && missing_.empty()) missing_ = name;
  return found;
}

std::string loadFirst(const std::vector<std::string>& libraries, const std::function<void(Symbols&)>& findAll) {
  std::string tried;
  for (const std::string& name : libraries) {
    void* const library = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) {
      tried += "\n  " + std::string(dlerror());
      continue;
    }
    Symbols symbols(library);
    findAll(symbols);
    if (symbols.missing().empty()) return {};
    tried += "\n  " + name + ": has no " + symbols.missing();
  }
  return tried.empty() ? "\n  no library" : tried;
}

}  // namespace warpconv::cuda
