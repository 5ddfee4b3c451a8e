/* Trees of processes, read from /proc. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "launch.h"

#define MOST_PROCESSES 65536

struct entry {
  pid_t process, parent;
  bool inside;
};

static struct entry *entries;
static size_t entry_count;

static ssize_t read_whole(const char *path, char *text, size_t room) {
  int file = open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return -1;
  ssize_t length = read(file, text, room - 1);
  close(file);
  if (length >= 0) text[length] = 0;
  return length;
}

static pid_t parent_of(pid_t process) {
  char path[64], text[512];
  snprintf(path, sizeof path, "/proc/%d/stat", process);
  if (read_whole(path, text, sizeof text) <= 0) return -1;
  /* "pid (name) state parent": the name may hold anything, so look from its last parenthesis. */
  const char *end = strrchr(text, ')');
  int parent = -1;
  if (end == NULL || sscanf(end, ") %*c %d", &parent) != 1) return -1;
  return parent;
}

static bool list_processes(void) {
  if (entries == NULL) entries = calloc(MOST_PROCESSES, sizeof *entries);
  DIR *folder = entries == NULL ? NULL : opendir("/proc");
  if (folder == NULL) return false;
  entry_count = 0;
  struct dirent *item;
  while ((item = readdir(folder)) != NULL && entry_count < MOST_PROCESSES) {
    if (item->d_name[0] < '1' || item->d_name[0] > '9') continue;
    pid_t process = (pid_t)atoi(item->d_name);
    pid_t parent = parent_of(process);
    if (parent >= 0) entries[entry_count++] = (struct entry){process, parent, false};
  }
  closedir(folder);
  return true;
}

/* Marks what descends from `root`. Passes until nothing changes: parents may have greater
   numbers. */
static void mark(pid_t root) {
  bool changed = true;
  while (changed) {
    changed = false;
    for (size_t i = 0; i < entry_count; i++) {
      if (entries[i].inside) continue;
      bool inside = entries[i].parent == root;
      for (size_t j = 0; !inside && j < entry_count; j++) {
        inside = entries[j].inside && entries[j].process == entries[i].parent;
      }
      if (inside) entries[i].inside = changed = true;
    }
  }
}

int each_descendant(pid_t root, pid_t except, process_visitor *visit, void *context) {
  if (!list_processes()) return -1;
  /* In a pid namespace of its own, all but pid 1 descend from it. */
  if (root == 1) {
    for (size_t i = 0; i < entry_count; i++) entries[i].inside = entries[i].process != 1;
  } else {
    mark(root);
  }
  int count = 0;
  for (size_t i = 0; i < entry_count; i++) {
    if (!entries[i].inside || entries[i].process == except) continue;
    visit(entries[i].process, context);
    count++;
  }
  return count;
}

static void stop(pid_t process, void *context) {
  (void)context;
  /* A process that may fork no more cannot outrun the next look. Root ignores this limit, so it is
     stopped as well. */
  struct rlimit none = {0, 0};
  prlimit(process, RLIMIT_NPROC, &none, NULL);
  kill(process, SIGSTOP);
}

static void end(pid_t process, void *context) {
  (void)context;
  kill(process, SIGKILL);
}

static int64_t now_in_milliseconds(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (int64_t)time.tv_sec * 1000 + time.tv_nsec / 1000000;
}

/* Ends all descendants of this process, which must be a subreaper. False if some are left after
   five seconds (they hang in the kernel). */
bool end_descendants(pid_t root) {
  int64_t deadline = now_in_milliseconds() + 5000;
  while (now_in_milliseconds() < deadline) {
    int before = -1, count = 0;
    /* Stop until two looks find the same number: then none was born between them. */
    for (int look = 0; look < 8 && count != before; look++) {
      before = count;
      count = each_descendant(root, 0, stop, NULL);
    }
    each_descendant(root, 0, end, NULL);
    pid_t reaped;
    do {
      reaped = waitpid(-1, NULL, WNOHANG);
    } while (reaped > 0);
    if (reaped < 0 && errno == ECHILD) return true;
    struct timespec pause = {.tv_nsec = 1000000};
    nanosleep(&pause, NULL);
  }
  return false;
}

