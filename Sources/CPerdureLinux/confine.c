#define _GNU_SOURCE
#include "perdure_confine.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <stdint.h>
#include <string.h>
#include <sys/file.h>
#include <sys/fsuid.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* The C library would change all threads; the calls themselves change one. */
int perdure_confine_user(unsigned user, unsigned group) {
  if (syscall(SYS_setgroups, 0, NULL) != 0) return -errno;
  setfsgid(group);
  setfsuid(user);
  /* They tell nothing of a failure, but what was before: an id that is none changes nothing. */
  if ((unsigned)setfsgid((gid_t)-1) != group || (unsigned)setfsuid((uid_t)-1) != user) return -EPERM;
  struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
  struct __user_cap_data_struct none[2];
  memset(none, 0, sizeof none);
  return syscall(SYS_capset, &header, none) != 0 ? -errno : 0;
}

/* The headers of Debian 12 end with ABI 2. */
enum {
  RIGHT_WRITE_FILE = 1 << 1,
  RIGHT_READ_FILE = 1 << 2,
  RIGHT_READ_DIR = 1 << 3,
  RIGHT_REMOVE_DIR = 1 << 4,
  RIGHT_REMOVE_FILE = 1 << 5,
  RIGHT_MAKE_DIR = 1 << 7,
  RIGHT_MAKE_REG = 1 << 8,
  RIGHT_MAKE_SYM = 1 << 12,
  RIGHT_REFER = 1 << 13,
  RIGHT_TRUNCATE = 1 << 14,
  RIGHTS_OF_ABI_1 = (1 << 13) - 1,
  RULE_PATH_BENEATH = 1,
  ASK_VERSION = 1,
};

struct path_rule {
  uint64_t allowed;
  int32_t parent;
} __attribute__((packed));

static int add_rules(int ruleset, uint64_t handled, const struct perdure_confine_rule *rules,
                     int count) {
  for (int i = 0; i < count; i++) {
    uint64_t rights = RIGHT_READ_FILE | RIGHT_READ_DIR;
    if (rules[i].writable) {
      rights |= RIGHT_WRITE_FILE | RIGHT_REMOVE_DIR | RIGHT_REMOVE_FILE | RIGHT_MAKE_DIR |
                RIGHT_MAKE_REG | RIGHT_MAKE_SYM | RIGHT_REFER | RIGHT_TRUNCATE;
    }
    struct stat status;
    if (fstat(rules[i].descriptor, &status) != 0) return -errno;
    if (!S_ISDIR(status.st_mode)) rights &= RIGHT_WRITE_FILE | RIGHT_READ_FILE | RIGHT_TRUNCATE;
    struct path_rule rule = {.allowed = rights & handled, .parent = rules[i].descriptor};
    if (syscall(SYS_landlock_add_rule, ruleset, RULE_PATH_BENEATH, &rule, 0) != 0) return -errno;
  }
  return 0;
}

int perdure_confine_files(const struct perdure_confine_rule *rules, int count) {
  long version = syscall(SYS_landlock_create_ruleset, NULL, 0, ASK_VERSION);
  if (version < 0) return -errno;
  uint64_t handled = RIGHTS_OF_ABI_1;
  if (version >= 2) handled |= RIGHT_REFER;
  if (version >= 3) handled |= RIGHT_TRUNCATE;
  int ruleset = (int)syscall(SYS_landlock_create_ruleset, &handled, sizeof handled, 0);
  if (ruleset < 0) return -errno;
  int result = add_rules(ruleset, handled, rules, count);
  if (result == 0 && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) result = -errno;
  if (result == 0 && syscall(SYS_landlock_restrict_self, ruleset, 0) != 0) result = -errno;
  close(ruleset);
  return result;
}

int perdure_confine_claim(int folder) {
  return flock(folder, LOCK_EX | LOCK_NB) != 0 ? -errno : 0;
}

int perdure_confine_give(int file, unsigned user, unsigned group) {
  return fchown(file, user, group) != 0 ? -errno : 0;
}

int perdure_confine_owner(int file, unsigned *user, unsigned *group) {
  struct stat status;
  if (fstat(file, &status) != 0) return -errno;
  *user = status.st_uid;
  *group = status.st_gid;
  return 0;
}
