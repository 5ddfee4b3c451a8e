/* Users and capabilities. Host uid 0 is never mapped into a sandbox: with it, and no capability at
   all, files under /proc/sys still belong to the sandbox and can be written. */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <linux/securebits.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "launch.h"

static bool read_capabilities(struct __user_cap_data_struct sets[2]) {
  struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
  return syscall(SYS_capget, &header, sets) == 0;
}

bool has_capability(int capability) {
  struct __user_cap_data_struct sets[2];
  return read_capabilities(sets) && (sets[capability / 32].effective >> (capability % 32) & 1) != 0;
}

void become_unprivileged(void) {
  enter(stage_users);
  gid_t gid = (gid_t)launch.policy.gid;
  uid_t uid = (uid_t)launch.policy.uid;
  if (geteuid() == uid && getegid() == gid) return;
  if (setgroups(0, NULL) != 0) fail(errno, "setgroups");
  if (setresgid(gid, gid, gid) != 0) fail(errno, "setresgid");
  if (setresuid(uid, uid, uid) != 0) fail(errno, "setresuid");
  /* A change of user makes /proc/self the property of root, and then nobody could write uid_map. */
  if (prctl(PR_SET_DUMPABLE, 1) != 0) fail(errno, "PR_SET_DUMPABLE");
}

static void write_file(const char *path, const char *text) {
  int file = open(path, O_WRONLY | O_CLOEXEC);
  if (file < 0) fail(errno, path);
  ssize_t length = (ssize_t)strlen(text);
  if (write(file, text, (size_t)length) != length) fail(errno, path);
  close(file);
}

/* Each id stands for itself, so that owners of files and `id` look as outside. */
void enter_user_namespace(uid_t uid, gid_t gid) {
  char map[64];
  write_file("/proc/self/setgroups", "deny");
  snprintf(map, sizeof map, "%u %u 1", uid, uid);
  write_file("/proc/self/uid_map", map);
  snprintf(map, sizeof map, "%u %u 1", gid, gid);
  write_file("/proc/self/gid_map", map);
}

/* Whether `path`, lines of name:…, gives one of the foreign ids to someone else. `field` is where
   the id stands; a count follows it or not. */
static bool range_is_taken(const char *path, int field, bool counted) {
  FILE *file = fopen(path, "re");
  if (file == NULL) return false;
  char line[512];
  bool taken = false;
  while (!taken && fgets(line, sizeof line, file) != NULL) {
    if (strncmp(line, "perdure:", 8) == 0) continue;
    char *next = line;
    for (int i = 0; i < field && next != NULL; i++) {
      next = strchr(next, ':');
      if (next != NULL) next++;
    }
    if (next == NULL) continue;
    char *end;
    unsigned long long first = strtoull(next, &end, 10);
    unsigned long long count = counted && *end == ':' ? strtoull(end + 1, NULL, 10) : 1;
    taken = end != next && first < launch.policy.first_id + launch.policy.id_count &&
            launch.policy.first_id < first + count;
  }
  fclose(file);
  return taken;
}

static void check_range(void) {
  if (launch.policy.first_id == 0) fail(EINVAL, "the policy names no range of foreign ids");
  if (range_is_taken("/etc/subuid", 1, true))
    fail(EEXIST, "/etc/subuid gives ids of the range away");
  if (range_is_taken("/etc/subgid", 1, true))
    fail(EEXIST, "/etc/subgid gives ids of the range away");
  if (range_is_taken("/etc/passwd", 2, false)) fail(EEXIST, "/etc/passwd has a user of the range");
  if (range_is_taken("/etc/group", 2, false)) fail(EEXIST, "/etc/group has a group of the range");
}

/* A user namespace exists only with a process or a descriptor: a child makes one and waits until it
   is mapped and opened. */
int make_foreign_users(void) {
  enter(stage_users);
  check_range();
  int gate[2];
  if (pipe2(gate, O_CLOEXEC) != 0) fail(errno, "pipe");
  enter(stage_namespaces);
  pid_t child = (pid_t)syscall(SYS_clone, CLONE_NEWUSER | SIGCHLD, NULL, NULL, NULL, NULL);
  if (child < 0) fail(errno, "clone");
  if (child == 0) {
    char byte;
    close(gate[1]);
    while (read(gate[0], &byte, 1) < 0 && errno == EINTR) {
    }
    _exit(0);
  }
  enter(stage_users);
  char path[64], map[64];
  snprintf(map, sizeof map, "0 %u %u", (unsigned)launch.policy.first_id,
           (unsigned)launch.policy.id_count);
  snprintf(path, sizeof path, "/proc/%d/uid_map", child);
  write_file(path, map);
  snprintf(path, sizeof path, "/proc/%d/gid_map", child);
  write_file(path, map);
  snprintf(path, sizeof path, "/proc/%d/ns/user", child);
  int space = open(path, O_RDONLY | O_CLOEXEC);
  if (space < 0) fail(errno, path);
  close(gate[0]);
  close(gate[1]);
  while (waitpid(child, NULL, 0) < 0 && errno == EINTR) {
  }
  return space;
}

void become_foreign_user(void) {
  enter(stage_users);
  if (setns(launch.user_space, CLONE_NEWUSER) != 0) fail(errno, "setns");
  if (setgroups(0, NULL) != 0) fail(errno, "setgroups");
  if (setresgid(0, 0, 0) != 0) fail(errno, "setresgid");
  if (setresuid(0, 0, 0) != 0) fail(errno, "setresuid");
}

void keep_only_capability(int capability) {
  struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
  struct __user_cap_data_struct sets[2] = {{0}};
  if (has_capability(capability)) {
    sets[capability / 32].effective = sets[capability / 32].permitted = 1U << (capability % 32);
  }
  if (syscall(SYS_capset, &header, sets) != 0) fail(errno, "capset");
}

void drop_capabilities(void) {
  enter(stage_capabilities);
  /* The bounding set first: emptying it needs a capability. Without that one it stays, and
     no_new_privs keeps it from mattering. */
  if (has_capability(CAP_SETPCAP)) {
    for (int capability = 0; capability < 64; capability++) {
      if (prctl(PR_CAPBSET_DROP, capability, 0, 0, 0) != 0) {
        if (errno == EINVAL) break;
        fail(errno, "PR_CAPBSET_DROP");
      }
    }
    unsigned long bits = SECBIT_NOROOT | SECBIT_NOROOT_LOCKED | SECBIT_NO_SETUID_FIXUP_LOCKED |
                         SECBIT_KEEP_CAPS_LOCKED | SECBIT_NO_CAP_AMBIENT_RAISE |
                         SECBIT_NO_CAP_AMBIENT_RAISE_LOCKED;
    if (prctl(PR_SET_SECUREBITS, bits, 0, 0, 0) != 0) fail(errno, "PR_SET_SECUREBITS");
  }
  if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) != 0) fail(errno, "PR_CAP_AMBIENT");
  struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
  struct __user_cap_data_struct sets[2] = {{0}};
  if (syscall(SYS_capset, &header, sets) != 0) fail(errno, "capset");
  if (!read_capabilities(sets)) fail(errno, "capget");
  for (int i = 0; i < 2; i++) {
    if ((sets[i].effective | sets[i].permitted | sets[i].inheritable) != 0) {
      fail(EPERM, "capabilities are left");
    }
  }
}
