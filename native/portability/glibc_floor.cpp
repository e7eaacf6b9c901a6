/**
 * What the C++ runtime and the CUDA runtime use of a C library that is newer than glibc 2.28, where there is no older
 * version to link with (cmake/glibc_floor.cmake). Hidden: nobody else in the process gets these.
 */
#include <errno.h>
#include <pthread.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

namespace {

constexpr long kNanosecondsPerSecond = 1'000'000'000;

timespec Plus(timespec a, timespec b, int sign) {
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

/** From 2.33 on; an inline function before. */
int fstat64(int file, struct stat64* status) { return static_cast<int>(syscall(SYS_fstat, file, status)); }

/**
 * From 2.30 on. Until then a condition waits by the clock of the wall alone; who sets that clock meanwhile makes the
 * wait shorter or longer, as in every program that was built for those.
 */
int pthread_cond_clockwait(pthread_cond_t* condition, pthread_mutex_t* mutex, clockid_t clock, const timespec* until) {
  timespec now;
  timespec wall;
  if (clock_gettime(clock, &now) != 0 || clock_gettime(CLOCK_REALTIME, &wall) != 0) return errno;
  const timespec end = Plus(wall, Plus(*until, now, -1), 1);
  return pthread_cond_timedwait(condition, mutex, &end);
}

}  // extern "C"
