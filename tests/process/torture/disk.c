/* Records what a process writes to its SQLite files, and makes fsync fail.
 *
 * Loaded with LD_PRELOAD. Every call that changes a `.db` or `.db-wal` file is made
 * and appended to the trace file DISK_TRACE under one lock, so the trace has the
 * order in which the page cache was changed. disk.rs computes from it what a disk
 * may contain after a power cut.
 *
 * DISK_FAIL_DB, DISK_FAIL_WAL and DISK_FAIL_DIR are two numbers, "PERIOD LENGTH": of
 * each PERIOD fsyncs of that file, or of the directory, the last LENGTH fail with EIO.
 * A failed fsync does not reach the disk. With DISK_IGNORE_SYNC, no fsync is made or
 * recorded, as in a program that forgot to call it. DISK_FAULT is "NUMBER ERRNO": the
 * call of that number, of all that open, read, write, sync, truncate or delete one of
 * the files, fails. While the file DISK_ROOM exists, files can grow by as many bytes in all
 * as it has; further writes beyond their end fail with ENOSPC.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

enum kind { OTHER, DATABASE, WAL, DIRECTORY };

struct record {
    char operation; /* Open, Write, Truncate, Sync, Failed sync, Unlink; X: the fault */
    char kind;
    uint16_t unused;
    uint32_t length;
    uint64_t offset;
    uint64_t inode;
};

#define MAX_FILES 65536
static char kinds[MAX_FILES];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int trace = -1;
static int ignore_sync;
static struct { long period, length, count; } failures[4];
static struct { long at; int error; long calls; } fault;
static const char *room;
static off64_t grown;

