#include "perdure_process.h"

#include <dirent.h>
#include <stdio.h>
#include <string.h>

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

int64_t perdure_process_switches(int process) {
  char path[320];
  snprintf(path, sizeof path, "/proc/%d/task", process);
  DIR *folder = opendir(path);
  if (folder == NULL) return -1;
  int64_t sum = 0;
  struct dirent *entry;
  while ((entry = readdir(folder)) != NULL) {
    if (entry->d_name[0] == '.') continue;
    snprintf(path, sizeof path, "/proc/%d/task/%s/status", process, entry->d_name);
    int64_t count = number_of(path, "voluntary_ctxt_switches:");
    if (count > 0) sum += count;
  }
  closedir(folder);
  return sum;
}
