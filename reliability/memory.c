/* Allocations of at least some bytes, counted; one of them fails.
 *
 * Loaded before the C library (LD_PRELOAD). Nothing happens before `memory_arm`.
 */
#include <errno.h>
#include <stddef.h>

extern void *__libc_malloc(size_t);
extern void *__libc_calloc(size_t, size_t);
extern void *__libc_realloc(void *, size_t);
extern void *__libc_memalign(size_t, size_t);

static size_t least = (size_t)-1;
static long at, count;

void memory_arm(size_t bytes, long number) {
  at = number;
  count = 0;
  least = bytes;
}

long memory_count(void) { return count; }

/* Callers whose allocations never fail: see `memory.py`. */
static size_t spared_from, spared_to;

void memory_spare(size_t from, size_t to) {
  spared_from = from;
  spared_to = to;
}

static int fails(size_t bytes, void *caller) {
  if (bytes < least || ((size_t)caller >= spared_from && (size_t)caller < spared_to)) return 0;
  if (__atomic_add_fetch(&count, 1, __ATOMIC_RELAXED) != at) return 0;
  errno = ENOMEM;
  return 1;
}

void *malloc(size_t bytes) { return fails(bytes, __builtin_return_address(0)) ? NULL : __libc_malloc(bytes); }

void *calloc(size_t n, size_t bytes) {
  return fails(n * bytes, __builtin_return_address(0)) ? NULL : __libc_calloc(n, bytes);
}

void *realloc(void *old, size_t bytes) { return fails(bytes, __builtin_return_address(0)) ? NULL : __libc_realloc(old, bytes); }

void *memalign(size_t unit, size_t bytes) {
  return fails(bytes, __builtin_return_address(0)) ? NULL : __libc_memalign(unit, bytes);
}

void *aligned_alloc(size_t unit, size_t bytes) { return memalign(unit, bytes); }

int posix_memalign(void **place, size_t unit, size_t bytes) {
  void *made = memalign(unit, bytes);
  if (!made) return ENOMEM;
  *place = made;
  return 0;
}
