#include "portability/keep_loaded.h"

#if defined(_WIN32)
#include <windows.h>
#elif defined(__APPLE__)
#include <dlfcn.h>
#endif

namespace warpconv {

void keepLoaded() noexcept {
#if defined(_WIN32)
  HMODULE binary = nullptr;
  GetModuleHandleExW(GET_MODULE_HANDLE_EX_FLAG_PIN | GET_MODULE_HANDLE_EX_FLAG_FROM_ADDRESS,
                     reinterpret_cast<LPCWSTR>(&keepLoaded), &binary);
#elif defined(__APPLE__)
  Dl_info binary;
  if (dladdr(reinterpret_cast<const void*>(&keepLoaded), &binary) != 0) {
    dlopen(binary.dli_fname, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE);
  }
#endif
}

}  // namespace warpconv
