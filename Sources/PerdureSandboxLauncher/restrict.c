/* Landlock, and the order in which a process of the sandbox restricts itself. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>

#include "kernel.h"
#include "launch.h"
#include "system.h"

#define READ (LL_FS_READ_FILE | LL_FS_READ_DIR)
#define WRITE \
  (LL_FS_WRITE_FILE | LL_FS_REMOVE_DIR | LL_FS_REMOVE_FILE | LL_FS_MAKE_DIR | LL_FS_MAKE_REG | \
   LL_FS_MAKE_SOCK | LL_FS_MAKE_FIFO | LL_FS_MAKE_SYM | LL_FS_REFER | LL_FS_TRUNCATE)
/* What a rule may give on something that is no directory. */
#define OF_A_FILE \
  (LL_FS_EXECUTE | LL_FS_READ_FILE | LL_FS_WRITE_FILE | LL_FS_TRUNCATE | LL_FS_IOCTL_DEV)

static int ruleset = -1;
static uint64_t handled;

int landlock_version(void) {
  long version = syscall(SYS_landlock_create_ruleset, NULL, 0, LL_CREATE_VERSION);
  return version < 0 ? 0 : (int)version;
}

static uint64_t handled_rights(int version) {
  uint64_t rights = (LL_FS_MAKE_SYM << 1) - 1;
  if (version >= 2) rights |= LL_FS_REFER;
  if (version >= 3) rights |= LL_FS_TRUNCATE;
  if (version >= 5) rights |= LL_FS_IOCTL_DEV;
  if (version >= 9) rights |= LL_FS_RESOLVE_UNIX;
  return rights;
}

static void allow_descriptor(int descriptor, uint64_t rights, const char *name) {
  struct stat status;
  if (fstat(descriptor, &status) != 0) fail(errno, name);
  if (!S_ISDIR(status.st_mode)) rights &= OF_A_FILE;
  struct ll_path rule = {.allowed = rights & handled, .parent = descriptor};
  if (rule.allowed == 0) return;
  if (syscall(SYS_landlock_add_rule, ruleset, LL_RULE_PATH_BENEATH, &rule, 0) != 0)
    fail(errno, name);
}

/* `path` of the tree in which this process now lives; missing is fine if `optional`. */
static void allow(const char *path, uint64_t rights, bool optional) {
  int descriptor = open(path, O_PATH | O_CLOEXEC);
  if (descriptor < 0) {
    if (optional) return;
    fail(errno, path);
  }
  allow_descriptor(descriptor, rights, path);
  close(descriptor);
}

static void allow_each(const char *const *paths, size_t count, uint64_t rights) {
  char path[64];
  for (size_t i = 0; i < count; i++) {
    snprintf(path, sizeof path, "/%s", paths[i]);
    allow(path, rights, true);
  }
}

/* The mounts confine already; the rules stand behind them. */
static void allow_own_tree(void) {
  allow("/", READ | LL_FS_EXECUTE, false);
  /* Only here may sockets of others be connected to: those of a holder's other commands. */
  static const char *const scratch[] = {"/tmp", "/var/tmp", "/dev/shm", "/run"};
  for (size_t i = 0; i < sizeof scratch / sizeof *scratch; i++) {
    allow(scratch[i], READ | WRITE | LL_FS_EXECUTE | LL_FS_RESOLVE_UNIX, false);
  }
  allow("/dev", READ | LL_FS_WRITE_FILE | LL_FS_TRUNCATE | LL_FS_IOCTL_DEV, false);
  allow("/proc", READ | LL_FS_WRITE_FILE, true);
}

/* There is only the host's tree: what is not named here does not exist for the sandbox. */
static void allow_parts_of_host(void) {
  static const char *const devices[] = SYSTEM_DEVICES;
  allow_each(devices, sizeof devices / sizeof *devices,
             LL_FS_READ_FILE | LL_FS_WRITE_FILE | LL_FS_TRUNCATE | LL_FS_IOCTL_DEV);
  allow("/proc", READ, true);
  if (!launch.policy.system) return;
  static const char *const directories[] = SYSTEM_DIRECTORIES;
  static const char *const settings[] = SYSTEM_SETTINGS;
  static const char *const names[] = SYSTEM_NAMES;
  allow_each(directories, sizeof directories / sizeof *directories, READ | LL_FS_EXECUTE);
  allow_each(settings, sizeof settings / sizeof *settings, READ);
  allow_each(names, sizeof names / sizeof *names, READ);
}

static void allow_mount(const struct mount_entry *entry) {
  uint64_t rights = READ;
  if (entry->access == ACCESS_WRITE) rights |= WRITE;
  if (entry->flags & MOUNT_EXEC) rights |= LL_FS_EXECUTE;
  int kind;
  int descriptor = open_inside(entry->inside, &kind);
  if (descriptor < 0) fail(errno, entry->inside);
  struct stat status;
  if (fstat(descriptor, &status) != 0) fail(errno, entry->inside);
  bool same = status.st_dev == entry->device && status.st_ino == entry->inode;
  if (launch.policy.tier == TIER_LANDLOCK && entry->inode != 0 && !same) {
    fail(ESTALE, entry->inside);
  }
  allow_descriptor(descriptor, rights, entry->inside);
  close(descriptor);
}

void restrict_files(void) {
  enter(stage_landlock);
  int version = launch.landlock;
  if (version == 0) {
    if (launch.policy.tier == TIER_LANDLOCK) fail(EOPNOTSUPP, "the kernel has no Landlock");
    report("weakened landlock");
    return;
  }
  handled = handled_rights(version);
  struct ll_ruleset rules = {.fs = handled};
  if (version >= 6) rules.scoped = LL_SCOPE_ABSTRACT_UNIX | LL_SCOPE_SIGNAL;
  /* In a network namespace of its own a sandbox may use TCP as it likes. */
  if (version >= 4 && launch.policy.tier == TIER_LANDLOCK && launch.policy.network == NETWORK_OFF) {
    rules.net = LL_NET_BIND_TCP | LL_NET_CONNECT_TCP;
  }
  size_t size = version >= 6 ? sizeof rules : version >= 4 ? 16 : 8;
  ruleset = (int)syscall(SYS_landlock_create_ruleset, &rules, size, 0);
  if (ruleset < 0) fail(errno, "landlock_create_ruleset");
  if (launch.policy.tier == TIER_NAMESPACES) {
    allow_own_tree();
  } else {
    allow_parts_of_host();
  }
  for (size_t i = 0; i < launch.policy.mount_count; i++) allow_mount(&launch.policy.mounts[i]);
  enter(stage_landlock);
  /* A model that tries doors would fill the audit log. */
  unsigned flags = version >= 7 ? LL_RESTRICT_LOG_SAME_EXEC_OFF : 0;
  if (syscall(SYS_landlock_restrict_self, ruleset, flags) != 0)
    fail(errno, "landlock_restrict_self");
  close(ruleset);
}

void restrict_self(void) {
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) fail(errno, "PR_SET_NO_NEW_PRIVS");
  restrict_files();
  restrict_calls();
}
