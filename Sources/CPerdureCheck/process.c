/* Processes of their own, and what is left in this one. */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "internal.h"

extern char **environ;

void perdure_check_pause(int64_t ms) {
  struct timespec pause = {ms / 1000, ms % 1000 * 1000000};
  while (nanosleep(&pause, &pause) && errno == EINTR) {
  }
}

static int64_t entries(const char *path) {
  DIR *folder = opendir(path);
  struct dirent *entry;
  int64_t count = 0;
  if (!folder) return -1;
  while ((entry = readdir(folder)))
    if (entry->d_name[0] != '.') count++;
  closedir(folder);
  return count;
}

int64_t perdure_check_threads(void) {
  int64_t least = INT64_MAX;
  int round;
  for (round = 0; round < 30; round++) {
    int64_t own = check_own_threads, count = entries("/proc/self/task") - own;
    if (count < least) least = count;
    perdure_check_pause(10);
  }
  return least;
}

/* The folder itself is open while it is read. */
int64_t perdure_check_descriptors(void) { return entries("/proc/self/fd") - 1; }

static size_t drain(int from, uint8_t *told, size_t length, size_t capacity, int *is_open) {
  uint8_t spare[4096];
  for (;;) {
    int is_full = length >= capacity;
    ssize_t count = read(from, is_full ? spare : told + length, is_full ? sizeof spare : capacity - length);
    if (count < 0 && errno == EINTR) continue;
    if (count == 0) *is_open = 0;
    if (count <= 0) return length;
    if (!is_full) length += (size_t)count;
  }
}

static int launch(const char *folder, const uint8_t *arguments, size_t length, int stream, int told,
                  pid_t *child) {
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  char **words = calloc(length + 2, sizeof *words);
  size_t at, count = 1;
  int status;
  if (!words || length == 0 || arguments[length - 1]) return -EINVAL;
  words[0] = (char *)"perdure";
  for (at = 0; at < length; at += strlen(words[count++]) + 1) words[count] = (char *)arguments + at;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addchdir_np(&actions, folder);
  posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", O_WRONLY, 0);
  posix_spawn_file_actions_addopen(&actions, 2, "/dev/null", O_WRONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, told, stream);
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
  status = posix_spawn(child, "/proc/self/exe", &actions, &attributes, words, environ);
  posix_spawn_file_actions_destroy(&actions);
  posix_spawnattr_destroy(&attributes);
  free(words);
  return status ? -status : 0;
}

int32_t perdure_check_run(const char *folder, const uint8_t *arguments, size_t length,
                          int stream, int64_t limit_ms, uint8_t *told, size_t capacity,
                          perdure_check_end *end) {
  int ends[2], is_open = 1, status = 0, result;
  pid_t child = 0, gone = 0;
  int64_t until = perdure_check_now_ms() + limit_ms;
  memset(end, 0, sizeof *end);
  if (pipe2(ends, O_CLOEXEC)) return -errno;
  result = launch(folder, arguments, length, stream, ends[1], &child);
  close(ends[1]);
  if (result) {
    close(ends[0]);
    return result;
  }
  fcntl(ends[0], F_SETFL, O_NONBLOCK);
  while (gone != child) {
    struct pollfd wait = {ends[0], POLLIN, 0};
    if (is_open) poll(&wait, 1, 20);
    else perdure_check_pause(5);
    end->length = drain(ends[0], told, end->length, capacity, &is_open);
    gone = waitpid(child, &status, WNOHANG);
    if (gone < 0 && errno != EINTR) break;
    if (gone != child && !end->timed_out && perdure_check_now_ms() > until) {
      end->timed_out = 1;
      kill(-child, SIGKILL);
    }
  }
  end->length = drain(ends[0], told, end->length, capacity, &is_open);
  close(ends[0]);
  kill(-child, SIGKILL);
  end->status = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  end->signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
  return 0;
}

int32_t perdure_check_make_folder(char *path, size_t capacity) {
  const char *parent = getenv("TMPDIR");
  if (!parent || parent[0] != '/') parent = "/tmp";
  if (snprintf(path, capacity, "%s/perdure-check-XXXXXX", parent) >= (int)capacity) return -1;
  return mkdtemp(path) ? 0 : -1;
}

static int remove_one(const char *path, const struct stat *status, int kind, struct FTW *place) {
  (void)status, (void)kind, (void)place;
  remove(path);
  return 0;
}

void perdure_check_remove_folder(const char *path) { nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS); }
