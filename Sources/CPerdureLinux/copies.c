#define _GNU_SOURCE
#include "perdure_copies.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "buffers.h"
#include "perdure_sha256.h"

static int open_outgoing(int flags) {
  char *path = perdure_buffer_take_string();
  if (!path) return -errno;
  int file = open(path, flags | O_CLOEXEC, 0600);
  int result = file < 0 ? -errno : file;
  free(path);
  return result;
}

int perdure_stream_open(void) {
  int file = open_outgoing(O_RDONLY);
  struct stat status;
  if (file < 0) return file;
  int result = fstat(file, &status) != 0 ? -errno : S_ISDIR(status.st_mode) ? -EISDIR : file;
  if (result < 0) close(file);
  return result;
}

int perdure_stream_create(void) { return open_outgoing(O_WRONLY | O_CREAT | O_TRUNC); }

long long perdure_stream_read(int file, long long count) {
  char *bytes = malloc((size_t)count);
  if (!bytes) return -ENOMEM;
  ssize_t got;
  do got = read(file, bytes, (size_t)count);
  while (got < 0 && errno == EINTR);
  long long result = got < 0 ? -errno : perdure_buffer_receive(bytes, (size_t)got);
  free(bytes);
  return result;
}

static int flush_folder_of(char *path) {
  char *end = path + strlen(path);
  while (end > path + 1 && end[-1] == '/') *--end = 0;
  char *slash = strrchr(path, '/');
  if (slash) slash[slash == path] = 0;
  int folder = open(slash ? path : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folder < 0) return -errno;
  int result;
  do result = fsync(folder);
  while (result != 0 && errno == EINTR);
  if (result != 0) result = -errno;
  close(folder);
  return result;
}

static int is_taken(const char *path) {
  struct stat status;
  return lstat(path, &status) == 0;
}

int perdure_path_publish(void) {
  size_t count;
  char *paths = perdure_buffer_take(&count);
  if (!paths) return -errno;
  paths[count] = 0;
  char *new = memchr(paths, 0, count);
  int result = new ? 0 : -EINVAL;
  if (new) {
    new++;
    if (renameat2(AT_FDCWD, paths, AT_FDCWD, new, RENAME_NOREPLACE) != 0) result = -errno;
    /* Some file systems cannot do both at once. */
    if (result == -EINVAL || result == -ENOSYS)
      result = is_taken(new) ? -EEXIST : rename(paths, new) == 0 ? 0 : -errno;
    if (result == 0) result = flush_folder_of(new);
  }
  free(paths);
  return result;
}

int perdure_path_remove(void) {
  char *path = perdure_buffer_take_string();
  if (!path) return -errno;
  int result = remove(path) == 0 || errno == ENOENT ? 0 : -errno;
  free(path);
  return result;
}

int perdure_path_is_taken(void) {
  char *path = perdure_buffer_take_string();
  if (!path) return -errno;
  int result = is_taken(path);
  free(path);
  return result;
}

long long perdure_path_stamp(void) {
  char *path = perdure_buffer_take_string();
  if (!path) return -errno;
  struct stat status;
  long long result;
  if (stat(path, &status) == 0)
    result = (long long)status.st_mtim.tv_sec * 1000000000 + status.st_mtim.tv_nsec;
  else
    result = -errno;
  free(path);
  return result;
}

long long perdure_digest_begin(void) {
  struct perdure_sha256_stream *stream = perdure_sha256_begin();
  return stream ? (long long)(intptr_t)stream : -ENOMEM;
}

int perdure_digest_add(long long handle) {
  size_t count;
  char *bytes = perdure_buffer_take(&count);
  if (!bytes) return -errno;
  perdure_sha256_add((struct perdure_sha256_stream *)(intptr_t)handle, bytes, count);
  free(bytes);
  return 0;
}

long long perdure_digest_end(long long handle) {
  unsigned char digest[32];
  perdure_sha256_end((struct perdure_sha256_stream *)(intptr_t)handle, digest);
  return perdure_buffer_receive((const char *)digest, sizeof digest);
}
