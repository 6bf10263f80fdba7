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
 *   POWER          the power is cut before the call, or at the end, if there are fewer calls: what
 *                  was not flushed by fsync is lost, bytes of files and new names in folders
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
static long at, forever, calls, faults;
static int kind;
static char counted[MOST]; /* descriptors of files under the folder */

void faults_arm(const char *under, long number, int how, int for_ever) {
  strncpy(folder, under, PATH_MAX - 1);
  length = strlen(folder);
  at = number;
  kind = how;
  forever = for_ever;
  calls = faults = 0;
}

long faults_calls(void) { return calls; }

/* Calls that went wrong in a process that goes on. */
long faults_happened(void) { return faults; }

/* Files with bytes that were not flushed, and how many were. */
enum { MOST_DIRTY = 64 };
static struct {
  dev_t device;
  ino_t number;
  off_t size;
  char path[PATH_MAX];
} dirty[MOST_DIRTY];
static int n_dirty;

static int find_dirty(const struct stat *of) {
  for (int i = 0; i < n_dirty; i++)
    if (dirty[i].device == of->st_dev && dirty[i].number == of->st_ino) return i;
  return -1;
}

static void soil(int file, ssize_t done) {
  struct stat of;
  char link[64];
  if (fstat(file, &of) || find_dirty(&of) >= 0 || n_dirty == MOST_DIRTY) return;
  snprintf(link, sizeof link, "/proc/self/fd/%d", file);
  ssize_t n = readlink(link, dirty[n_dirty].path, PATH_MAX - 1);
  if (n < 0) return;
  dirty[n_dirty].path[n] = 0;
  dirty[n_dirty].device = of.st_dev;
  dirty[n_dirty].size = of.st_size > done ? of.st_size - done : 0;
  dirty[n_dirty++].number = of.st_ino;
}

static int absolute(int directory, const char *path, char *whole) {
  char link[64];
  whole[0] = 0;
  if (path[0] != '/' && directory == AT_FDCWD && !getcwd(whole, PATH_MAX)) return 0;
  if (path[0] != '/' && directory != AT_FDCWD) {
    snprintf(link, sizeof link, "/proc/self/fd/%d", directory);
    ssize_t n = readlink(link, whole, PATH_MAX - 1);
    if (n < 0) return 0;
    whole[n] = 0;
  }
  size_t n = strlen(whole);
  return snprintf(whole + n, PATH_MAX - n, n ? "/%s" : "%s", path) < (int)(PATH_MAX - n);
}

/* Names that a power cut takes back: of what was made (FROM is empty) or moved since the folder was
 * flushed. What it took the place of has another name meanwhile, beside the folder: that of KEPT. */
enum { MOST_NAMES = 256 };
static struct {
  dev_t device; /* of the folder that it is in */
  ino_t number;
  char from[PATH_MAX], to[PATH_MAX];
  long kept;
} names[MOST_NAMES];
static int n_names;

static int is_watched(void) { return length && kind == POWER && n_names < MOST_NAMES; }

static int is_new(int directory, const char *path) {
  return is_watched() && faccessat(directory, path, F_OK, AT_SYMLINK_NOFOLLOW);
}

static void named(int directory, const char *from, const char *to, long kept) {
  struct stat of;
  char parent[PATH_MAX];
  if (!is_watched() || !absolute(directory, to, names[n_names].to)) return;
  names[n_names].from[0] = 0;
  if (from && !absolute(directory, from, names[n_names].from)) return;
  strcpy(parent, names[n_names].to);
  *strrchr(parent, '/') = 0;
  if (stat(parent, &of)) return;
  names[n_names].device = of.st_dev;
  names[n_names].number = of.st_ino;
  names[n_names++].kept = kept;
}

static void kept_path(long number, char *path) {
  snprintf(path, PATH_MAX, "%.*s.kept-%ld", (int)strlen(folder) - 1, folder, number);
}

/* Give what is moved over another name: its number, or 0. */
static long keep(const char *to) {
  static long number;
  char path[PATH_MAX];
  if (!is_watched()) return 0;
  kept_path(++number, path);
  unlink(path);
  return link(to, path) ? 0 : number;
}

static void take_back(int i) {
  char path[PATH_MAX];
  if (names[i].from[0])
    rename(names[i].to, names[i].from);
  else if (unlink(names[i].to))
    rmdir(names[i].to);
  if (!names[i].kept) return;
  kept_path(names[i].kept, path);
  rename(path, names[i].to);
}

static void flushed(int file) {
  struct stat of;
  int i, left = 0;
  if (fstat(file, &of)) return;
  if ((i = find_dirty(&of)) >= 0) dirty[i] = dirty[--n_dirty];
  for (i = 0; i < n_names; i++)
    if (names[i].device != of.st_dev || names[i].number != of.st_ino) names[left++] = names[i];
  n_names = left;
}

static void moved(const char *to) {
  struct stat of;
  int i;
  if (!stat(to, &of) && (i = find_dirty(&of)) >= 0) strncpy(dirty[i].path, to, PATH_MAX - 1);
}

static int is_under(int directory, const char *path) {
  char whole[PATH_MAX];
  return length && path && absolute(directory, path, whole) && !strncmp(whole, folder, length);
}

static int is_counted(int file) { return length && file >= 0 && file < MOST && counted[file]; }

static void die(void) {
  length = 0; /* no call counts any more */
  if (kind == POWER)
    for (int i = 0; i < n_dirty; i++) {
      struct stat of;
      if (stat(dirty[i].path, &of) || of.st_ino != dirty[i].number) continue;
      if (of.st_size > dirty[i].size && truncate(dirty[i].path, dirty[i].size)) _exit(99);
    }
  while (n_names) take_back(--n_names);
  kill(getpid(), SIGKILL);
  for (;;) pause();
}

/* The end of what was armed. */
void faults_end(void) {
  if (length && kind == POWER && at > calls) die();
}

/* Count a call: 0 if it is to be done as always, an errno, or a kind below 0. */
enum { TAKES, FREES }; /* whether a call may need space */

static int now(int frees) {
  long n = __atomic_add_fetch(&calls, 1, __ATOMIC_SEQ_CST);
  if (!at || !(n == at || (forever && n > at && kind > 0))) return 0;
  if (kind == KILL_BEFORE || kind == POWER) die();
  if (frees && (kind == ENOSPC || kind == EDQUOT)) return 0;
  faults += kind > 0;
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
  int makes = mine && is_new(directory, path);                               \
  int file = call;                                                           \
  if (file >= 0 && makes) named(directory, NULL, path, 0);                   \
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
  int halved = (fault == SHORT || fault == KILL_HALF) && (size) > 1; \
  faults += halved;                             \
  ssize_t done = halved ? half : whole;         \
  if (is_counted(file) && done > 0) soil(file, done);         \
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
  long kept = keep(to);
  int done = real(from, to);
  if (!done && n_dirty) moved(to);
  if (!done) named(AT_FDCWD, from, to, kept);
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

static int mkdir_now(int (*real)(const char *, mode_t), const char *path, mode_t mode) {
  int done = real(path, mode);
  if (!done) named(AT_FDCWD, NULL, path, 0);
  return done;
}

int mkdir(const char *path, mode_t mode) {
  NEXT(mkdir);
  AROUND(is_under(AT_FDCWD, path), TAKES, mkdir_now(real, path, mode));
}

int rmdir(const char *path) {
  NEXT(rmdir);
  AROUND(is_under(AT_FDCWD, path), FREES, real(path));
}