static uint64_t kib_after(const char *text, const char *key) {
  const char *found = strstr(text, key);
  unsigned long long kib = 0;
  if (found != NULL) sscanf(found + strlen(key), " %llu", &kib);
  return kib;
}

/* The status of a process; that of another thread if its first one has ended, which says nothing of
   the memory. */
static bool read_status(pid_t process, char *text, size_t room) {
  char path[96];
  snprintf(path, sizeof path, "/proc/%d/status", process);
  if (read_whole(path, text, room) <= 0) return false;
  const char *threads = strstr(text, "\nThreads:");
  if (strstr(text, "\nRssAnon:") != NULL || threads == NULL || atoi(threads + 9) < 2) return true;
  snprintf(path, sizeof path, "/proc/%d/task", process);
  DIR *folder = opendir(path);
  if (folder == NULL) return false;
  bool found = false;
  for (struct dirent *entry; !found && (entry = readdir(folder)) != NULL;) {
    if (entry->d_name[0] == '.') continue;
    snprintf(path, sizeof path, "/proc/%d/task/%.20s/status", process, entry->d_name);
    found = read_whole(path, text, room) > 0 && strstr(text, "\nRssAnon:") != NULL;
  }
  closedir(folder);
  return found;
}

/* What only this sandbox has: anonymous and shared memory, and the tables that map it. Pages of files
   can be dropped. */
static void add_resident(pid_t process, void *context) {
  char text[4096];
  if (!read_status(process, text, sizeof text)) return;
  *(uint64_t *)context += (kib_after(text, "\nRssAnon:") + kib_after(text, "\nRssShmem:") +
                           kib_after(text, "\nVmPTE:"))
                          << 10;
}

/* The same with pages of several processes counted once, which is slow. Who cannot be read counts
   as resident. */
static void add_share(pid_t process, void *context) {
  char path[64], text[2048], status[4096];
  snprintf(path, sizeof path, "/proc/%d/smaps_rollup", process);
  if (read_whole(path, text, sizeof text) <= 0 || strstr(text, "\nPss_Anon:") == NULL) {
    add_resident(process, context);
    return;
  }
  uint64_t sum = kib_after(text, "\nPss_Anon:") + kib_after(text, "\nPss_Shmem:");
  if (read_status(process, status, sizeof status)) sum += kib_after(status, "\nVmPTE:");
  *(uint64_t *)context += sum << 10;
}

/* Bytes of segments of System V that nobody maps: they are in no process' size. */
static uint64_t unmapped_segments(void) {
  FILE *file = fopen("/proc/sysvipc/shm", "re");
  if (file == NULL) return 0;
  char line[512];
  uint64_t sum = 0;
  while (fgets(line, sizeof line, file) != NULL) {
    /* key id mode size creator last users uid gid cuid cgid atime dtime ctime rss swap */
    unsigned long long users, resident;
    if (sscanf(line, "%*s %*s %*s %*s %*s %*s %llu %*s %*s %*s %*s %*s %*s %*s %llu", &users,
               &resident) == 2 &&
        users == 0) {
      sum += resident;
    }
  }
  fclose(file);
  return sum;
}

/* Bytes of the tree below the keeper; exact only when more than `enough`. Whoever cannot be counted
   is too large. */
uint64_t memory_of_tree(uint64_t enough) {
  uint64_t segments = launch.policy.tier == TIER_NAMESPACES ? unmapped_segments() : 0;
  uint64_t sum = segments;
  if (each_descendant(getpid(), 0, add_resident, &sum) < 0) return UINT64_MAX;
  if (sum <= enough) return sum;
  sum = segments;
  return each_descendant(getpid(), 0, add_share, &sum) < 0 ? UINT64_MAX : sum;
}
