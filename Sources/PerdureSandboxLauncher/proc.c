/* /proc of the sandbox: its own processes, and of the machine only what programs ask for. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/sysinfo.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "guarantees.h"
#include "launch.h"
#include "tree.h"

static bool has_proc;

/* Since Linux 6.14 kernel.pid_max belongs to the pid namespace. Before, it is the machine's, and
   root would change it for everybody. */
static bool numbers_are_ours(void) {
  struct utsname name;
  unsigned major = 0, minor = 0;
  if (uname(&name) != 0 || sscanf(name.release, "%u.%u", &major, &minor) != 2) return false;
  return major > 6 || (major == 6 && minor >= 14);
}

static bool write_number(const char *path, uint64_t number) {
  char text[24];
  int length = snprintf(text, sizeof text, "%llu", (unsigned long long)number);
  int file = open(path, O_WRONLY | O_CLOEXEC);
  if (file < 0) return false;
  bool written = write(file, text, (size_t)length) == length;
  int error = errno;
  close(file);
  errno = error;
  return written;
}

/* RLIMIT_NPROC counts exactly; this is the wall behind it. The kernel starts again at 300 when
   numbers run out, and takes no less than 301 or eight for each possible processor. */
static void limit_numbers(void) {
  if (launch.policy.processes == 0 || !numbers_are_ours()) return;
  uint64_t least = (uint64_t)get_nprocs_conf() * 8;
  uint64_t most = launch.policy.processes + 302;
  if (write_number("/proc/sys/kernel/pid_max", most < least ? least : most)) {
    report("enforced limits.pids pid_max");
  } else {
    report("weakened pid_max %d", errno);
  }
}

/* Shared memory of System V that nobody maps is in no process' size. Only uid 0 of the namespace's
   owner may write this; without it the watch over memory adds such segments up. */
static void limit_shared_memory(void) {
  if (launch.policy.scratch > 0)
    write_number("/proc/sys/kernel/shmall", launch.policy.scratch / 4096);
}

static void mask(void) {
  static const char *const read_only[] = {"/proc/sys", "/proc/irq", "/proc/bus", "/proc/fs"};
  /* Each costs a command some ten microseconds, so what its mode keeps from strangers anyway is
     left out. */
  static const char *const hidden[] = {
      "/proc/acpi", "/proc/kallsyms",      "/proc/kcore",
      "/proc/keys", "/proc/sysrq-trigger", "/proc/timer_list",
  };
  for (size_t i = 0; i < sizeof read_only / sizeof *read_only; i++) {
    int place = open(read_only[i], O_PATH | O_NOFOLLOW | O_CLOEXEC);
    if (place < 0 && errno == ENOENT) continue;
    if (place < 0) fail(errno, read_only[i]);
    bind_descriptor(place, place, MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOEXEC, read_only[i]);
    close(place);
  }
  for (size_t i = 0; i < sizeof hidden / sizeof *hidden; i++) cover(hidden[i]);
}

/* While the host's /proc is still in sight: in a user namespace the kernel gives a new one only to
   who already sees an unmasked one. */
void mount_proc(void) {
  enter(stage_proc);
  if (mkdir("/proc", 0555) != 0 && errno != EEXIST) fail(errno, "/proc");
  has_proc = mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL) == 0;
  if (has_proc) return;
  if (!launch.policy.without_proc) fail(errno, "/proc");
  report("weakened proc %d", errno);
  /* Memory is watched through /proc. */
  if (launch.policy.memory > 0 && launch.policy.cgroups.count == 0) lose_guarantee("limits.memory");
}

void limit_process_numbers(void) {
  if (!has_proc) return;
  limit_numbers();
  limit_shared_memory();
  mask();
}
