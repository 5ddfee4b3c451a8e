/* The file tree of the tier `namespaces`: an empty file system, and mounted into it what the policy
   names. Sources are reached through descriptors of the host's root, targets through descriptors of
   the new one, so that no link that anybody places leads elsewhere. */
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "launch.h"
#include "system.h"
#include "tree.h"

#define HOST "/.host"
#define EMPTY_DIRECTORY "/.empty"
#define EMPTY_FILE "/.nothing"
#define ALWAYS (MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV)

static dev_t
    own_devices[2]; /* the root's and the scratch's: here, and only here, places are made */

/* Opens `path` of the host, below its root whatever links say. */
int open_outside(const char *path, uint64_t resolve) {
  struct open_how how = {.flags = O_PATH | O_CLOEXEC,
                         .resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS | resolve};
  while (*path == '/') path++;
  long descriptor;
  int tries = 0;
  do {
    descriptor = syscall(SYS_openat2, launch.old_root, *path == 0 ? "." : path, &how, sizeof how);
    /* EAGAIN: somebody renamed on the way. */
  } while (descriptor < 0 && (errno == EAGAIN || errno == EINTR) && ++tries < 64);
  return (int)descriptor;
}

static bool is_own(int directory) {
  struct stat status;
  if (fstat(directory, &status) != 0) return false;
  return status.st_dev == own_devices[0] || status.st_dev == own_devices[1];
}

