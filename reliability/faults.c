/* Calls of the C library that change files under one folder, counted; one of them can go wrong.
 *
 * Loaded before the C library (LD_PRELOAD). `faults_arm` says under which folder calls count, which
 * of them goes wrong and how. Nothing happens before that. The kinds:
 *
 *   an errno > 0   the call fails with it (ENOSPC, EDQUOT, EIO, EROFS, ENOMEM ...); FOR_EVER: so do
 *                  all later ones
 *   KILL_BEFORE    the process gets SIGKILL instead of the call
 *   KILL_AFTER     the process gets SIGKILL once the call is done
 *   SHORT          a write takes half of its bytes
 *   KILL_HALF      a write takes half of its bytes, and then the process gets SIGKILL
 *   POWER          the power is cut before the call: what was not flushed by fsync is lost
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

enum { KILL_BEFORE = -1, KILL_AFTER = -2, SHORT = -3, KILL_HALF = -4, POWER = -5 };
enum { MOST = 65536 };

static char folder[PATH_MAX];
static size_t length;
static long at, forever, calls;
static int kind;
static char counted[MOST]; /* descriptors of files under the folder */

void faults_arm(const char *under, long number, int how, int for_ever) {
  strncpy(folder, under, PATH_MAX - 1);
  length = strlen(folder);
  at = number;
  kind = how;
  forever = for_ever;
  calls = 0;
}

long faults_calls(void) { return calls; }

/* Files with bytes that were not flushed. */
enum { MOST_DIRTY = 64 };
static struct {
  dev_t device;
  ino_t number;
  char path[PATH_MAX];
} dirty[MOST_DIRTY];
static int n_dirty;

static int find_dirty(const struct stat *of) {
  for (int i = 0; i < n_dirty; i++)
    if (dirty[i].device == of->st_dev && dirty[i].number == of->st_ino) return i;
  return -1;
}

static void soil(int file) {
  struct stat of;
  char link[64];
  if (fstat(file, &of) || find_dirty(&of) >= 0 || n_dirty == MOST_DIRTY) return;
  snprintf(link, sizeof link, "/proc/self/fd/%d", file);
  ssize_t n = readlink(link, dirty[n_dirty].path, PATH_MAX - 1);
  if (n < 0) return;
  dirty[n_dirty].path[n] = 0;
  dirty[n_dirty].device = of.st_dev;
  dirty[n_dirty++].number = of.st_ino;
}

static void flushed(int file) {
  struct stat of;
  int i;
  if (!fstat(file, &of) && (i = find_dirty(&of)) >= 0) dirty[i] = dirty[--n_dirty];
}

static void moved(const char *to) {
  struct stat of;
  int i;
  if (!stat(to, &of) && (i = find_dirty(&of)) >= 0) strncpy(dirty[i].path, to, PATH_MAX - 1);
}

static int is_under(int directory, const char *path) {
  char whole[PATH_MAX], link[64];
  if (!length || !path) return 0;
  if (path[0] == '/') return strncmp(path, folder, length) == 0;
  if (directory == AT_FDCWD) {
    if (!getcwd(whole, sizeof whole)) return 0;
  } else {
    snprintf(link, sizeof link, "/proc/self/fd/%d", directory);
    ssize_t n = readlink(link, whole, sizeof whole - 1);
    if (n < 0) return 0;
    whole[n] = 0;
  }
  return strncmp(whole, folder, length) == 0;
}

static int is_counted(int file) { return length && file >= 0 && file < MOST && counted[file]; }

static void die(void) {
  if (kind == POWER)
    for (int i = 0; i < n_dirty; i++) {
      struct stat of;
      if (!stat(dirty[i].path, &of) && of.st_ino == dirty[i].number && truncate(dirty[i].path, 0))
        _exit(99);
    }
  kill(getpid(), SIGKILL);
  for (;;) pause();
}

/* Count a call: 0 if it is to be done as always, an errno, or a kind below 0. */
enum { TAKES, FREES }; /* whether a call may need space */

static int now(int frees) {
  long n = __atomic_add_fetch(&calls, 1, __ATOMIC_SEQ_CST);
  if (!at || !(n == at || (forever && n > at && kind > 0))) return 0;
  if (kind == KILL_BEFORE || kind == POWER) die();
  if (frees && (kind == ENOSPC || kind == EDQUOT)) return 0;
  return kind;
}

