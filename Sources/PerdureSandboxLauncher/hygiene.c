/* What a process inherits and nobody asked for: environment, descriptors, signals, limits. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "launch.h"

/* Environment strings stay readable in /proc/PID/environ whatever `environ` points to, and pid 1 of
   the sandbox is a copy of this process. So the bytes themselves go. */
void forget_environment(char **environment) {
  for (char **entry = environment; *entry != NULL; entry++) {
    memset(*entry, 0, strlen(*entry));
  }
  *environment = NULL;
}

/* The keeper is pid 1 of the sandbox, where everybody can read its command line: the launcher's
   path is one of the host's. */
void forget_arguments(char **arguments) {
  static const char name[] = "sandbox";
  size_t room = strlen(arguments[0]) + 1;
  for (char **argument = arguments; *argument != NULL; argument++) {
    memset(*argument, 0, strlen(*argument));
  }
  if (room >= sizeof name) memcpy(arguments[0], name, sizeof name);
}

void close_foreign_descriptors(void) {
  if (close_range(FD_COUNT, ~0U, 0) != 0) fail(errno, "close_range");
  for (int descriptor = FD_POLICY; descriptor < FD_COUNT; descriptor++) {
    if (fcntl(descriptor, F_SETFD, FD_CLOEXEC) != 0) {
      char name[32];
      snprintf(name, sizeof name, "descriptor %d", descriptor);
      fail(errno, name);
    }
  }
}

/* A regular file given as stdin can be opened again for writing through /proc/self/fd/0, and a
   terminal of the host can be typed into. Pipes and /dev/null give nothing away. */
void check_standard_streams(void) {
  for (int stream = 0; stream < 3; stream++) {
    struct stat status;
    char name[32];
    snprintf(name, sizeof name, "descriptor %d", stream);
    if (fstat(stream, &status) != 0) fail(errno, name);
    bool is_null = S_ISCHR(status.st_mode) && status.st_rdev == makedev(1, 3);
    if (launch.policy.tier != TIER_NONE && !S_ISFIFO(status.st_mode) && !is_null)
      fail(EINVAL, name);
  }
}

void reset_signals(void) {
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, NULL);
  for (int signal_number = 1; signal_number < NSIG; signal_number++) {
    /* SIGKILL, SIGSTOP and those of the C library refuse; nothing can be done and nothing is
       wrong. */
    signal(signal_number, SIG_DFL);
  }
}

static void limit(int resource, uint64_t soft, uint64_t hard, const char *name) {
  struct rlimit now;
  if (getrlimit(resource, &now) != 0) fail(errno, name);
  /* A lower limit of the host stays: raising it is not ours to do. */
  struct rlimit next = {.rlim_cur = soft, .rlim_max = hard};
  if (next.rlim_max > now.rlim_max) next.rlim_max = now.rlim_max;
  if (next.rlim_cur > next.rlim_max) next.rlim_cur = next.rlim_max;
  if (setrlimit(resource, &next) != 0) fail(errno, name);
}

/* A resource that can be limited by a number where 0 means that it is not. */
static void limit_if(int resource, uint64_t value, const char *name) {
  if (value > 0) limit(resource, value, value, name);
}

void set_limits(void) {
  enter(stage_limits);
  const struct policy *policy = &launch.policy;
  limit_if(RLIMIT_DATA, policy->data, "RLIMIT_DATA");
  limit_if(RLIMIT_FSIZE, policy->file, "RLIMIT_FSIZE");
  limit_if(RLIMIT_NOFILE, policy->descriptors, "RLIMIT_NOFILE");
  /* Counted per user: in a user namespace or for a foreign user that is this sandbox alone. Without
     one it counts all processes of the user. Pid 1 is one of them. */
  if (policy->processes > 0) limit_if(RLIMIT_NPROC, policy->processes + 1, "RLIMIT_NPROC");
  /* The hard limit kills what ignores SIGXCPU. */
  if (policy->cpu > 0) limit(RLIMIT_CPU, policy->cpu, policy->cpu + 1, "RLIMIT_CPU");
  limit(RLIMIT_CORE, 0, 0, "RLIMIT_CORE");
  limit(RLIMIT_MEMLOCK, 8 << 20, 8 << 20, "RLIMIT_MEMLOCK");
  limit(RLIMIT_MSGQUEUE, 0, 0, "RLIMIT_MSGQUEUE");
  limit(RLIMIT_RTPRIO, 0, 0, "RLIMIT_RTPRIO");
  limit(RLIMIT_NICE, 0, 0, "RLIMIT_NICE");
  limit(RLIMIT_SIGPENDING, 4096, 4096, "RLIMIT_SIGPENDING");
  limit(RLIMIT_STACK, 8 << 20, RLIM_INFINITY, "RLIMIT_STACK");
  /* It may be higher already. */
  if (setpriority(PRIO_PROCESS, 0, 5) != 0 && getpriority(PRIO_PROCESS, 0) < 5) fail(errno, "nice");
  /* The kernel shall take the sandbox before the host. Only raising is always allowed. */
  int file = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
  if (file >= 0) {
    if (write(file, "500", 3) != 3) report("weakened oom_score_adj");
    close(file);
  }
}
