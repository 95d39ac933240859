/*
 * A wall clock that can be moved while a process runs: preloaded into a server by the harness and by tests, never shipped.
 * It adds the nanoseconds that stand in a small file, which they write, to the real-time clock and to no other.
 *
 *   CLOCKSHIM_CONTROL=path     eight bytes, signed
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static _Atomic int64_t none;
static _Atomic int64_t *ahead = &none;
static int (*real)(clockid_t, struct timespec *);

__attribute__((constructor)) static void start(void) {
    real = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    const char *path = getenv("CLOCKSHIM_CONTROL");
    int fd = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
    void *shared = fd < 0 ? MAP_FAILED : mmap(NULL, sizeof none, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (!real || shared == MAP_FAILED) _exit(120);
    close(fd);
    ahead = shared;
}

int clock_gettime(clockid_t clock, struct timespec *now) {
    const int64_t second = 1000000000;
    if (!real) real = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    int result = real(clock, now);
    if (result != 0 || (clock != CLOCK_REALTIME && clock != CLOCK_REALTIME_COARSE)) return result;
    int64_t nanos = now->tv_nsec + atomic_load(ahead);
    int64_t seconds = nanos / second;
    nanos %= second;
    if (nanos < 0) {
        nanos += second;
        seconds -= 1;
    }
    now->tv_sec += seconds;
    now->tv_nsec = nanos;
    return 0;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone) {
    (void)zone;
    struct timespec exact;
    if (clock_gettime(CLOCK_REALTIME, &exact) != 0) return -1;
    now->tv_sec = exact.tv_sec;
    now->tv_usec = exact.tv_nsec / 1000;
    return 0;
}
