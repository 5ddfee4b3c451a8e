#define _GNU_SOURCE
#include "perdure_tree.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <sys/xattr.h>
#include <unistd.h>

#define ATTEMPTS 32

int perdure_tree_root(const char *path) {
  int root = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
  return root < 0 ? -errno : root;
}

/* One name after another, none of which may be a link. */
static int walk(int root, const char *path, int flags) {
  int current = fcntl(root, F_DUPFD_CLOEXEC, 3);
  if (current < 0) return -errno;
  char name[NAME_MAX + 1];
  while (*path) {
    size_t length = strcspn(path, "/");
    const char *rest = path + length;
    while (*rest == '/') rest++;
    if (length > NAME_MAX) {
      close(current);
      return -ENAMETOOLONG;
    }
    memcpy(name, path, length);
    name[length] = 0;
    path = rest;
    if (length == 0 || strcmp(name, ".") == 0) continue;
    int error = strcmp(name, "..") == 0 ? EXDEV : 0;
    int next = -1;
    if (!error) {
      next = openat(current, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
      if (next < 0) error = errno;
    }
    close(current);
    if (error) return -error;
    current = next;
    struct stat status;
    if (fstat(current, &status) != 0) error = errno;
    else if (S_ISLNK(status.st_mode) && (*path || !(flags & PERDURE_OPEN_LINK))) error = ELOOP;
    else if (*path && !S_ISDIR(status.st_mode)) error = ENOTDIR;
    else if (flags & PERDURE_OPEN_FOLDER && !*path && !S_ISDIR(status.st_mode)) error = ENOTDIR;
    if (error) {
      close(current);
      return -error;
    }
  }
  return current;
}

int perdure_tree_open(int root, const char *path, int flags, int reach) {
  if (!*path) path = ".";
  if (reach == PERDURE_REACH_NO_LINKS) return walk(root, path, flags);
  struct open_how how = {.flags = O_PATH | O_CLOEXEC};
  if (flags & PERDURE_OPEN_LINK) how.flags |= O_NOFOLLOW;
  if (flags & PERDURE_OPEN_FOLDER) how.flags |= O_DIRECTORY;
  switch (reach) {
    case PERDURE_REACH_BENEATH: how.resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS; break;
    case PERDURE_REACH_ROOT: how.resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS; break;
    case PERDURE_REACH_MOUNT:
      how.resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS | RESOLVE_NO_XDEV;
      break;
    default: break;
  }
  for (int attempt = 0; attempt < ATTEMPTS; attempt++) {
    int file = (int)syscall(SYS_openat2, root, path, &how, sizeof how);
    if (file >= 0) return file;
    if (errno == ENOSYS) return walk(root, path, flags);
    if (errno != EAGAIN && errno != EINTR) return -errno;
  }
  return -EBUSY;
}

int perdure_tree_reopen(int file, int mode) {
  int flags = O_CLOEXEC | O_NOCTTY | O_NONBLOCK;
  switch (mode) {
    case PERDURE_TREE_WRITE: flags |= O_WRONLY; break;
    case PERDURE_TREE_APPEND: flags |= O_WRONLY | O_APPEND; break;
    case PERDURE_TREE_FOLDER: flags |= O_RDONLY | O_DIRECTORY; break;
    default: flags |= O_RDONLY; break;
  }
  if (mode == PERDURE_TREE_FOLDER) {
    int folder = openat(file, ".", flags);
    return folder < 0 ? -errno : folder;
  }
  /* Of nothing but a regular file: opening a device can have an effect. */
  struct stat status;
  if (fstat(file, &status) != 0) return -errno;
  if (!S_ISREG(status.st_mode)) return -EINVAL;
  char name[40];
  snprintf(name, sizeof name, "/proc/self/fd/%d", file);
  int opened = open(name, flags);
  return opened < 0 ? -errno : opened;
}

static void fill(const struct stat *status, struct perdure_tree_entry *entry) {
  entry->kind = S_ISREG(status->st_mode)   ? PERDURE_KIND_FILE
                : S_ISDIR(status->st_mode) ? PERDURE_KIND_FOLDER
                : S_ISLNK(status->st_mode) ? PERDURE_KIND_LINK
                                           : PERDURE_KIND_OTHER;
  entry->mode = (int)(status->st_mode & 07777);
  entry->links = (long long)status->st_nlink;
  entry->size = (long long)status->st_size;
  entry->seconds = (long long)status->st_mtim.tv_sec;
  entry->nanoseconds = (long long)status->st_mtim.tv_nsec;
  entry->changed_seconds = (long long)status->st_ctim.tv_sec;
  entry->changed_nanoseconds = (long long)status->st_ctim.tv_nsec;
  entry->device = (unsigned long long)status->st_dev;
  entry->inode = (unsigned long long)status->st_ino;
}

int perdure_tree_stat(int file, struct perdure_tree_entry *entry) {
  struct stat status;
  if (fstat(file, &status) != 0) return -errno;
  fill(&status, entry);
  return 0;
}

int perdure_tree_stat_at(int folder, const char *name, struct perdure_tree_entry *entry) {
  struct stat status;
  if (fstatat(folder, name, &status, AT_SYMLINK_NOFOLLOW) != 0) return -errno;
  fill(&status, entry);
  return 0;
}

long long perdure_tree_link(int file, char *buffer, long long capacity) {
  ssize_t length = readlinkat(file, "", buffer, (size_t)capacity);
  return length < 0 ? -errno : (long long)length;
}

long long perdure_tree_path(int file, char *buffer, long long capacity) {
  char name[40];
  snprintf(name, sizeof name, "/proc/self/fd/%d", file);
  ssize_t length = readlink(name, buffer, (size_t)capacity);
  return length < 0 ? -errno : (long long)length;
}

int perdure_tree_create(int folder, const char *name, int mode) {
  int file = openat(folder, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
                    (mode_t)mode);
  return file < 0 ? -errno : file;
}

int perdure_tree_make_folder(int folder, const char *name, int mode) {
  return mkdirat(folder, name, (mode_t)mode) != 0 ? -errno : 0;
}

int perdure_tree_remove(int folder, const char *name, int is_folder) {
  return unlinkat(folder, name, is_folder ? AT_REMOVEDIR : 0) != 0 ? -errno : 0;
}

int perdure_tree_rename(int folder, const char *name, int new_folder, const char *new_name) {
  return renameat(folder, name, new_folder, new_name) != 0 ? -errno : 0;
}

/* As getdents64 writes it. */
struct raw_entry {
  unsigned long long inode;
  long long offset;
  unsigned short length;
  unsigned char type;
  char name[];
};

long long perdure_tree_names(int folder, char *buffer, long long capacity) {
  _Alignas(struct raw_entry) char raw[32768];
  if (capacity < (long long)sizeof raw) return -EINVAL;
  long long used = 0;
  while (used == 0) {
    long count = syscall(SYS_getdents64, folder, raw, sizeof raw);
    if (count < 0) return -errno;
    if (count == 0) return 0;
    for (long at = 0; at < count;) {
      const struct raw_entry *entry = (const struct raw_entry *)(raw + at);
      at += entry->length;
      if (strcmp(entry->name, ".") == 0 || strcmp(entry->name, "..") == 0) continue;
      switch (entry->type) {
        case DT_REG: buffer[used++] = PERDURE_KIND_FILE; break;
        case DT_DIR: buffer[used++] = PERDURE_KIND_FOLDER; break;
        case DT_LNK: buffer[used++] = PERDURE_KIND_LINK; break;
        case DT_UNKNOWN: buffer[used++] = 0; break;
        default: buffer[used++] = PERDURE_KIND_OTHER; break;
      }
      size_t length = strlen(entry->name) + 1;
      memcpy(buffer + used, entry->name, length);
      used += (long long)length;
    }
  }
  return used;
}

long long perdure_tree_read(int file, void *buffer, long long count, long long offset) {
  while (1) {
    ssize_t length = pread(file, buffer, (size_t)count, (off_t)offset);
    if (length >= 0) return (long long)length;
    if (errno != EINTR) return -errno;
  }
}

int perdure_tree_write(int file, const void *bytes, long long count) {
  const char *rest = bytes;
  while (count > 0) {
    ssize_t length = write(file, rest, (size_t)count);
    if (length < 0) {
      if (errno == EINTR) continue;
      return -errno;
    }
    rest += length;
    count -= (long long)length;
  }
  return 0;
}

int perdure_tree_truncate(int file, long long size) {
  return ftruncate(file, (off_t)size) != 0 ? -errno : 0;
}

int perdure_tree_flush(int file) { return fsync(file) != 0 ? -errno : 0; }

int perdure_tree_duplicate(int file) {
  int copy = fcntl(file, F_DUPFD_CLOEXEC, 3);
  return copy < 0 ? -errno : copy;
}

void perdure_tree_close(int file) { close(file); }

static void copy_attributes(int other, int file) {
  char names[4096];
  char name[40];
  /* Names of what was opened for its name only cannot be listed; through the kernel's own link they
   * can. */
  snprintf(name, sizeof name, "/proc/self/fd/%d", other);
  ssize_t length = listxattr(name, names, sizeof names);
  for (ssize_t at = 0; at < length; at += (ssize_t)strlen(names + at) + 1) {
    char value[4096];
    /* What a program may do was given to what it was before. */
    if (strcmp(names + at, "security.capability") == 0) continue;
    ssize_t size = getxattr(name, names + at, value, sizeof value);
    if (size >= 0) (void)!fsetxattr(file, names + at, value, (size_t)size, 0);
  }
}

void perdure_tree_copy_attributes(int other, int file) {
  struct stat status;
  if (fstat(other, &status) != 0) return;
  copy_attributes(other, file);
  /* The owner first: a change of it takes bits of the mode away. */
  (void)!fchown(file, status.st_uid, status.st_gid);
  /* New content must not run in the name of the owner or the group: as with a write in place. */
  (void)!fchmod(file, status.st_mode & 01777);
}

long long perdure_tree_count(const void *bytes, long long count, int byte) {
  const char *at = bytes;
  const char *end = at + count;
  long long found = 0;
  while (at < end && (at = memchr(at, byte, (size_t)(end - at)))) {
    found++;
    at++;
  }
  return found;
}

long long perdure_tree_file_system(int file) {
  struct statfs status;
  return fstatfs(file, &status) != 0 ? -errno : (long long)status.f_type;
}

int perdure_tree_make_fifo(const char *path) { return mkfifo(path, 0600) != 0 ? -errno : 0; }
