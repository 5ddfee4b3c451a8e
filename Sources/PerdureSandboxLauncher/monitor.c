/* The monitor: outside of what it watches, and the only process that the host knows. */
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "guarantees.h"
#include "launch.h"

#define MOST_TIME_TO_DIE 5000 /* milliseconds */

static int64_t now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (int64_t)time.tv_sec * 1000 + time.tv_nsec / 1000000;
}

/* The keeper and all that it starts join here, before any right to do so is gone. */
static void enter_cgroups(void) {
  enter(stage_cgroup);
  for (size_t i = 0; i < launch.policy.cgroups.count; i++) {
    const char *path = launch.policy.cgroups.items[i];
    int file = open(path, O_WRONLY | O_CLOEXEC | O_NOFOLLOW);
    if (file < 0 || write(file, "0", 1) != 1) fail(errno, path);
    close(file);
  }
}

static int namespaces(void) {
  if (launch.policy.tier != TIER_NAMESPACES) return 0;
  /* Segments and queues of System V end with their command; /dev/shm is the holder's. */
  if (launch.inside_holder) return CLONE_NEWPID | CLONE_NEWIPC;
  int flags = CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWIPC | CLONE_NEWUTS | CLONE_NEWCGROUP;
  if (launch.policy.network != NETWORK_HOST) flags |= CLONE_NEWNET;
  return launch.as_root ? flags : flags | CLONE_NEWUSER;
}

static int open_signals(void) {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGTERM);
  sigaddset(&set, SIGINT);
  sigaddset(&set, SIGHUP);
  sigaddset(&set, SIGQUIT);
  if (sigprocmask(SIG_SETMASK, &set, NULL) != 0) fail(errno, "sigprocmask");
  int signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
  if (signals < 0) fail(errno, "signalfd");
  return signals;
}

/* The point after which the monitor waits no longer. The keeper ends the command at its own,
   earlier one, and says so. */
static int64_t deadline_from(int64_t start) {
  if (progress->stage != stage_running) return start + (int64_t)launch.policy.deadline;
  if (launch.policy.time == 0 || launch.policy.holder) return INT64_MAX;
  return start + (int64_t)(launch.policy.deadline + launch.policy.time + launch.policy.grace) +
         1000;
}

/* Returns when the keeper has ended or must. */
static const char *watch(int keeper, int signals) {
  int64_t start = now();
  struct pollfd events[] = {
      {.fd = keeper, .events = POLLIN},
      {.fd = FD_LIFELINE, .events = POLLIN},
      {.fd = signals, .events = POLLIN},
  };
  while (true) {
    int64_t left = deadline_from(start);
    if (left != INT64_MAX) left -= now();
    if (left <= 0) {
      return "deadline";
    }
    int count = poll(events, 3, left > 3600000 ? 3600000 : (int)left);
    if (count < 0 && errno != EINTR) return "poll";
    if (count <= 0) continue;
    if (events[0].revents != 0) return NULL;
    if (events[1].revents != 0) return "lifeline";
    if (events[2].revents != 0) return "signal";
  }
}

static int settle(const char *reason) {
  if (progress->failed) return STATUS_FAILED;
  if (progress->exited) return progress->result;
  /* A command that has begun may have done something before its keeper could say that it runs. */
  bool may_run = progress->stage == stage_exec && reason != NULL && strcmp(reason, "deadline") != 0;
  if (progress->stage != stage_running && !may_run) {
    int error = reason == NULL ? ECHILD : strcmp(reason, "deadline") == 0 ? ETIMEDOUT : ECANCELED;
    report("failed %s %d %s", stage_word(progress->stage), error,
           reason == NULL ? "the keeper ended without a word" : reason);
    report("remedy %s", error == ETIMEDOUT ? "see whether a file system hangs" : "start again");
    return STATUS_FAILED;
  }
  report("killed %s", reason == NULL ? "keeper" : reason);
  return 128 + SIGKILL;
}

static int follow(pid_t keeper, int signals) {
  int handle = pidfd_open(keeper, 0);
  if (handle < 0) fail(errno, "pidfd_open");
  const char *reason = watch(handle, signals);
  if (reason != NULL) kill(keeper, SIGKILL);
  /* The kernel reports the end of pid 1 when all inside have ended, which takes as long as the file
     system on which one of them hangs. */
  struct pollfd end = {.fd = handle, .events = POLLIN};
  bool is_over = poll(&end, 1, MOST_TIME_TO_DIE) == 1;
  while (is_over && waitpid(keeper, NULL, 0) < 0 && errno == EINTR) {
  }
  close(handle);
  /* First, because a report may end this process: nobody may be there to read it. */
  if (launch.policy.tier != TIER_NAMESPACES && !end_descendants(getpid())) is_over = false;
  if (!is_over) report("survivors");
  return settle(reason);
}

static void alarm_rang(int number) {
  (void)number;
  fail(ETIMEDOUT, "deadline");
}

/* What the monitor itself does before there is a keeper may hang, too, for example in a file
   system. Not inherited by the keeper, which the monitor then watches. */
static void set_alarm(uint64_t milliseconds) {
  struct itimerval timer = {.it_value = {.tv_sec = (time_t)(milliseconds / 1000),
                                         .tv_usec = (suseconds_t)(milliseconds % 1000 * 1000)}};
  struct sigaction action = {.sa_handler = alarm_rang};
  if (sigaction(SIGALRM, &action, NULL) != 0 || setitimer(ITIMER_REAL, &timer, NULL) != 0) {
    fail(errno, "setitimer");
  }
}

int monitor(void) {
  set_alarm(launch.policy.deadline);
  if (!launch.inside_holder) {
    enter_cgroups();
    if (launch.policy.run_as) become_unprivileged();
    launch.uid = geteuid();
    launch.gid = getegid();
    launch.landlock = landlock_version();
    launch.as_root = launch.policy.tier == TIER_NAMESPACES && launch.uid == 0;
    check_guarantees();
    launch.user_space = launch.as_root ? make_foreign_users() : -1;
  }
  enter(stage_namespaces);
  /* The monitor goes first, so that the mounts are taken down when it is gone, and not while the
     host waits for its last word. */
  if (launch.inside_holder) {
    if (unshare(CLONE_NEWNS) != 0) fail(errno, "unshare");
    mend_tree();
    enter(stage_namespaces);
  }
  int leash[2];
  int signals = open_signals();
  if (pipe2(leash, O_CLOEXEC) != 0) fail(errno, "pipe");
  if (prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0) fail(errno, "PR_SET_CHILD_SUBREAPER");
  pid_t keeper = (pid_t)syscall(SYS_clone, namespaces() | SIGCHLD, NULL, NULL, NULL, NULL);
  if (keeper < 0) fail(errno, "clone");
  if (keeper == 0) {
    close(leash[1]);
    close(signals);
    launch.leash = leash[0];
    keep();
  }
  set_alarm(0);
  close(leash[0]);
  /* As root it must still be able to end a keeper of another user, and nothing else. */
  keep_only_capability(CAP_KILL);
  return follow(keeper, signals);
}
