#define _GNU_SOURCE
#include "trail.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { places = 64, plugin_size = 128, target_size = 256, FREE = 0, TAKEN = 1, INSIDE = 2 };

/* A thread that is in code of a plugin; more than there are places leave no trail. */
struct place {
  _Atomic unsigned state;
  char plugin[plugin_size];
  char target[target_size];
};

static const char front[] = ".running-";
static struct place *trail;
static char own[3200];
static _Thread_local struct place *here;

static void copy(char *to, size_t size, const char *from) {
  size_t length = strnlen(from, size - 1);
  memcpy(to, from, length);
  to[length] = 0;
}

void perdure_trail_begin(const char *folder) {
  if (trail) return;
  int length = snprintf(own, sizeof own, "%s/%s%d", folder, front, (int)getpid());
  if (length < 0 || (size_t)length >= sizeof own) {
    own[0] = 0;
    return;
  }
  int file = open(own, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
  /* The lock, which is never given up, says that the process lives. */
  if (file < 0 || flock(file, LOCK_EX | LOCK_NB) != 0 ||
      posix_fallocate(file, 0, places * (off_t)sizeof(struct place)) != 0) {
    if (file >= 0) close(file);
    own[0] = 0;
    return;
  }
  void *memory =
      mmap(NULL, places * sizeof(struct place), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (memory != MAP_FAILED) trail = memory;
}

void perdure_trail_enter(const char *plugin, const char *target) {
  if (!trail) return;
  for (int i = 0; i < places && !here; i++) {
    unsigned none = FREE;
    if (atomic_load_explicit(&trail[i].state, memory_order_relaxed) == FREE &&
        atomic_compare_exchange_strong(&trail[i].state, &none, TAKEN))
      here = &trail[i];
  }
  if (!here) return;
  copy(here->plugin, plugin_size, plugin);
  copy(here->target, target_size, target);
  atomic_store_explicit(&here->state, INSIDE, memory_order_release);
}

void perdure_trail_leave(void) {
  struct place *place = here;
  if (!place) return;
  here = NULL;
  atomic_store_explicit(&place->state, FREE, memory_order_release);
}

void perdure_trail_remove(void) {
  if (own[0]) unlink(own);
}

/* What a process left that is gone. */
static size_t collect_one(const char *process, int file, char *lines, size_t capacity) {
  struct place place;
  size_t count = 0;
  for (int i = 0; i < places; i++) {
    if (pread(file, &place, sizeof place, i * (off_t)sizeof place) != (ssize_t)sizeof place) break;
    if (place.state != INSIDE) continue;
    place.plugin[plugin_size - 1] = place.target[target_size - 1] = 0;
    int length = snprintf(lines + count, capacity - count, "%s\t%s\t%s\n", process, place.plugin,
                          place.target);
    if (length < 0 || (size_t)length >= capacity - count) break;
    count += (size_t)length;
  }
  return count;
}

size_t perdure_trail_collect(const char *folder, char *lines, size_t capacity) {
  DIR *listing = opendir(folder);
  size_t count = 0;
  if (!listing) return 0;
  for (struct dirent *entry; (entry = readdir(listing));) {
    if (strncmp(entry->d_name, front, sizeof front - 1) != 0) continue;
    int file = openat(dirfd(listing), entry->d_name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (file < 0) continue;
    if (flock(file, LOCK_EX | LOCK_NB) == 0) {
      count += collect_one(entry->d_name + sizeof front - 1, file, lines + count, capacity - count);
      unlinkat(dirfd(listing), entry->d_name, 0);
    }
    close(file);
  }
  closedir(listing);
  return count;
}
