#define _GNU_SOURCE
#include "perdure_bench.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

static int64_t nanoseconds_of(clockid_t clock) {
  struct timespec now;
  clock_gettime(clock, &now);
  return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

int64_t perdure_bench_cpu_ns(void) { return nanoseconds_of(CLOCK_PROCESS_CPUTIME_ID); }

/* The number behind `name` in a small file of /proc. */
static int64_t number_in(const char *path, const char *name) {
  char text[4096];
  int descriptor = open(path, O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) return -errno;
  ssize_t length = read(descriptor, text, sizeof text - 1);
  int error = errno;
  close(descriptor);
  if (length < 0) return -error;
  text[length] = 0;
  const char *found = strstr(text, name);
  return found ? strtoll(found + strlen(name), NULL, 10) : -ENODATA;
}

int64_t perdure_bench_written_bytes(void) { return number_in("/proc/self/io", "wchar:"); }

int64_t perdure_bench_disk_bytes(void) { return number_in("/proc/self/io", "\nwrite_bytes:"); }

int64_t perdure_bench_file_bytes(const char *path) {
  struct stat found;
  return stat(path, &found) == 0 ? found.st_size : 0;
}

int perdure_bench_sync(int descriptor, int data_only) {
  return (int)syscall(data_only ? SYS_fdatasync : SYS_fsync, descriptor);
}

int64_t perdure_bench_peak_kib(void) { return number_in("/proc/self/status", "VmHWM:"); }

double perdure_bench_load(void) {
  double load = 0;
  return getloadavg(&load, 1) == 1 ? load : -1;
}

int perdure_bench_sync_times(const char *path, int64_t *nanoseconds, int count) {
  char block[4096];
  memset(block, 'x', sizeof block);
  int descriptor = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (descriptor < 0) return -errno;
  int result = 0;
  for (int i = 0; i < count && result == 0; i++) {
    int64_t start = nanoseconds_of(CLOCK_MONOTONIC);
    if (write(descriptor, block, sizeof block) != sizeof block || fdatasync(descriptor) != 0)
      result = errno ? -errno : -EIO;
    nanoseconds[i] = nanoseconds_of(CLOCK_MONOTONIC) - start;
  }
  close(descriptor);
  unlink(path);
  return result;
}

int perdure_bench_append_synced(const char *path, const char *line, long length) {
  int descriptor = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (descriptor < 0) return -errno;
  errno = 0;
  int result = 0;
  if (write(descriptor, line, (size_t)length) != length || fsync(descriptor) != 0)
    result = errno ? -errno : -EIO;
  close(descriptor);
  return result;
}

int perdure_bench_make_folder(const char *path) {
  return mkdir(path, 0755) == 0 || errno == EEXIST ? 0 : -errno;
}

int perdure_bench_spawn(char *const *arguments, int *output) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return -errno;
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
  pid_t child = 0;
  int code = posix_spawn(&child, "/proc/self/exe", &actions, NULL, arguments, environ);
  posix_spawn_file_actions_destroy(&actions);
  close(ends[1]);
  if (code != 0) {
    close(ends[0]);
    return -code;
  }
  *output = ends[0];
  return child;
}

long perdure_bench_read(int descriptor, char *buffer, long capacity) {
  ssize_t count;
  do count = read(descriptor, buffer, (size_t)capacity);
  while (count < 0 && errno == EINTR);
  return count < 0 ? -errno : count;
}

void perdure_bench_close(int descriptor) { close(descriptor); }

void perdure_bench_kill(int child) {
  kill(child, SIGKILL);
  perdure_bench_wait(child);
}

int perdure_bench_wait(int child) {
  int status = 0;
  while (waitpid(child, &status, 0) < 0)
    if (errno != EINTR) return -errno;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
