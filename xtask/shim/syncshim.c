/*
 * A disk that can be made slow, careless, broken or full: preloaded into the server by the harness, never shipped.
 *
 * It stands in front of the C library's sync and write calls and counts them in a small file that the harness maps
 * too, so that a test can tell that its fault has really happened. It does nothing until that file says so.
 *
 *   SYNCSHIM_CONTROL=path      the shared counters; without it the shim is armed at once and counts for itself
 *   SYNCSHIM_OFF=1             a sync returns at once and does nothing
 *   SYNCSHIM_DELAY_US=n        a sync takes n microseconds longer
 *   SYNCSHIM_FAIL_SYNC_AT=n    the n-th sync since arming, and all after it, fail with EIO
 *   SYNCSHIM_FAIL_SYNC_ONCE=n  the n-th sync since arming fails with EIO, and those after it work
 *   SYNCSHIM_KILL_SYNC_AT=n    at the n-th sync since arming the process is killed, before it or, when n is even, after it
 *   SYNCSHIM_FAIL_WRITE_AT=n   the n-th write to a regular file since arming, and all after it, fail with EIO
 *   SYNCSHIM_FAIL_WRITE_ONCE=n the n-th write since arming fails with EIO, and those after it work
 *   SYNCSHIM_KILL_WRITE_AT=n   at the n-th write since arming half of it is written and the process is killed
 *   SYNCSHIM_ENOSPC_AFTER=n    writes to regular files fail with ENOSPC once n bytes were written since arming
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

struct control {
    _Atomic uint64_t armed;
    _Atomic uint64_t syncs;
    _Atomic uint64_t bytes;
    _Atomic uint64_t fired;
    _Atomic uint64_t writes;
};

static struct control own = {.armed = 1};
static struct control *control = &own;
static int off;
static uint64_t delay_us, fail_sync_at, fail_sync_once, kill_sync_at, enospc_after;
static uint64_t fail_write_at, fail_write_once, kill_write_at;

static uint64_t number(const char *name) {
    const char *text = getenv(name);
    return text ? strtoull(text, NULL, 10) : 0;
}

__attribute__((constructor)) static void start(void) {
    off = number("SYNCSHIM_OFF") != 0;
    delay_us = number("SYNCSHIM_DELAY_US");
    fail_sync_at = number("SYNCSHIM_FAIL_SYNC_AT");
    fail_sync_once = number("SYNCSHIM_FAIL_SYNC_ONCE");
    kill_sync_at = number("SYNCSHIM_KILL_SYNC_AT");
    fail_write_at = number("SYNCSHIM_FAIL_WRITE_AT");
    fail_write_once = number("SYNCSHIM_FAIL_WRITE_ONCE");
    kill_write_at = number("SYNCSHIM_KILL_WRITE_AT");
    enospc_after = number("SYNCSHIM_ENOSPC_AFTER");
    const char *path = getenv("SYNCSHIM_CONTROL");
    if (!path) return;
    int fd = open(path, O_RDWR | O_CLOEXEC);
    void *shared = fd < 0 ? MAP_FAILED : mmap(NULL, sizeof own, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (shared == MAP_FAILED) _exit(120);
    close(fd);
    control = shared;
}

static int is(uint64_t nth, uint64_t from, uint64_t once) { return (from && nth >= from) || (once && nth == once); }

static void die(void) {
    atomic_fetch_add(&control->fired, 1);
    kill(getpid(), SIGKILL);
    for (;;) pause();
}

/* Not a directory's: SQLite syncs it with the first sync of a write-ahead log and does not look at the result, since the server has
   synced it by then. */
