/*
 * A disk that remembers what was done to it: preloaded into the server by the harness, never shipped. Every write to a
 * file of one directory, every sync of it and every name that comes or goes is written down in the order in which it was
 * asked for, so that the harness can say what a power cut may leave: all that was synced, and any part of the rest.
 *
 *   DISKSHIM_DIR=path   the directory; files whose names end in -shm are left out, they are memory
 *   DISKSHIM_LOG=path   where it is written down
 *
 * A write is written down before it is made and a sync before and after it: what is said to be synced was.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

enum { OPENED = 1, WRITTEN, CUT, SYNCING, SYNCED, REMOVED, RENAMED, ZEROED };
enum { FDS = 65536 };

struct record {
    uint32_t kind, name;
    uint64_t inode, at, bytes;
};

static int log_fd = -1;
static const char *dir;
static size_t dir_length;
static _Atomic unsigned char ours[FDS];
static _Atomic uint64_t syncs;

__attribute__((constructor)) static void start(void) {
    dir = getenv("DISKSHIM_DIR");
    const char *path = getenv("DISKSHIM_LOG");
    if (!dir || !path) return;
    dir_length = strlen(dir);
    int fd = (int)syscall(SYS_openat, AT_FDCWD, path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    if (fd < 0) _exit(120);
    log_fd = fd;
}

static void note(uint32_t kind, uint64_t inode, uint64_t at, uint64_t bytes, const char *name, const void *data) {
    if (log_fd < 0) return;
    int saved = errno;
    struct record record = {kind, name ? (uint32_t)strlen(name) : 0, inode, at, bytes};
    struct iovec parts[3] = {
        {&record, sizeof record}, {(void *)name, record.name}, {(void *)data, data ? bytes : 0}};
    if (syscall(SYS_writev, log_fd, parts, 3) < 0) _exit(121);
    errno = saved;
}

/* The name of a file in the directory, "" for the directory itself, NULL for anything else. */
static const char *name_of(const char *path) {
    if (log_fd < 0 || strncmp(path, dir, dir_length) != 0) return NULL;
    const char *rest = path + dir_length;
    if (*rest == '/') rest++;
    else if (*rest != 0) return NULL;
    size_t length = strlen(rest);
    if (length >= 4 && strcmp(rest + length - 4, "-shm") == 0) return NULL;
    return strchr(rest, '/') ? NULL : rest;
}

static int watch(int fd, const char *path, int flags) {
    const char *name = fd < 0 || fd >= FDS ? NULL : name_of(path);
    if (!name) return fd;
    struct stat about;
    if (fstat(fd, &about) != 0) return fd;
    ours[fd] = 1;
    note(OPENED, about.st_ino, 0, (uint64_t)S_ISDIR(about.st_mode), name, NULL);
    if (flags & O_TRUNC) note(CUT, about.st_ino, 0, 0, NULL, NULL);
    return fd;
}

static int is_ours(int fd, struct stat *about) {
    return fd >= 0 && fd < FDS && ours[fd] && fstat(fd, about) == 0;
}

static int zeros(const char *data, size_t bytes) {
    return bytes >= 4096 && data[0] == 0 && memcmp(data, data + 1, bytes - 1) == 0;
}

static void wrote(int fd, const void *data, size_t bytes, off64_t at) {
    struct stat about;
    if (bytes == 0 || !is_ours(fd, &about)) return;
    if (at < 0) {
        int flags = fcntl(fd, F_GETFL);
        at = (flags & O_APPEND) ? about.st_size : lseek(fd, 0, SEEK_CUR);
    }
    if (zeros(data, bytes)) note(ZEROED, about.st_ino, (uint64_t)at, bytes, NULL, NULL);
    else note(WRITTEN, about.st_ino, (uint64_t)at, bytes, NULL, data);
}

static int synced(long call, int fd) {
    struct stat about;
    if (!is_ours(fd, &about)) return (int)syscall(call, fd);
    uint64_t number = atomic_fetch_add(&syncs, 1) + 1;
    note(SYNCING, about.st_ino, number, 0, NULL, NULL);
    int result = (int)syscall(call, fd);
    if (result == 0) note(SYNCED, about.st_ino, number, 0, NULL, NULL);
    return result;
}

