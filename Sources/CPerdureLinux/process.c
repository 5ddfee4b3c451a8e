#include "perdure_process.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The number behind `key` in a file of /proc, or -1. */
static int64_t number_of(const char *path, const char *key) {
  FILE *file = fopen(path, "re");
  if (file == NULL) return -1;
  char line[256];
  long long value = -1;
  size_t length = strlen(key);
  while (fgets(line, sizeof line, file) != NULL) {
    if (strncmp(line, key, length) == 0 && sscanf(line + length, " %lld", &value) == 1) break;
  }
  fclose(file);
  return value;
}

int64_t perdure_process_resident_kib(int process) {
  char path[64];
  snprintf(path, sizeof path, "/proc/%d/status", process);
  return number_of(path, "VmRSS:");
}

#define GREATEST_THREAD_COUNT 1024

struct thread {
  int id;
  int64_t waits;
};

/* Fills `threads` with the threads of a process; returns how many there are, or -1. */
static int threads_of(int process, struct thread *threads) {
  char path[320];
  snprintf(path, sizeof path, "/proc/%d/task", process);
  DIR *folder = opendir(path);
  if (folder == NULL) return -1;
  int count = 0;
  struct dirent *entry;
  while (count < GREATEST_THREAD_COUNT && (entry = readdir(folder)) != NULL) {
    if (entry->d_name[0] == '.') continue;
    snprintf(path, sizeof path, "/proc/%d/task/%s/status", process, entry->d_name);
    threads[count].id = atoi(entry->d_name);
    threads[count].waits = number_of(path, "voluntary_ctxt_switches:");
    if (threads[count].waits >= 0) count += 1;
  }
  closedir(folder);
  return count;
}

int64_t perdure_process_wakeups(int process, int seconds) {
  static struct thread before[GREATEST_THREAD_COUNT], after[GREATEST_THREAD_COUNT];
  int first = threads_of(process, before);
  if (first < 0) return -1;
  sleep((unsigned)seconds);
  int last = threads_of(process, after);
  if (last < 0) return -1;
  int64_t sum = 0;
  for (int i = 0; i < last; i++) {
    int64_t known = -1;
    for (int j = 0; j < first; j++) {
      if (before[j].id == after[i].id) known = before[j].waits;
    }
    sum += known < 0 ? 1 + after[i].waits : after[i].waits - known;
  }
  return sum;
}