#define REAL(name) \
    static __typeof__(&name) real; \
    if (!real) real = (__typeof__(&name))dlsym(RTLD_NEXT, #name)

static void read_failures(enum kind kind, const char *variable)
{
    const char *value = getenv(variable);
    if (value)
        sscanf(value, "%ld %ld", &failures[kind].period, &failures[kind].length);
}

__attribute__((constructor)) static void start(void)
{
    REAL(open64);
    const char *path = getenv("DISK_TRACE");
    if (!path)
        return;
    trace = real(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (trace < 0)
        abort();
    ignore_sync = getenv("DISK_IGNORE_SYNC") != NULL;
    const char *value = getenv("DISK_FAULT");
    if (value)
        sscanf(value, "%ld %d", &fault.at, &fault.error);
    room = getenv("DISK_ROOM");
    read_failures(DATABASE, "DISK_FAIL_DB");
    read_failures(WAL, "DISK_FAIL_WAL");
    read_failures(DIRECTORY, "DISK_FAIL_DIR");
}

static void append(char operation, enum kind kind, int file, uint64_t offset,
                   const void *data, uint32_t length)
{
    struct stat status;
    struct record record = {operation, kind, 0, length, offset, 0};
    if (file >= 0 && fstat(file, &status) == 0)
        record.inode = status.st_ino;
    struct iovec parts[] = {{&record, sizeof record}, {(void *)data, data ? length : 0}};
    if (writev(trace, parts, 2) != (ssize_t)(sizeof record + parts[1].iov_len))
        abort();
}

/* Whether this call is the one that fails. */
static int fails(enum kind kind)
{
    if (!fault.at || kind == OTHER)
        return 0;
    pthread_mutex_lock(&lock);
    int now = ++fault.calls == fault.at;
    if (now)
        append('X', kind, -1, 0, NULL, 0);
    pthread_mutex_unlock(&lock);
    if (now)
        errno = fault.error;
    return now;
}

/* Whether the disk is too full for a file that reaches this end. */
static int is_full(int file, off64_t end)
{
    struct stat status, limit;
    if (!room || fstat(file, &status) != 0 || !S_ISREG(status.st_mode))
        return 0;
    pthread_mutex_lock(&lock);
    int full = 0;
    if (stat(room, &limit) != 0)
        grown = 0;
    else if (end > status.st_size) {
        full = grown + end - status.st_size > limit.st_size;
        if (!full)
            grown += end - status.st_size;
    }
    pthread_mutex_unlock(&lock);
    if (full)
        errno = ENOSPC;
    return full;
}

static enum kind kind_of_path(const char *path)
{
    const char *end = path + strlen(path);
    if (end - path > 3 && strcmp(end - 3, ".db") == 0)
        return DATABASE;
    if (end - path > 7 && strcmp(end - 7, ".db-wal") == 0)
        return WAL;
    return OTHER;
}

static enum kind kind_of(int file)
{
    return trace >= 0 && file >= 0 && file < MAX_FILES ? kinds[file] : OTHER;
}

static int opened(int file, const char *path)
{
    struct stat status;
    if (trace < 0 || file < 0 || file >= MAX_FILES)
        return file;
    enum kind kind = kind_of_path(path);
    if (kind == OTHER && fstat(file, &status) == 0 && S_ISDIR(status.st_mode))
        kind = DIRECTORY;
    kinds[file] = kind;
    if (kind == WAL) {
        pthread_mutex_lock(&lock);
        append('O', kind, file, 0, NULL, 0);
        pthread_mutex_unlock(&lock);
    }
    return file;
}

#define OPEN(name) \
    int name(const char *path, int flags, ...) \
    { \
        REAL(name); \
        va_list arguments; \
        va_start(arguments, flags); \
        mode_t mode = va_arg(arguments, mode_t); \
        va_end(arguments); \
        if (trace >= 0 && fails(kind_of_path(path))) \
            return -1; \
        return opened(real(path, flags, mode), path); \
    }

OPEN(open)
OPEN(open64)

int close(int file)
{
    REAL(close);
    if (file >= 0 && file < MAX_FILES)
        kinds[file] = OTHER;
    return real(file);
}

ssize_t pwrite64(int file, const void *data, size_t length, off64_t offset)
{
    REAL(pwrite64);
    enum kind kind = kind_of(file);
    if (kind == OTHER)
        return real(file, data, length, offset);
    if (fails(kind) || is_full(file, offset + length))
        return -1;
    pthread_mutex_lock(&lock);
    ssize_t written = real(file, data, length, offset);
    if (written > 0)
        append('W', kind, file, offset, data, written);
    pthread_mutex_unlock(&lock);
    return written;
}

ssize_t write(int file, const void *data, size_t length)
{
    REAL(write);
    return is_full(file, lseek(file, 0, SEEK_CUR) + length) ? -1 : real(file, data, length);
}

ssize_t pread64(int file, void *data, size_t length, off64_t offset)
{
    REAL(pread64);
    return fails(kind_of(file)) ? -1 : real(file, data, length, offset);
}

int ftruncate64(int file, off64_t length)
{
    REAL(ftruncate64);
    enum kind kind = kind_of(file);
    if (kind == OTHER)
        return real(file, length);
    if (fails(kind))
        return -1;
    pthread_mutex_lock(&lock);
    int result = real(file, length);
    if (result == 0)
        append('T', kind, file, length, NULL, 0);
    pthread_mutex_unlock(&lock);
    return result;
}

static int sync_file(int (*real)(int), int file)
{
    enum kind kind = kind_of(file);
    if (kind == OTHER)
        return real(file);
    if (ignore_sync)
        return 0;
    if (fails(kind))
        return -1;
    pthread_mutex_lock(&lock);
    int failed = failures[kind].period
        && failures[kind].count++ % failures[kind].period
            >= failures[kind].period - failures[kind].length;
    int result = failed ? -1 : real(file);
    append(result == 0 ? 'S' : 'F', kind, file, 0, NULL, 0);
    pthread_mutex_unlock(&lock);
    if (failed)
        errno = EIO;
    return result;
}

int fsync(int file)
{
    REAL(fsync);
    return sync_file(real, file);
}

int fdatasync(int file)
{
    REAL(fdatasync);
    return sync_file(real, file);
}

int unlink(const char *path)
{
    REAL(unlink);
    if (trace < 0 || kind_of_path(path) != WAL)
        return real(path);
    if (fails(WAL))
        return -1;
    pthread_mutex_lock(&lock);
    int result = real(path);
    if (result == 0)
        append('U', WAL, -1, 0, NULL, 0);
    pthread_mutex_unlock(&lock);
    return result;
}
