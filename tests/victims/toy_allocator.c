/* SPDX-License-Identifier: Apache-2.0
 * A malloc to be preloaded behind the interposer. It maps memory inside malloc, through the public
 * mmap. With TOY_LOCK that happens under a lock that may not be taken twice: a recorder that
 * allocates in its mmap hook hangs here. Without, it is safe to call in signal handlers, even in
 * one that interrupted it: blocks are cut off a chunk with one atomic addition and never reused. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

#define SHOWN __attribute__((visibility("default")))

enum { kHeader = 16 };
static const size_t kChunk = (size_t)1 << 20;

struct Chunk {
  char* at;
  atomic_size_t used;
};
static _Atomic(struct Chunk*) current;
#ifdef TOY_LOCK
static atomic_flag locked = ATOMIC_FLAG_INIT;
#endif

static struct Chunk* new_chunk(size_t least) {
  const size_t bytes = least > kChunk ? least : kChunk;
  char* at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (at == MAP_FAILED) return NULL;
  struct Chunk* chunk = (struct Chunk*)(void*)at;
  chunk->at = at;
  atomic_store(&chunk->used, 64);
  return chunk;
}

static void* take(size_t alignment, size_t size) {
  const size_t need = size + alignment + kHeader;
  if (size > (size_t)PTRDIFF_MAX - 65536) {
    errno = ENOMEM;
    return NULL;
  }
#ifdef TOY_LOCK
  while (atomic_flag_test_and_set(&locked)) {
  }
#endif
  char* block = NULL;
  while (block == NULL) {
    struct Chunk* chunk = need > kChunk / 4 ? NULL : atomic_load(&current);
    const size_t room = kChunk;
    size_t at = 0;
    if (chunk != NULL) at = atomic_fetch_add(&chunk->used, need);
    if (chunk == NULL || at + need > room) {
      struct Chunk* fresh = new_chunk(need + 64);
      if (fresh == NULL) break;
      if (need > kChunk / 4) {
        chunk = fresh;
        at = 64;
      } else {
        atomic_store(&current, fresh); /* a rest of the old one may be wasted */
        continue;
      }
    }
    block = chunk->at + at + kHeader;
  }
#ifdef TOY_LOCK
  atomic_flag_clear(&locked);
#endif
  if (block == NULL) {
    errno = ENOMEM;
    return NULL;
  }
  block += (alignment - (uintptr_t)block % alignment) % alignment;
  memcpy(block - sizeof(size_t), &size, sizeof size);
  return block;
}

SHOWN void* malloc(size_t size) { return take(16, size); }
SHOWN void free(void* block) { (void)block; }
SHOWN void* calloc(size_t count, size_t size) {
  size_t bytes;
  if (__builtin_mul_overflow(count, size, &bytes)) {
    errno = ENOMEM;
    return NULL;
  }
  return take(16, bytes); /* fresh pages are zero */
}
SHOWN void* realloc(void* block, size_t size) {
  void* moved = take(16, size);
  if (block != NULL && moved != NULL) {
    size_t old;
    memcpy(&old, (char*)block - sizeof(size_t), sizeof old);
    memcpy(moved, block, old < size ? old : size);
  }
  return moved;
}
SHOWN void* memalign(size_t alignment, size_t size) {
  return take(alignment < 16 ? 16 : alignment, size);
}
SHOWN void* aligned_alloc(size_t alignment, size_t size) { return memalign(alignment, size); }
SHOWN int posix_memalign(void** out, size_t alignment, size_t size) {
  void* block = memalign(alignment, size);
  if (block == NULL) return ENOMEM;
  *out = block;
  return 0;
}
