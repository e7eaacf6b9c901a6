/*
 * Refuses calls of the CUDA driver in turn: preloaded, it makes the call of a given number fail with
 * CUDA_ERROR_OUT_OF_MEMORY, whichever function that is. The CUDA runtime inside the addon finds the driver's functions by
 * dlsym() and cuGetProcAddress(), and is given stubs of all that may run out of memory.
 *
 * The file that WARPCONV_REFUSED_CALLS names is shared with the test: two 64-bit integers, the number of the call to
 * refuse (0 for none) and how many calls there have been. Linux on x86-64 alone.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define STUBS 256

static _Atomic int64_t nowhere[2];
static _Atomic int64_t *control = nowhere;
/* Where stub number i goes on to. */
__attribute__((visibility("hidden"))) void *warpconv_targets[STUBS];
static const char *names[STUBS];
static int used;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

__attribute__((constructor)) static void begin(void) {
  const char *path = getenv("WARPCONV_REFUSED_CALLS");
  const int file = path == NULL ? -1 : open(path, O_RDWR);
  if (file < 0) return;
  void *shared = mmap(NULL, sizeof nowhere, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (shared != MAP_FAILED) control = shared;
}

__attribute__((visibility("hidden"))) int warpconv_refuses(void) {
  if (control[0] == 0) return 0;
  return ++control[1] == control[0];
}

/*
 * Stub i pushes i and jumps here, with the arguments of the driver's function in place. They are kept around the
 * question whether to refuse; none is a floating-point number.
 */
extern char warpconv_stubs[];
__asm__(
    ".text\n"
    "warpconv_stub:\n"
    "  push %rdi\n  push %rsi\n  push %rdx\n  push %rcx\n  push %r8\n  push %r9\n"
    "  call warpconv_refuses\n"
    "  pop %r9\n  pop %r8\n  pop %rcx\n  pop %rdx\n  pop %rsi\n  pop %rdi\n"
    "  test %eax, %eax\n"
    "  jne 1f\n"
    "  pop %rax\n"
    "  lea warpconv_targets(%rip), %r11\n"
    "  jmp *(%r11,%rax,8)\n"
    "1:\n"
    "  pop %rax\n"
    "  mov $2, %eax\n"
    "  ret\n"
    ".balign 16\n"
    "warpconv_stubs:\n"
    ".set i, 0\n"
    ".rept 256\n"
    "  .balign 16\n"
    "  pushq $i\n"
    "  jmp warpconv_stub\n"
    "  .set i, i + 1\n"
    ".endr\n");

static int begins(const char *name, const char *with) { return strncmp(name, with, strlen(with)) == 0; }

/* What asks for memory or for something that takes it; not what frees, destroys or only tells. */
static int may_run_out(const char *name) {
  static const char *const all[] = {"cuMemAlloc",      "cuMemHostAlloc", "cuMemHostRegister", "cuMemcpy",
                                    "cuMemset",        "cuMemPoolCreate", "cuStreamCreate",   "cuEventCreate",
                                    "cuGraphCreate",   "cuGraphInstantiate", "cuGraphLaunch", "cuGraphAdd",
                                    "cuGraphExecMemcpyNodeSetParams", "cuGraphNodeSetEnabled",
                                    "cuStreamBeginCapture", "cuModuleLoad", "cuLibraryLoad",  "cuLaunch",
                                    "cuDevicePrimaryCtxRetain", "cuStreamSynchronize", "cuLibraryGetKernel",
                                    "cuKernelGetFunction"};
  for (size_t i = 0; i < sizeof all / sizeof *all; ++i) {
    if (begins(name, all[i])) return 1;
  }
  return 0;
}

static void *stub_of(const char *name, void *target) {
  if (target == NULL || !may_run_out(name)) return target;
  pthread_mutex_lock(&mutex);
  int i = 0;
  while (i < used && warpconv_targets[i] != target) ++i;
  if (i == used && used < STUBS) {
    names[used] = strdup(name);
    warpconv_targets[used++] = target;
  }
  pthread_mutex_unlock(&mutex);
  return i < STUBS ? warpconv_stubs + 16 * i : target;
}

typedef int GetProcAddress(const char *, void **, int, uint64_t, void *);
static GetProcAddress *get_proc_address;
static int proc_address(const char *name, void **function, int version, uint64_t flags, void *status) {
  const int result = get_proc_address(name, function, version, flags, status);
  if (result == 0 && function != NULL) *function = begins(name, "cuGetProcAddress") ? (void *)proc_address : stub_of(name, *function);
  return result;
}

void *dlsym(void *handle, const char *name) {
  static void *(*real)(void *, const char *);
  if (real == NULL) {
    real = dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.34");
    if (real == NULL) real = dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.2.5");
  }
  void *found = real(handle, name);
  if (found == NULL || !begins(name, "cu")) return found;
  if (!begins(name, "cuGetProcAddress")) return stub_of(name, found);
  get_proc_address = (GetProcAddress *)found;
  return (void *)proc_address;
}
