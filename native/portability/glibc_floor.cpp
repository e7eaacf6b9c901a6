/**
 * Functions that the C++ runtime and the CUDA runtime call, and that glibc 2.28 does not have
 * (cmake/glibc_floor.cmake). They are hidden: nobody else in the process gets these.
 */
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

namespace {

constexpr long kNanosecondsPerSecond = 1'000'000'000;

timespec plus(timespec a, timespec b, int sign) {
  timespec sum{a.tv_sec + sign * b.tv_sec, a.tv_nsec + sign * b.tv_nsec};
  if (sum.tv_nsec < 0) {
    sum.tv_nsec += kNanosecondsPerSecond;
    --sum.tv_sec;
  } else if (sum.tv_nsec >= kNanosecondsPerSecond) {
    sum.tv_nsec -= kNanosecondsPerSecond;
    ++sum.tv_sec;
  }
  return sum;
}

}  // namespace

extern "C" {

/** From 2.32 on: whether atomics may be left out. They never are. */
extern const char __libc_single_threaded;
const char __libc_single_threaded = 0;

/** From 2.33 on. It was an inline function before. */
int fstat64(int file, struct stat64* status) { return static_cast<int>(syscall(SYS_fstat, file, status)); }

/**
 * From 2.30 on, and that one is called where it is. Before, a condition waits by the wall clock alone, and setting that
 * clock makes the wait shorter or longer.
 */
int pthread_cond_clockwait(pthread_cond_t* condition, pthread_mutex_t* mutex, clockid_t clock, const timespec* until) {
  using ClockWait = int (*)(pthread_cond_t*, pthread_mutex_t*, clockid_t, const timespec*);
  static const auto own = reinterpret_cast<ClockWait>(dlsym(RTLD_DEFAULT, "pthread_cond_clockwait"));
  if (own != nullptr) return own(condition, mutex, clock, until);
  timespec now;
  timespec wall;
  if (clock_gettime(clock, &now) != 0 || clock_gettime(CLOCK_REALTIME, &wall) != 0) return errno;
  const timespec end = plus(wall, plus(*until, now, -1), 1);
  return pthread_cond_timedwait(condition, mutex, &end);
}

}  // extern "C"