static int sync_with(long call, int fd) {
    struct stat about;
    if (!atomic_load(&control->armed) || (fstat(fd, &about) == 0 && S_ISDIR(about.st_mode))) return (int)syscall(call, fd);
    uint64_t nth = atomic_fetch_add(&control->syncs, 1) + 1;
    if (kill_sync_at && nth == kill_sync_at) {
        if (nth % 2 == 0) syscall(call, fd);
        die();
    }
    if (is(nth, fail_sync_at, fail_sync_once)) {
        atomic_fetch_add(&control->fired, 1);
        errno = EIO;
        return -1;
    }
    if (off) return 0;
    int result = (int)syscall(call, fd);
    if (delay_us) {
        int saved = errno;
        struct timespec wait = {(time_t)(delay_us / 1000000), (long)(delay_us % 1000000) * 1000};
        while (nanosleep(&wait, &wait) != 0) {
        }
        errno = saved;
    }
    return result;
}

/* Whether it is a regular file, and the shim armed. Sockets, pipes and the standard streams always work. */
static int concerned(int fd) {
    if (fd <= STDERR_FILENO || !atomic_load(&control->armed)) return 0;
    struct stat about;
    return fstat(fd, &about) == 0 && S_ISREG(about.st_mode);
}

/* Whether this write is one that fails. */
static int broken(int fd) {
    if (!(fail_write_at || fail_write_once) || !concerned(fd)) return 0;
    uint64_t nth = atomic_fetch_add(&control->writes, 1) + 1;
    if (!is(nth, fail_write_at, fail_write_once)) return 0;
    atomic_fetch_add(&control->fired, 1);
    errno = EIO;
    return 1;
}

/* Whether this write is the process's last, of which the first half is made. */
static int last(int fd) {
    return kill_write_at && concerned(fd) && atomic_fetch_add(&control->writes, 1) + 1 == kill_write_at;
}

/* Whether a write of so many bytes fails. */
static int full(int fd, uint64_t bytes) {
    if (broken(fd)) return 1;
    if (!enospc_after || !concerned(fd)) return 0;
    if (atomic_fetch_add(&control->bytes, bytes) + bytes <= enospc_after) return 0;
    atomic_fetch_add(&control->fired, 1);
    errno = ENOSPC;
    return 1;
}

static uint64_t total(const struct iovec *parts, int count) {
    uint64_t bytes = 0;
    for (int i = 0; i < count; i++) bytes += parts[i].iov_len;
    return bytes;
}

int fdatasync(int fd) { return sync_with(SYS_fdatasync, fd); }
int fsync(int fd) { return sync_with(SYS_fsync, fd); }

ssize_t write(int fd, const void *data, size_t bytes) {
    if (last(fd)) {
        syscall(SYS_write, fd, data, bytes / 2);
        die();
    }
    return full(fd, bytes) ? -1 : syscall(SYS_write, fd, data, bytes);
}
static ssize_t write_at(int fd, const void *data, size_t bytes, off64_t at) {
    if (last(fd)) {
        syscall(SYS_pwrite64, fd, data, bytes / 2, at);
        die();
    }
    return full(fd, bytes) ? -1 : syscall(SYS_pwrite64, fd, data, bytes, at);
}
ssize_t pwrite(int fd, const void *data, size_t bytes, off_t at) { return write_at(fd, data, bytes, at); }
ssize_t pwrite64(int fd, const void *data, size_t bytes, off64_t at) { return write_at(fd, data, bytes, at); }
ssize_t writev(int fd, const struct iovec *parts, int count) {
    return full(fd, total(parts, count)) ? -1 : syscall(SYS_writev, fd, parts, count);
}
int fallocate(int fd, int mode, off_t at, off_t bytes) {
    return full(fd, (uint64_t)bytes) ? -1 : (int)syscall(SYS_fallocate, fd, mode, at, bytes);
}
int fallocate64(int fd, int mode, off64_t at, off64_t bytes) {
    return full(fd, (uint64_t)bytes) ? -1 : (int)syscall(SYS_fallocate, fd, mode, at, bytes);
}
int posix_fallocate(int fd, off_t at, off_t bytes) {
    if (full(fd, (uint64_t)bytes)) return ENOSPC;
    return syscall(SYS_fallocate, fd, 0, at, bytes) == 0 ? 0 : errno;
}
