#define _GNU_SOURCE
#include "perdure_storage.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

int perdure_path_kind(const char *path) {
  struct stat status;
  if (stat(path, &status) != 0) return errno == ENOENT ? PERDURE_PATH_ABSENT : -errno;
  if (S_ISREG(status.st_mode)) return PERDURE_PATH_FILE;
  return S_ISDIR(status.st_mode) ? PERDURE_PATH_DIRECTORY : PERDURE_PATH_OTHER;
}

int perdure_file_create_private(const char *path) {
  int descriptor = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (descriptor < 0) return errno == EEXIST ? 0 : -errno;
  close(descriptor);
  return 0;
}

long perdure_file_name_count(const char *path) {
  struct stat status;
  return stat(path, &status) == 0 ? (long)status.st_nlink : 0;
}

int perdure_path_identity(const char *path, unsigned long *device, unsigned long *number) {
  struct stat status;
  if (stat(path, &status) != 0) return -errno;
  *device = status.st_dev;
  *number = status.st_ino;
  return 0;
}

int perdure_lock_open(const char *path) {
  int descriptor = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  return descriptor < 0 ? -errno : descriptor;
}

int perdure_lock_take(int descriptor) {
  int result;
  do result = flock(descriptor, LOCK_EX | LOCK_NB);
  while (result != 0 && errno == EINTR);
  return result == 0 ? 0 : -errno;
}

long perdure_lock_read(int descriptor, char *buffer, long capacity) {
  ssize_t count;
  do count = pread(descriptor, buffer, (size_t)capacity, 0);
  while (count < 0 && errno == EINTR);
  return count < 0 ? -errno : count;
}

int perdure_lock_write(int descriptor, const char *text, long length) {
  if (ftruncate(descriptor, 0) != 0) return -errno;
  long done = 0;
  while (done < length) {
    ssize_t count = pwrite(descriptor, text + done, (size_t)(length - done), done);
    if (count < 0 && errno != EINTR) return -errno;
    if (count > 0) done += count;
  }
  return 0;
}

int perdure_lock_look(const char *path) {
  int descriptor = open(path, O_RDONLY | O_CLOEXEC);
  return descriptor < 0 ? -errno : descriptor;
}

int perdure_lock_is_held(int descriptor, long long pid) {
  struct stat status;
  char line[256];
  int held = 0;
  if (fstat(descriptor, &status) != 0) return 0;
  FILE *locks = fopen("/proc/locks", "re");
  if (!locks) return 0;
  while (!held && fgets(line, sizeof line, locks)) {
    long long owner;
    unsigned long long inode;
    /* Some file systems show another device here than to stat. */
    held = sscanf(line, "%*d: FLOCK %*s %*s %lld %*x:%*x:%llu", &owner, &inode) == 2 &&
           owner == pid && inode == (unsigned long long)status.st_ino;
  }
  fclose(locks);
  return held;
}

void perdure_lock_close(int descriptor) {
  /* A program that is being started has copies of all descriptors until it runs, and a lock lasts as
   * long as any copy of its descriptor. */
  flock(descriptor, LOCK_UN);
  close(descriptor);
}

int perdure_host_name(char *buffer, long capacity) {
  if (capacity < 1) return -EINVAL;
  if (gethostname(buffer, (size_t)capacity) != 0) return -errno;
  buffer[capacity - 1] = 0;
  return 0;
}

long long perdure_wall_milliseconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  return (long long)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}
