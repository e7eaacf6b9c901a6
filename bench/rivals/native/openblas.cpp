#include "openblas.h"

#include <dlfcn.h>

#include <stdexcept>

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
  const char* (*configuration)();
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
    if (!found.sgemm || !found.setThreads || !found.configuration) {
      throw std::runtime_error("this OpenBLAS lacks cblas_sgemm, openblas_set_num_threads or openblas_get_config");
    }
    return found;
  }();
  return library;
}

}  // namespace

std::string openBlasConfiguration() { return openBlas().configuration(); }

void setOpenBlasThreads(int threads) { openBlas().setThreads(threads); }

void multiplyByOpenBlas(const Product& x) {
  openBlas().sgemm(kRowMajor, kNoTranspose, kNoTranspose, x.rows, x.columns, x.depth, 1.0f, x.left, x.leftWidth,
                   x.right, x.rightWidth, 0.0f, x.result, x.resultWidth);
}

}  // namespace rivals