#define NEXT(name) \
  static __typeof__(&name) real; \
  if (!real) real = (__typeof__(&name))dlsym(RTLD_NEXT, #name)

#define AROUND(condition, frees, call)            \
  int fault = (condition) ? now(frees) : 0;       \
  if (fault > 0) {                                \
    errno = fault;                                \
    return -1;                                    \
  }                                               \
  __typeof__(call) done = call;                   \
  if (fault == KILL_AFTER || fault == KILL_HALF) die(); \
  return done

#define OPENED(directory, path, flags, call)                                 \
  int writes = ((flags) & (O_CREAT | O_WRONLY | O_RDWR | O_TRUNC)) != 0;     \
  int mine = writes && is_under(directory, path);                            \
  int fault = mine ? now(TAKES) : 0;                                         \
  if (fault > 0) {                                                           \
    errno = fault;                                                           \
    return -1;                                                               \
  }                                                                          \
  int file = call;                                                           \
  if (file >= 0 && file < MOST)                                              \
    counted[file] = mine || (length && ((flags) & O_DIRECTORY) && is_under(directory, path)); \
  if (fault == KILL_AFTER) die();                                            \
  return file

#define MODE                                     \
  mode_t mode = 0;                               \
  if (flags & (O_CREAT | __O_TMPFILE)) {         \
    va_list more;                                \
    va_start(more, flags);                       \
    mode = va_arg(more, mode_t);                 \
    va_end(more);                                \
  }

int open(const char *path, int flags, ...) {
  NEXT(open);
  MODE
  OPENED(AT_FDCWD, path, flags, real(path, flags, mode));
}

int open64(const char *path, int flags, ...) {
  NEXT(open64);
  MODE
  OPENED(AT_FDCWD, path, flags, real(path, flags, mode));
}

int openat(int directory, const char *path, int flags, ...) {
  NEXT(openat);
  MODE
  OPENED(directory, path, flags, real(directory, path, flags, mode));
}

int openat64(int directory, const char *path, int flags, ...) {
  NEXT(openat64);
  MODE
  OPENED(directory, path, flags, real(directory, path, flags, mode));
}

int close(int file) {
  NEXT(close);
  int mine = is_counted(file);
  if (file >= 0 && file < MOST) counted[file] = 0;
  int fault = mine ? now(FREES) : 0;
  int done = real(file); /* closed in any case, as Linux does */
  if (fault == KILL_AFTER) die();
  if (fault > 0) {
    errno = fault;
    return -1;
  }
  return done;
}

#define WRITTEN(file, size, whole, half)        \
  int fault = is_counted(file) ? now(TAKES) : 0; \
  if (fault > 0) {                              \
    errno = fault;                              \
    return -1;                                  \
  }                                             \
  ssize_t done = (fault == SHORT || fault == KILL_HALF) && (size) > 1 ? half : whole; \
  if (is_counted(file) && done > 0) soil(file);         \
  if (fault == KILL_AFTER || fault == KILL_HALF) die(); \
  return done

ssize_t write(int file, const void *bytes, size_t size) {
  NEXT(write);
  WRITTEN(file, size, real(file, bytes, size), real(file, bytes, size / 2));
}

ssize_t pwrite(int file, const void *bytes, size_t size, off_t where) {
  NEXT(pwrite);
  WRITTEN(file, size, real(file, bytes, size, where), real(file, bytes, size / 2, where));
}

ssize_t pwrite64(int file, const void *bytes, size_t size, off64_t where) {
  NEXT(pwrite64);
  WRITTEN(file, size, real(file, bytes, size, where), real(file, bytes, size / 2, where));
}

ssize_t writev(int file, const struct iovec *pieces, int n) {
  NEXT(writev);
  WRITTEN(file, n, real(file, pieces, n), real(file, pieces, n / 2 ? n / 2 : 1));
}

static int flush(int (*real)(int), int file) {
  int done = real(file);
  if (!done) flushed(file);
  return done;
}

int fsync(int file) {
  NEXT(fsync);
  AROUND(is_counted(file), TAKES, flush(real, file));
}

int fdatasync(int file) {
  NEXT(fdatasync);
  AROUND(is_counted(file), TAKES, flush(real, file));
}

int ftruncate(int file, off_t size) {
  NEXT(ftruncate);
  AROUND(is_counted(file), TAKES, real(file, size));
}

int ftruncate64(int file, off64_t size) {
  NEXT(ftruncate64);
  AROUND(is_counted(file), TAKES, real(file, size));
}

int fchmod(int file, mode_t mode) {
  NEXT(fchmod);
  AROUND(is_counted(file), FREES, real(file, mode));
}

int chmod(const char *path, mode_t mode) {
  NEXT(chmod);
  AROUND(is_under(AT_FDCWD, path), FREES, real(path, mode));
}

static int rename_now(int (*real)(const char *, const char *), const char *from, const char *to) {
  int done = real(from, to);
  if (!done && n_dirty) moved(to);
  return done;
}

int rename(const char *from, const char *to) {
  NEXT(rename);
  AROUND(is_under(AT_FDCWD, to), TAKES, rename_now(real, from, to));
}

int renameat(int a, const char *from, int b, const char *to) {
  NEXT(renameat);
  AROUND(is_under(b, to), TAKES, real(a, from, b, to));
}

int unlink(const char *path) {
  NEXT(unlink);
  AROUND(is_under(AT_FDCWD, path), FREES, real(path));
}

int unlinkat(int directory, const char *path, int flags) {
  NEXT(unlinkat);
  AROUND(is_under(directory, path), FREES, real(directory, path, flags));
}

int mkdir(const char *path, mode_t mode) {
  NEXT(mkdir);
  AROUND(is_under(AT_FDCWD, path), TAKES, real(path, mode));
}

int rmdir(const char *path) {
  NEXT(rmdir);
  AROUND(is_under(AT_FDCWD, path), FREES, real(path));
}
