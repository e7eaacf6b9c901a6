/**
 * Makes chosen allocations of warpconv.node fail. The same file is preloaded, so that its malloc comes before glibc's,
 * and loaded as an addon, by which the test says which allocations.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <link.h>
#include <node_api.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

extern void* __libc_malloc(size_t);
extern void* __libc_calloc(size_t, size_t);
extern void* __libc_realloc(void*, size_t);
extern void* __libc_memalign(size_t, size_t);

enum threads { ANY, THE_ARMING_ONE, THE_OTHERS };

static atomic_bool armed;
static atomic_long counted;
static long first, end;
static enum threads failing;
static pthread_t arming;
/** Where the addon's code lies */
static uintptr_t low = UINTPTR_MAX, high;

static int find(struct dl_phdr_info* object, size_t size, void* data) {
  (void)size, (void)data;
  if (object->dlpi_name == NULL || strstr(object->dlpi_name, "warpconv.node") == NULL) return 0;
  for (int i = 0; i < object->dlpi_phnum; ++i) {
    const ElfW(Phdr)* segment = &object->dlpi_phdr[i];
    if (segment->p_type != PT_LOAD) continue;
    const uintptr_t begin = object->dlpi_addr + segment->p_vaddr;
    if (begin < low) low = begin;
    if (begin + segment->p_memsz > high) high = begin + segment->p_memsz;
  }
  return 1;
}

/** Counts an allocation of the addon, and says whether it is to fail. */
static bool fails(void* caller) {
  if (!atomic_load(&armed) || (uintptr_t)caller < low || (uintptr_t)caller >= high) return false;
  if (failing != ANY && (failing == THE_ARMING_ONE) != (pthread_equal(pthread_self(), arming) != 0)) return false;
  const long number = atomic_fetch_add(&counted, 1) + 1;
  if (number < first || number >= end) return false;
  errno = ENOMEM;
  return true;
}

#define CALLER __builtin_return_address(0)
void* malloc(size_t bytes) { return fails(CALLER) ? NULL : __libc_malloc(bytes); }
void* calloc(size_t count, size_t bytes) { return fails(CALLER) ? NULL : __libc_calloc(count, bytes); }
void* realloc(void* old, size_t bytes) { return fails(CALLER) ? NULL : __libc_realloc(old, bytes); }
void* memalign(size_t boundary, size_t bytes) { return fails(CALLER) ? NULL : __libc_memalign(boundary, bytes); }
void* aligned_alloc(size_t boundary, size_t bytes) { return fails(CALLER) ? NULL : __libc_memalign(boundary, bytes); }
int posix_memalign(void** made, size_t boundary, size_t bytes) {
  if (fails(CALLER)) return ENOMEM;
  *made = __libc_memalign(boundary, bytes);
  return *made == NULL ? ENOMEM : 0;
}

/** Arguments: the first allocation from now on that fails, how many do in a row, and on which threads they count. */
static napi_value arm(napi_env env, napi_callback_info info) {
  size_t count = 3;
  napi_value given[3];
  int64_t start = 0, length = 0, threads = 0;
  napi_get_cb_info(env, info, &count, given, NULL, NULL);
  napi_get_value_int64(env, given[0], &start);
  napi_get_value_int64(env, given[1], &length);
  napi_get_value_int64(env, given[2], &threads);
  if (high == 0) dl_iterate_phdr(find, NULL);
  first = start;
  end = start + length;
  failing = (enum threads)threads;
  arming = pthread_self();
  atomic_store(&counted, 0);
  atomic_store(&armed, true);
  return NULL;
}

/** How many allocations have counted since it was armed. */
static napi_value disarm(napi_env env, napi_callback_info info) {
  (void)info;
  atomic_store(&armed, false);
  napi_value result = NULL;
  napi_create_int64(env, atomic_load(&counted), &result);
  return result;
}

NAPI_MODULE_INIT() {
  napi_value function = NULL;
  napi_create_function(env, "arm", NAPI_AUTO_LENGTH, arm, NULL, &function);
  napi_set_named_property(env, exports, "arm", function);
  napi_create_function(env, "disarm", NAPI_AUTO_LENGTH, disarm, NULL, &function);
  napi_set_named_property(env, exports, "disarm", function);
  return exports;
}