static mode_t mode_of(int flags, va_list more) { return flags & (O_CREAT | O_TMPFILE) ? va_arg(more, mode_t) : 0; }

#define OPEN(NAME)                                                                        \
    int NAME(const char *path, int flags, ...) {                                          \
        va_list more;                                                                     \
        va_start(more, flags);                                                            \
        mode_t mode = mode_of(flags, more);                                               \
        va_end(more);                                                                     \
        return watch((int)syscall(SYS_openat, AT_FDCWD, path, flags | O_LARGEFILE, mode), path, flags); \
    }
OPEN(open)
OPEN(open64)
#define OPEN_AT(NAME)                                                                     \
    int NAME(int at, const char *path, int flags, ...) {                                  \
        va_list more;                                                                     \
        va_start(more, flags);                                                            \
        mode_t mode = mode_of(flags, more);                                               \
        va_end(more);                                                                     \
        return watch((int)syscall(SYS_openat, at, path, flags | O_LARGEFILE, mode), path, flags); \
    }
OPEN_AT(openat)
OPEN_AT(openat64)

int close(int fd) {
    if (fd >= 0 && fd < FDS) ours[fd] = 0;
    return (int)syscall(SYS_close, fd);
}

ssize_t write(int fd, const void *data, size_t bytes) {
    wrote(fd, data, bytes, -1);
    return syscall(SYS_write, fd, data, bytes);
}
ssize_t pwrite(int fd, const void *data, size_t bytes, off_t at) {
    wrote(fd, data, bytes, at);
    return syscall(SYS_pwrite64, fd, data, bytes, at);
}
ssize_t pwrite64(int fd, const void *data, size_t bytes, off64_t at) {
    wrote(fd, data, bytes, at);
    return syscall(SYS_pwrite64, fd, data, bytes, at);
}
int ftruncate(int fd, off_t bytes) {
    struct stat about;
    if (is_ours(fd, &about)) note(CUT, about.st_ino, (uint64_t)bytes, 0, NULL, NULL);
    return (int)syscall(SYS_ftruncate, fd, bytes);
}
int ftruncate64(int fd, off64_t bytes) {
    struct stat about;
    if (is_ours(fd, &about)) note(CUT, about.st_ino, (uint64_t)bytes, 0, NULL, NULL);
    return (int)syscall(SYS_ftruncate, fd, bytes);
}
int fsync(int fd) { return synced(SYS_fsync, fd); }
int fdatasync(int fd) { return synced(SYS_fdatasync, fd); }

int unlink(const char *path) {
    const char *name = name_of(path);
    if (name) note(REMOVED, 0, 0, 0, name, NULL);
    return (int)syscall(SYS_unlink, path);
}
int rename(const char *from, const char *to) {
    const char *old = name_of(from), *fresh = name_of(to);
    if (old && fresh) note(RENAMED, 0, 0, strlen(fresh), old, fresh);
    return (int)syscall(SYS_rename, from, to);
}

/* What would slip past: better no run than one that proves nothing. */
#define REFUSED(CALL)                                                                     \
    {                                                                                     \
        struct stat about;                                                                \
        if (is_ours(fd, &about)) {                                                        \
            dprintf(STDERR_FILENO, "diskshim: %s is not written down\n", #CALL);           \
            _exit(122);                                                                   \
        }                                                                                 \
    }
ssize_t writev(int fd, const struct iovec *parts, int count) {
    REFUSED(writev)
    return syscall(SYS_writev, fd, parts, count);
}
int fallocate(int fd, int mode, off_t at, off_t bytes) {
    REFUSED(fallocate)
    return (int)syscall(SYS_fallocate, fd, mode, at, bytes);
}
int posix_fallocate(int fd, off_t at, off_t bytes) {
    REFUSED(posix_fallocate)
    return syscall(SYS_fallocate, fd, 0, at, bytes) == 0 ? 0 : errno;
}
