/* What each tier can give here: facts of the kernel, then a trial of each tier from first to last
   stage. */
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include "launch.h"

static void print_first_line(const char *key, const char *path) {
  char line[256];
  FILE *file = fopen(path, "re");
  if (file == NULL || fgets(line, sizeof line, file) == NULL) {
    printf("%s absent\n", key);
  } else {
    line[strcspn(line, "\n")] = 0;
    printf("%s %s\n", key, line);
  }
  if (file != NULL) fclose(file);
}

static void print_status_line(const char *key, const char *start) {
  char line[256];
  FILE *file = fopen("/proc/self/status", "re");
  while (file != NULL && fgets(line, sizeof line, file) != NULL) {
    if (strncmp(line, start, strlen(start)) != 0) continue;
    line[strcspn(line, "\n")] = 0;
    printf("%s %s\n", key, line + strlen(start) + strspn(line + strlen(start), " \t"));
  }
  if (file != NULL) fclose(file);
}

static void print_facts(void) {
  struct utsname name;
  if (uname(&name) == 0) printf("kernel %s %s\n", name.release, name.machine);
  printf("uid %u\n", geteuid());
  printf("sys_admin %s\n", has_capability(CAP_SYS_ADMIN) ? "yes" : "no");
  print_status_line("seccomp_mode", "Seccomp:");
  printf("landlock_abi %d\n", landlock_version());
  print_first_line("max_user_namespaces", "/proc/sys/user/max_user_namespaces");
  print_first_line("unprivileged_userns_clone", "/proc/sys/kernel/unprivileged_userns_clone");
  print_first_line("apparmor_restrict_unprivileged_userns",
                   "/proc/sys/kernel/apparmor_restrict_unprivileged_userns");
  print_first_line("cgroup_controllers", "/sys/fs/cgroup/cgroup.controllers");
  fflush(stdout);
}

/* The range that a trial as root uses if the host names none: the last one below 2^31 that is easy
   to recognise. */
#define TRIAL_FIRST_ID 0x70000000U
#define TRIAL_ID_COUNT 65536U

static const char *trial_arguments[] = {"/bin/true", NULL};

static void set_trial_policy(int tier) {
  launch.policy = (struct policy){
      .tier = tier,
      .first_id = TRIAL_FIRST_ID,
      .id_count = TRIAL_ID_COUNT,
      .system = true,
      .network = tier == TIER_NAMESPACES ? NETWORK_LOOPBACK : NETWORK_OFF,
      .arguments = {.items = trial_arguments, .count = 1},
      .directory = tier == TIER_NAMESPACES ? "/" : "/usr",
      .deadline = 5000,
      .grace = 100,
      .data = (uint64_t)1 << 30,
      .memory = (uint64_t)1 << 30,
      .processes = 64,
      .time = 5000,
      .descriptors = 256,
      .scratch = 1 << 20,
  };
}

/* Gives this process the descriptors that a host gives; the status goes to `status`. */
static void arrange_descriptors(int status) {
  int lifeline[2], control[2];
  int null_file = open("/dev/null", O_RDWR);
  if (null_file < 0 || pipe(lifeline) != 0 ||
      socketpair(AF_UNIX, SOCK_SEQPACKET, 0, control) != 0) {
    _exit(STATUS_FAILED);
  }
  /* Moved out of the way first, so that no place is overwritten before it was read. */
  int sources[FD_COUNT] = {null_file, null_file,   null_file, null_file,
                           status,    lifeline[0], control[0]};
  int moved[FD_COUNT];
  for (int i = 0; i < FD_COUNT; i++) moved[i] = fcntl(sources[i], F_DUPFD, 32);
  /* The writing end of the lifeline stays open in this process: it is the host of the trial. */
  int held = fcntl(lifeline[1], F_DUPFD_CLOEXEC, 64);
  for (int i = 0; i < FD_COUNT; i++) {
    if (moved[i] < 0 || held < 0 || dup2(moved[i], i) < 0) _exit(STATUS_FAILED);
  }
  for (int i = FD_POLICY; i < FD_COUNT; i++) fcntl(i, F_SETFD, FD_CLOEXEC);
}

/* Prints what the trial reported, each line behind the name of the tier. */
static void print_trial(const char *tier, int status) {
  FILE *records = fdopen(status, "r");
  char line[4096];
  bool ran = false;
  while (records != NULL && fgets(line, sizeof line, records) != NULL) {
    ran = ran || strcmp(line, "exit status 0\n") == 0;
    printf("%s %s", tier, line);
  }
  printf("%s %s\n", tier, ran ? "available" : "unavailable");
  fflush(stdout);
}

static void try_tier(const char *name, int tier) {
  int status[2];
  if (pipe(status) != 0) {
    perror("pipe");
    exit(STATUS_FAILED);
  }
  pid_t child = fork();
  if (child == 0) {
    close(status[0]);
    make_progress_page();
    arrange_descriptors(status[1]);
    if (status[1] >= FD_COUNT) close(status[1]);
    set_trial_policy(tier);
    reset_signals();
    _exit(monitor());
  }
  close(status[1]);
  if (child > 0) print_trial(name, status[0]);
  while (child > 0 && waitpid(child, NULL, 0) < 0 && errno == EINTR) {
  }
}

int probe(void) {
  print_facts();
  try_tier("namespaces", TIER_NAMESPACES);
  try_tier("landlock", TIER_LANDLOCK);
  try_tier("none", TIER_NONE);
  return 0;
}