/* Steps from `directory` to `name` in it, and makes it where the launcher may make things. */
static int step(int directory, const char *name, bool make, bool as_directory) {
  int next = openat(directory, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
  if (next >= 0 || errno != ENOENT || !make) return next;
  if (!is_own(directory)) {
    errno = ENOENT;
    return -1;
  }
  if (as_directory) {
    if (mkdirat(directory, name, 0755) != 0) return -1;
  } else {
    int file = openat(directory, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0444);
    if (file < 0) return -1;
    close(file);
  }
  return openat(directory, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
}

/* Walks `path` from the root without following a link. Every directory on the way is given to
   `visit` with its descriptor. -1 with errno: ELOOP for a link, ENOENT, ENOTDIR. */
static int walk(const char *path, bool make, bool last_is_directory,
                void (*visit)(int directory, const char *so_far)) {
  char part[256];
  char so_far[4200] = "";
  int at = open("/", O_PATH | O_CLOEXEC);
  while (at >= 0 && *path != 0) {
    size_t length = strcspn(++path, "/");
    if (length == 0 || length >= sizeof part) break;
    memcpy(part, path, length);
    part[length] = 0;
    path += length;
    snprintf(so_far + strlen(so_far), sizeof so_far - strlen(so_far), "/%s", part);
    bool last = *path == 0;
    int next = step(at, part, make, !last || last_is_directory);
    int error = errno;
    close(at);
    at = next;
    errno = error;
    if (at < 0) return -1;
    struct stat status;
    if (fstat(at, &status) != 0) return -1;
    if (S_ISLNK(status.st_mode) || (!last && !S_ISDIR(status.st_mode))) {
      close(at);
      errno = S_ISLNK(status.st_mode) ? ELOOP : ENOTDIR;
      return -1;
    }
    if (!last && visit != NULL) visit(at, so_far);
  }
  return at;
}

int open_inside(const char *path, int *kind) {
  int descriptor = walk(path, false, true, NULL);
  struct stat status;
  if (descriptor >= 0 && fstat(descriptor, &status) == 0) *kind = (int)(status.st_mode & S_IFMT);
  return descriptor;
}

/* A copy of the mounts at `source`, with `attributes` on all of them, not yet anywhere. */
static int copy_of_mounts(int source, uint64_t attributes, bool mapped, const char *name) {
  int tree =
      open_tree(source, "", AT_EMPTY_PATH | AT_RECURSIVE | OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
  if (tree < 0) fail(errno, name);
  /* Private, or what the host mounts later below the source would appear inside. */
  struct mount_attr attributes_set = {.attr_set = attributes, .propagation = MS_PRIVATE};
  if (mount_setattr(tree, "", AT_EMPTY_PATH | AT_RECURSIVE, &attributes_set,
                    sizeof attributes_set)) {
    fail(errno, name);
  }
  if (mapped && launch.as_root) {
    enter(stage_idmap);
    struct mount_attr map = {.attr_set = MOUNT_ATTR_IDMAP,
                             .userns_fd = (uint64_t)launch.user_space};
    if (mount_setattr(tree, "", AT_EMPTY_PATH | AT_RECURSIVE, &map, sizeof map)) fail(errno, name);
  }
  return tree;
}

static void place(int tree, int target, const char *name) {
  int flags = MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH;
  if (move_mount(tree, "", target, "", flags) != 0) fail(errno, name);
  close(tree);
}

void bind_descriptor(int source, int target, uint64_t attributes, const char *name) {
  place(copy_of_mounts(source, attributes, false, name), target, name);
}

static bool is_directory(int descriptor) {
  struct stat status;
  return fstat(descriptor, &status) == 0 && S_ISDIR(status.st_mode);
}

/* Shows `path` of the host at the same place, if it is there. */
static void show(const char *path, uint64_t attributes) {
  int source = open_outside(path, 0);
  if (source < 0) {
    if (errno == ENOENT) return;
    fail(errno, path);
  }
  char inside[128];
  snprintf(inside, sizeof inside, "/%s", path);
  int target = walk(inside, true, is_directory(source), NULL);
  if (target < 0) fail(errno, inside);
  bind_descriptor(source, target, attributes, path);
  close(source);
  close(target);
}

static void write_inside(const char *path, const char *text) {
  int file = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0444);
  if (file < 0) fail(errno, path);
  ssize_t length = (ssize_t)strlen(text);
  if (write(file, text, (size_t)length) != length) fail(errno, path);
  close(file);
}

static void make_directory(const char *path, mode_t mode) {
  if (mkdir(path, mode) != 0 && errno != EEXIST) fail(errno, path);
  if (chmod(path, mode) != 0) fail(errno, path);
}

static void make_link(const char *target, const char *path) {
  if (symlink(target, path) != 0) fail(errno, path);
}

/* The new root is mounted over a directory that every system has, and becomes the root with the
   host's below it. Nothing of this is visible outside: the mounts were made private to us first. */
static void make_root(void) {
  enter(stage_root);
  if (mount(NULL, "/", NULL, MS_SLAVE | MS_REC, NULL) != 0) fail(errno, "/");
  static const char *const places[] = {"/tmp", "/run", "/usr", "/etc"};
  size_t i = 0;
  while (mount("tmpfs", places[i], "tmpfs", MS_NOSUID | MS_NODEV, "mode=755,size=4m") != 0) {
    if (++i == sizeof places / sizeof *places || errno != ENOENT) fail(errno, "tmpfs");
  }
  if (chdir(places[i]) != 0) fail(errno, places[i]);
  make_directory(HOST + 1, 0700);
  if (syscall(SYS_pivot_root, ".", HOST + 1) != 0) fail(errno, "pivot_root");
  if (chdir("/") != 0) fail(errno, "/");
  launch.old_root = open(HOST, O_PATH | O_DIRECTORY | O_CLOEXEC);
  struct stat status;
  if (launch.old_root < 0 || stat("/", &status) != 0) fail(errno, HOST);
  own_devices[0] = own_devices[1] = status.st_dev;
}

/* /tmp, /var/tmp, /dev/shm and /run: one file system, so one size bounds them all. */
static void make_scratch(void) {
  char options[64];
  unsigned long long size = (unsigned long long)launch.policy.scratch;
  snprintf(options, sizeof options, "mode=755,size=%llu,nr_inodes=%llu", size,
           size == 0 ? 0ULL : size / 4096 + 1024);
  make_directory("/tmp", 0755);
  if (mount("tmpfs", "/tmp", "tmpfs", MS_NOSUID | MS_NODEV, options) != 0) fail(errno, "/tmp");
  struct stat status;
  if (stat("/tmp", &status) != 0) fail(errno, "/tmp");
  own_devices[1] = status.st_dev;
  static const struct {
    const char *part, *place;
  } parts[] = {{"/tmp/shm", "/dev/shm"},
               {"/tmp/var", "/var/tmp"},
               {"/tmp/run", "/run"},
               {"/tmp/tmp", "/tmp"}};
  make_directory("/dev", 0755);
  make_directory("/var", 0755);
  for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
    make_directory(parts[i].part, 01777);
    if (i < 3) make_directory(parts[i].place, 0755);
    int source = open(parts[i].part, O_PATH | O_CLOEXEC);
    int target = open(parts[i].place, O_PATH | O_CLOEXEC);
    if (source < 0 || target < 0) fail(errno, parts[i].place);
    bind_descriptor(source, target, ALWAYS, parts[i].place);
    close(source);
    close(target);
  }
}

static void make_devices(void) {
  enter(stage_devices);
  make_scratch();
  static const char *const devices[] = SYSTEM_DEVICES;
  for (size_t i = 0; i < sizeof devices / sizeof *devices; i++) {
    show(devices[i], MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC);
  }
  make_directory("/dev/pts", 0755);
  if (mount("devpts", "/dev/pts", "devpts", MS_NOSUID | MS_NOEXEC,
            "newinstance,ptmxmode=0666,mode=620,max=64")) {
    fail(errno, "/dev/pts");
  }
  make_link("pts/ptmx", "/dev/ptmx");
  make_link("/proc/self/fd", "/dev/fd");
  make_link("/proc/self/fd/0", "/dev/stdin");
  make_link("/proc/self/fd/1", "/dev/stdout");
  make_link("/proc/self/fd/2", "/dev/stderr");
}

static const char *home(void) {
  for (size_t i = 0; i < launch.policy.environment.count; i++) {
    if (strncmp(launch.policy.environment.items[i], "HOME=", 5) == 0) {
      return launch.policy.environment.items[i] + 5;
    }
  }
  return "/tmp";
}

/* Names for the ids that occur inside, so that tools which ask find one and nothing else. */
static void make_names(uid_t uid, gid_t gid) {
  char text[4600];
  const char *rest = "nobody:x:65534:65534:nobody:/nonexistent:/bin/false\n";
  size_t length = strcspn(home(), ":\n");
  if (length > 4000) length = 0;
  snprintf(text, sizeof text, "%s:x:%u:%u::%.*s:/bin/sh\n%s%s", uid == 0 ? "root" : "user", uid,
           gid, (int)length, home(), uid == 0 ? "" : "root:x:0:0:root:/nonexistent:/bin/false\n",
           rest);
  write_inside("/etc/passwd", text);
  snprintf(text, sizeof text, "%s:x:%u:\n%snogroup:x:65534:\n", gid == 0 ? "root" : "user", gid,
           gid == 0 ? "" : "root:x:0:\n");
  write_inside("/etc/group", text);
}

static void show_system(uid_t uid, gid_t gid) {
  enter(stage_system);
  static const char *const directories[] = SYSTEM_DIRECTORIES;
  for (size_t i = 0; i < sizeof directories / sizeof *directories; i++) {
    char link[256];
    ssize_t length = readlinkat(launch.old_root, directories[i], link, sizeof link - 1);
    if (length > 0) {
      link[length] = 0;
      char path[32];
      snprintf(path, sizeof path, "/%s", directories[i]);
      make_link(link, path);
    } else {
      show(directories[i], ALWAYS | MOUNT_ATTR_RDONLY);
    }
  }
  make_directory("/etc", 0755);
  static const char *const settings[] = SYSTEM_SETTINGS;
  for (size_t i = 0; i < sizeof settings / sizeof *settings; i++) {
    show(settings[i], ALWAYS | MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOEXEC);
  }
  make_names(uid, gid);
  write_inside("/etc/hosts", "127.0.0.1 localhost sandbox\n::1 localhost\n");
  write_inside("/etc/hostname", "sandbox\n");
  write_inside("/etc/nsswitch.conf", "passwd: files\ngroup: files\nhosts: files dns\n");
  if (launch.policy.network == NETWORK_HOST) {
    show("etc/resolv.conf", ALWAYS | MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOEXEC);
  } else {
    /* With a network the host's gate answers here; without one a question fails at once. */
    write_inside("/etc/resolv.conf", "nameserver 127.0.0.1\noptions timeout:1 attempts:1\n");
  }
  if (sethostname("sandbox", 7) != 0) fail(errno, "sethostname");
}

static void show_mount(const struct mount_entry *entry) {
  enter(stage_mount);
  int source = open_outside(entry->outside, RESOLVE_NO_SYMLINKS);
  if (source < 0) fail(errno, entry->outside);
  struct stat status;
  if (fstat(source, &status) != 0) fail(errno, entry->outside);
  bool same = status.st_dev == entry->device && status.st_ino == entry->inode;
  if (entry->inode != 0 && !same) fail(ESTALE, entry->outside);
  if (!S_ISDIR(status.st_mode) && !S_ISREG(status.st_mode)) fail(EINVAL, entry->outside);
  uint64_t attributes = ALWAYS;
  if (entry->access == ACCESS_READ) attributes |= MOUNT_ATTR_RDONLY;
  if (!(entry->flags & MOUNT_EXEC)) attributes |= MOUNT_ATTR_NOEXEC;
  int target = walk(entry->inside, true, S_ISDIR(status.st_mode), NULL);
  if (target < 0) fail(errno, entry->inside);
  int tree = copy_of_mounts(source, attributes, true, entry->outside);
  enter(stage_mount);
  place(tree, target, entry->inside);
  close(source);
  close(target);
}

static bool begins_mount(int descriptor, const char *name) {
  struct statx status;
  if (statx(descriptor, "", AT_EMPTY_PATH, 0, &status) != 0) fail(errno, name);
  return (status.stx_attributes & STATX_ATTR_MOUNT_ROOT) != 0;
}

/* A mount on itself: a directory that is one cannot be renamed or removed, and so the protected
   path below it cannot be moved away and replaced. */
static void pin(int directory, const char *so_far) {
  if (is_own(directory) || begins_mount(directory, so_far)) return;
  int fresh = walk(so_far, false, true, NULL);
  if (fresh < 0) fail(errno, so_far);
  bind_descriptor(directory, fresh, 0, so_far);
  close(fresh);
}

/* Whether `path` could be protected. */
static bool protect(const char *path) {
  enter(stage_protect);
  int first = walk(path, false, true, NULL);
  if (first < 0) {
    if (errno != ENOENT && errno != ELOOP && errno != ENOTDIR) fail(errno, path);
    /* One odd entry must not cost the sandbox. The host is told, and trusts nothing there. */
    report("unprotected %s %s", errno == ELOOP ? "link" : "missing", path);
    return false;
  }
  close(first);
  int target = walk(path, false, true, pin);
  if (target < 0) fail(errno, path);
  close(target);
  /* Again, because pinning put new mounts on the way. */
  target = walk(path, false, true, NULL);
  if (target < 0) fail(errno, path);
  bind_descriptor(target, target, MOUNT_ATTR_RDONLY, path);
  close(target);
  return true;
}

/* Opened anew each time: a descriptor of another mount namespace, such as the holder's, mounts
   nothing. */
static int open_empty(const char *path) {
  int descriptor = open(path, O_PATH | O_CLOEXEC);
  if (descriptor < 0) fail(errno, path);
  return descriptor;
}

void cover(const char *path) {
  int kind = 0;
  int target = open_inside(path, &kind);
  if (target < 0) {
    if (errno == ENOENT || errno == ENOTDIR) return;
    fail(errno, path);
  }
  int source = open_empty(kind == S_IFDIR ? EMPTY_DIRECTORY : EMPTY_FILE);
  bind_descriptor(source, target, ALWAYS | MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOEXEC, path);
  close(source);
  close(target);
}

/* As `protect`, with nothing in its place: what leads to it stays, or a later sandbox would not find
   it there and show it elsewhere. What is missing is no secret of this workspace: the host is wrong. */
static void hide(const char *path) {
  enter(stage_mount);
  int target = walk(path, false, true, pin);
  if (target < 0) fail(errno, path);
  close(target);
  cover(path);
}

void build_tree(void) {
  uid_t uid = launch.as_root ? 0 : geteuid();
  gid_t gid = launch.as_root ? 0 : getegid();
  make_root();
  make_directory(EMPTY_DIRECTORY, 0555);
  write_inside(EMPTY_FILE, "");
  make_devices();
  if (launch.policy.system) show_system(uid, gid);
  for (size_t i = 0; i < launch.policy.mount_count; i++) show_mount(&launch.policy.mounts[i]);
  /* Only what is protected now stays so for the commands of a holder; of the rest the host was
     told. */
  struct text_list *paths = &launch.policy.protect;
  size_t count = 0;
  for (size_t i = 0; i < paths->count; i++) {
    if (protect(paths->items[i])) paths->items[count++] = paths->items[i];
  }
  paths->count = count;
  for (size_t i = 0; i < launch.policy.hide.count; i++) hide(launch.policy.hide.items[i]);
}

static bool is_protected(const char *path) {
  int descriptor = walk(path, false, true, NULL);
  if (descriptor < 0) return false;
  struct statvfs status;
  bool result = begins_mount(descriptor, path) && fstatvfs(descriptor, &status) == 0 &&
                (status.f_flag & ST_RDONLY) != 0;
  close(descriptor);
  return result;
}

static bool is_covered(const char *path) {
  int kind = 0;
  int descriptor = open_inside(path, &kind);
  if (descriptor < 0) return false;
  struct stat status;
  bool result = begins_mount(descriptor, path) && fstat(descriptor, &status) == 0 &&
                status.st_dev == own_devices[0];
  close(descriptor);
  return result;
}

static bool is_hidden(const char *path) {
  for (size_t i = 0; i < launch.policy.hide.count; i++) {
    size_t length = strlen(launch.policy.hide.items[i]);
    if (strncmp(path, launch.policy.hide.items[i], length) != 0) continue;
    if (path[length] == 0 || path[length] == '/') return true;
  }
  return false;
}

/* For a command of a holder, in its own mounts: the kernel takes a mount away when the host removes
   or replaces what it lies on, as editors and git do when they save. */
void mend_tree(void) {
  for (size_t i = 0; i < launch.policy.protect.count; i++) {
    const char *path = launch.policy.protect.items[i];
    if (!is_hidden(path) && !is_protected(path)) protect(path);
  }
  enter(stage_mount);
  for (size_t i = 0; i < launch.policy.hide.count; i++) {
    const char *path = launch.policy.hide.items[i];
    if (!is_covered(path)) cover(path);
  }
}

/* The last look at the host: from here on its files are not reachable by any path. */
void leave_host(void) {
  enter(stage_pivot);
  close(launch.old_root);
  launch.old_root = -1;
  if (umount2(HOST, MNT_DETACH) != 0) fail(errno, HOST);
  if (rmdir(HOST) != 0) fail(errno, HOST);
  struct mount_attr attributes = {.attr_set = MOUNT_ATTR_RDONLY | ALWAYS};
  if (mount_setattr(AT_FDCWD, "/", 0, &attributes, sizeof attributes) != 0) fail(errno, "/");
}

/* The host's file operations resolve below this descriptor and so see what commands see. */
void send_root(void) {
  if ((launch.policy.wanted_descriptors & WANT_ROOT) == 0) return;
  int root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
  if (root < 0) fail(errno, "/");
  send_descriptor(root, "r", 1);
  close(root);
}
