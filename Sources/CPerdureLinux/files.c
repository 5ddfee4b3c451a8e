#define _GNU_SOURCE
#include "perdure_files.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "buffers.h"

static int flush(int descriptor, int (*call)(int)) {
  int result;
  do result = call(descriptor);
  while (result != 0 && errno == EINTR);
  return result == 0 ? 0 : -errno;
}

static int flush_parent(char *path) {
  char *end = path + strlen(path);
  while (end > path + 1 && end[-1] == '/') *--end = 0;
  char *slash = strrchr(path, '/');
  if (slash) slash[slash == path] = 0;
  int parent = open(slash ? path : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (parent < 0) return -errno;
  int result = flush(parent, fsync);
  close(parent);
  return result;
}

int perdure_folder_create(void) {
  char *path = perdure_buffer_take_string();
  if (!path) return -errno;
  int result = 0;
  if (mkdir(path, 0700) == 0)
    result = flush_parent(path);
  else if (errno != EEXIST)
    result = -errno;
  free(path);
  return result;
}

int perdure_folder_open(void) {
  char *path = perdure_buffer_take_string();
  if (!path) return -errno;
  int folder = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  int result = folder < 0 ? -errno : folder;
  free(path);
  return result;
}

int perdure_folder_is_at(int folder) {
  char *path = perdure_buffer_take_string();
  if (!path) return -errno;
  struct stat named, open;
  int result = stat(path, &named) == 0 && fstat(folder, &open) == 0 &&
               named.st_dev == open.st_dev && named.st_ino == open.st_ino;
  free(path);
  return result;
}

static int lock(int folder, int kind) {
  int result;
  do result = flock(folder, kind);
  while (result != 0 && errno == EINTR);
  return result == 0 ? 0 : -errno;
}

int perdure_folder_share(int folder) { return lock(folder, LOCK_SH); }

int perdure_folder_exclude(int folder) { return lock(folder, LOCK_EX | LOCK_NB); }

void perdure_folder_release(int folder) { lock(folder, LOCK_UN); }

static int is_regular(int folder, const struct dirent *item) {
  struct stat status;
  if (item->d_type == DT_REG) return 1;
  if (item->d_type != DT_UNKNOWN && item->d_type != DT_LNK) return 0;
  return fstatat(folder, item->d_name, &status, 0) == 0 && S_ISREG(status.st_mode);
}

long long perdure_folder_names(int folder) {
  int copy = openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (copy < 0) return -errno;
  DIR *items = fdopendir(copy);
  if (!items) {
    int code = -errno;
    close(copy);
    return code;
  }
  char *text = 0;
  size_t count = 0;
  FILE *names = open_memstream(&text, &count);
  long long result = names ? 0 : -errno;
  while (names) {
    errno = 0;
    struct dirent *item = readdir(items);
    if (!item) {
      if (errno != 0) result = -errno;
      break;
    }
    if (is_regular(folder, item)) fprintf(names, "%s/", item->d_name);
  }
  closedir(items);
  if (names && fclose(names) != 0 && result == 0) result = -errno;
  if (result == 0) result = perdure_buffer_receive(text, count);
  free(text);
  return result;
}

int perdure_file_open(int folder, int mode) {
  int flags = O_CLOEXEC | O_NONBLOCK; /* a pipe of that name must not stop us */
  if (mode == PERDURE_FILE_READ)
    flags |= O_RDONLY;
  else
    flags |= O_RDWR | O_CREAT | (mode == PERDURE_FILE_APPEND ? O_APPEND : O_TRUNC);
  char *name = perdure_buffer_take_string();
  if (!name) return -errno;
  int file = openat(folder, name, flags, 0600);
  int result = file < 0 ? -errno : file;
  free(name);
  if (file < 0) return result;
  struct stat status;
  if (fstat(file, &status) != 0)
    result = -errno;
  else if (!S_ISREG(status.st_mode))
    result = -EINVAL;
  if (result < 0) close(file);
  return result;
}

int perdure_file_write(int file) {
  size_t count, done = 0;
  char *bytes = perdure_buffer_take(&count);
  if (!bytes) return -errno;
  int result = 0;
  while (done < count && result == 0) {
    ssize_t written = write(file, bytes + done, count - done);
    if (written >= 0)
      done += (size_t)written;
    else if (errno != EINTR)
      result = -errno;
  }
  free(bytes);
  return result;
}

long long perdure_file_read(int file, long long offset) {
  if (lseek(file, offset, SEEK_SET) < 0) return -errno;
  return perdure_buffer_read_all(file, 1LL << 40);
}

long long perdure_file_read_part(int file, long long offset, long long count) {
  if (count < 1 || count > 1LL << 30) return -EINVAL;
  char *bytes = malloc((size_t)count);
  if (!bytes) return -ENOMEM;
  long long result = 0;
  while (result >= 0 && result < count) {
    ssize_t got = pread(file, bytes + result, (size_t)(count - result), offset + result);
    if (got == 0) break;
    if (got > 0) result += got;
    else if (errno != EINTR) result = -errno;
  }
  if (result >= 0) result = perdure_buffer_receive(bytes, (size_t)result);
  free(bytes);
  return result;
}

long long perdure_file_size(int file) {
  struct stat status;
  return fstat(file, &status) == 0 ? (long long)status.st_size : -errno;
}

long long perdure_file_number(int file) {
  struct stat status;
  return fstat(file, &status) == 0 ? (long long)(status.st_ino & 0x7FFFFFFFFFFFFFFF) : -errno;
}

int perdure_file_flush(int file) { return flush(file, fdatasync); }

int perdure_file_truncate(int file, long long size) {
  int result;
  do result = ftruncate(file, size);
  while (result != 0 && errno == EINTR);
  return result == 0 ? 0 : -errno;
}

int perdure_file_remove(int folder) {
  char *name = perdure_buffer_take_string();
  if (!name) return -errno;
  int result = unlinkat(folder, name, 0) == 0 ? 0 : -errno;
  free(name);
  return result;
}

int perdure_file_rename(int folder) {
  char *names = perdure_buffer_take_string();
  if (!names) return -errno;
  char *slash = strchr(names, '/');
  int result = -EINVAL;
  if (slash) {
    *slash = 0;
    result = renameat(folder, names, folder, slash + 1) == 0 ? 0 : -errno;
  }
  free(names);
  return result;
}

void perdure_file_close(int file) { close(file); }
