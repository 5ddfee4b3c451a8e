#include "guarantees.h"

#include <errno.h>
#include <string.h>

#include "launch.h"

static const char *tier_word(void) {
  switch (launch.policy.tier) {
    case TIER_NAMESPACES: return "namespaces";
    case TIER_LANDLOCK: return "landlock";
    default: return "none";
  }
}

static bool confined(void) { return launch.policy.tier != TIER_NONE; }
static bool owns_namespace(void) { return launch.policy.tier == TIER_NAMESPACES; }

static bool gives_read(void) { return owns_namespace() || (confined() && launch.landlock >= 1); }

/* Before ABI 3 Landlock let everybody truncate. */
static bool gives_write(void) { return owns_namespace() || (confined() && launch.landlock >= 3); }

static bool gives_network(void) { return confined() && launch.policy.network != NETWORK_HOST; }

static bool gives_signals(void) { return owns_namespace() || (confined() && launch.landlock >= 6); }

/* RLIMIT_NPROC means nothing to host uid 0, and without a namespace it counts the user's others
   too. */
static bool gives_process_limit(void) {
  if (launch.policy.processes == 0) return launch.policy.cgroups.count > 0;
  return owns_namespace() || launch.policy.cgroups.count > 0 || launch.uid != 0;
}

static bool gives_memory_limit(void) {
  return launch.policy.cgroups.count > 0 || launch.policy.memory > 0;
}

/* Without a namespace the monitor must outlive the command that it ends, so it must be out of
   reach. */
static bool gives_kill(void) { return gives_signals(); }

static const struct guarantee {
  const char *name;
  bool (*given)(void);
} guarantees[] = {
    {"fsRead", gives_read},
    {"fsWrite", gives_write},
    {"network", gives_network},
    {"processes", owns_namespace},
    {"signals", gives_signals},
    {"limits.pids", gives_process_limit},
    {"limits.memory", gives_memory_limit},
    {"killTree", gives_kill},
};

static const struct guarantee *find(const char *name) {
  for (size_t i = 0; i < sizeof guarantees / sizeof *guarantees; i++) {
    if (strcmp(guarantees[i].name, name) == 0) return &guarantees[i];
  }
  return NULL;
}

void check_guarantees(void) {
  enter(stage_require);
  for (size_t i = 0; i < launch.policy.require.count; i++) {
    const char *name = launch.policy.require.items[i];
    const struct guarantee *guarantee = find(name);
    if (guarantee == NULL) fail_with(EINVAL, name, "name a guarantee that exists");
    if (!guarantee->given()) fail(EOPNOTSUPP, name);
  }
  report("enforced tier %s", tier_word());
  if (owns_namespace()) report("enforced users %s", launch.as_root ? "foreign" : "own");
  if (confined()) report("enforced landlock %d", launch.landlock);
  for (size_t i = 0; i < sizeof guarantees / sizeof *guarantees; i++) {
    if (guarantees[i].given()) report("enforced %s", guarantees[i].name);
  }
  /* Only mounts protect a path; the host is told, and trusts nothing there. */
  for (size_t i = 0; !owns_namespace() && i < launch.policy.protect.count; i++) {
    report("unprotected tier %s", launch.policy.protect.items[i]);
  }
  /* No rule of Landlock covers chmod, utime and setxattr, wherever the owner is the sandbox's
     user. */
  if (launch.policy.tier == TIER_LANDLOCK) report("weakened fsMetadata");
  /* A socket of the host in a mounted directory can be connected to, whatever the mount allows. */
  if (owns_namespace() && launch.landlock < 9 && launch.policy.mount_count > 0) {
    report("weakened mountedSockets");
  }
  if (launch.policy.memory > 0 && launch.policy.cgroups.count == 0) {
    report("enforced limits.memory watched");
  }
}

void lose_guarantee(const char *name) {
  for (size_t i = 0; i < launch.policy.require.count; i++) {
    if (strcmp(launch.policy.require.items[i], name) == 0) fail(EOPNOTSUPP, name);
  }
  report("weakened %s", name);
}
