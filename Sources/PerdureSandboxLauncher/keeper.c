/* The keeper: builds the sandbox from inside, starts the command, and stays until it ends. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "launch.h"

#define LOOK_AT_MEMORY 200 /* milliseconds */
#define LOOK_AT_DISK 1000
#define LEAST_FREE_FILES 4096

static pid_t command;
static int64_t end_at = INT64_MAX; /* when what was asked to end is made to */
static int64_t time_is_up = INT64_MAX;
static int64_t next_memory, next_disk;

static int64_t now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (int64_t)time.tv_sec * 1000 + time.tv_nsec / 1000000;
}

static bool owns_namespace(void) { return launch.policy.tier == TIER_NAMESPACES; }

static void send_signal(pid_t process, void *context) { kill(process, *(int *)context); }

static void signal_all(int number) {
  if (owns_namespace()) {
    kill(-1, number);
  } else {
    each_descendant(getpid(), 0, send_signal, &number);
  }
}

/* The end of pid 1 is the end of all; in the other tiers the monitor ends what is left. */
static void finish(int result) __attribute__((noreturn));
static void finish(int result) {
  progress->result = result;
  progress->exited = true;
  _exit(result);
}

static void end_now(void) {
  report("exit signal %d", SIGKILL);
  finish(128 + SIGKILL);
}

static void ask_to_end(void) {
  if (end_at != INT64_MAX) return;
  signal_all(SIGTERM);
  /* What is stopped cannot act on the signal. */
  signal_all(SIGCONT);
  end_at = now() + (int64_t)launch.policy.grace;
}

/* Reaps what ended. When it was the command, reports how and does not return. */
static void reap(void) {
  int status, command_status = 0;
  bool ended = false;
  pid_t process;
  while ((process = waitpid(-1, &status, WNOHANG)) > 0) {
    if (process != command) continue;
    ended = true;
    command_status = status;
  }
  if (!ended) return;
  /* 0: there are children that run; -1: none is left. */
  if (process == 0) report("leftover");
  if (WIFEXITED(command_status)) {
    report("exit status %d", WEXITSTATUS(command_status));
    finish(WEXITSTATUS(command_status));
  }
  if (WTERMSIG(command_status) == SIGXCPU) report("limit cpu");
  if (WTERMSIG(command_status) == SIGXFSZ) report("limit file");
  report("exit signal %d", WTERMSIG(command_status));
  finish(128 + WTERMSIG(command_status));
}

static void obey(void) {
  unsigned char order[4] = {0};
  ssize_t length = receive_control(order, sizeof order, NULL, 0);
  if (length < 0 && errno == EAGAIN) return;
  if (length == 2 && order[0] == 's' && order[1] > 0 && order[1] < NSIG) {
    signal_all(order[1]);
  } else if (length == 1 && order[0] == 't') {
    ask_to_end();
  } else if (length == 1 && order[0] == 'k') {
    end_now();
  } else if (length != 0) {
    report("weakened control");
  }
}

static void look_at_memory(int64_t at) {
  if (launch.policy.memory == 0 || at < next_memory) return;
  next_memory = at + LOOK_AT_MEMORY;
  if (memory_of_tree(launch.policy.memory) <= launch.policy.memory) return;
  report("limit memory");
  end_now();
}

/* Many small files fill a disk, too. File systems without a number of files report 0. */
static bool is_full(const struct statvfs *status) {
  if ((uint64_t)status->f_bavail * status->f_frsize < launch.policy.disk_floor) return true;
  return status->f_files > LEAST_FREE_FILES && status->f_favail < LEAST_FREE_FILES;
}

static void look_at_disk(int64_t at) {
  if (launch.policy.disk_floor == 0 || at < next_disk) return;
  next_disk = at + LOOK_AT_DISK;
  for (size_t i = 0; i < launch.policy.mount_count; i++) {
    const struct mount_entry *entry = &launch.policy.mounts[i];
    struct statvfs status;
    if (entry->access != ACCESS_WRITE || statvfs(entry->inside, &status) != 0) continue;
    if (!is_full(&status)) continue;
    report("limit disk %s", entry->inside);
    end_now();
  }
}

static void look_at_clock(int64_t at) {
  if (at >= end_at) end_now();
  if (at < time_is_up) return;
  report("limit time");
  time_is_up = INT64_MAX;
  ask_to_end();
}

static int until_next_look(int64_t at) {
  int64_t next = end_at < time_is_up ? end_at : time_is_up;
  if (launch.policy.memory > 0 && next_memory < next) next = next_memory;
  if (launch.policy.disk_floor > 0 && next_disk < next) next = next_disk;
  if (next == INT64_MAX) return -1;
  return next <= at ? 0 : (int)(next - at);
}

static void watch(int signals) __attribute__((noreturn));
static void watch(int signals) {
  struct pollfd events[] = {
      {.fd = signals, .events = POLLIN},
      {.fd = launch.leash, .events = POLLIN},
      {.fd = FD_CONTROL, .events = POLLIN},
  };
  while (true) {
    int64_t at = now();
    look_at_clock(at);
    look_at_memory(at);
    look_at_disk(at);
    if (poll(events, 3, until_next_look(now())) < 0 && errno != EINTR) fail(errno, "poll");
    if (events[1].revents != 0) {
      if (!owns_namespace()) end_descendants(getpid());
      finish(128 + SIGKILL);
    }
    if (events[0].revents != 0) {
      struct signalfd_siginfo information;
      while (read(signals, &information, sizeof information) > 0) {
      }
      reap();
    }
    if (events[2].revents & POLLIN) obey();
    /* A host that closes its end gives no more orders; the lifeline says whether it lives. */
    if (events[2].revents & (POLLHUP | POLLERR)) events[2].fd = -1;
  }
}

static int open_signals(void) {
  sigset_t set;
  sigfillset(&set);
  if (sigprocmask(SIG_SETMASK, &set, NULL) != 0) fail(errno, "sigprocmask");
  sigemptyset(&set);
  sigaddset(&set, SIGCHLD);
  int signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
  if (signals < 0) fail(errno, "signalfd");
  return signals;
}

/* The last steps that need rights, and then none are left. */
static void give_up_rights(void) {
  set_limits();
  if (launch.as_root) become_foreign_user();
  /* What nothing confines may do all that its user may. */
  if (launch.policy.tier != TIER_NONE) drop_capabilities();
}

/* Dies with the monitor: a signal for a keeper that is stuck in setup, the leash against the race
   between the monitor's end and this call. Set again after a change of user, which clears it. A
   keeper without a namespace must outlive the monitor, to end the others. */
void await_leash(void) {
  struct pollfd leash = {.fd = launch.leash, .events = POLLIN};
  if (owns_namespace() && prctl(PR_SET_PDEATHSIG, SIGKILL) != 0) fail(errno, "PR_SET_PDEATHSIG");
  if (poll(&leash, 1, 0) != 0) _exit(STATUS_FAILED);
}

static void build(void) {
  enter(stage_users);
  if (!launch.as_root) enter_user_namespace(launch.uid, launch.gid);
  set_up_network();
  build_tree();
  mount_proc();
  if (launch.policy.holder) {
    leave_host();
    send_root();
    hold();
  }
  limit_process_numbers();
  leave_host();
  send_root();
}

/* In the tier `namespaces` the keeper lives under the same rules as the command. In the others it
   must be able to end what the rules protect from it, so only the command restricts itself. */
static void start_command(void) {
  int terminal = -1;
  if (owns_namespace()) {
    give_up_rights();
    await_leash();
    terminal = open_terminal();
    restrict_self();
    if (prctl(PR_SET_DUMPABLE, 0) != 0) fail(errno, "PR_SET_DUMPABLE");
  } else {
    terminal = open_terminal();
  }
  command = fork();
  if (command < 0) fail(errno, "fork");
  if (command > 0) {
    if (terminal >= 0) close(terminal);
    return;
  }
  if (!owns_namespace()) {
    give_up_rights();
    if (launch.policy.tier == TIER_LANDLOCK) restrict_self();
  }
  run_command(terminal);
}

/* Returns when the command runs or its process is gone: then the last end of the pipe is closed. */
static void await_exec(int listening) {
  char byte;
  close(launch.exec_pipe);
  while (read(listening, &byte, 1) < 0 && errno == EINTR) {
  }
  close(listening);
  if (progress->failed) _exit(STATUS_FAILED);
  if (progress->stage != stage_exec) {
    fail_with(ECHILD, "the process of the command ended", "see the kernel's log");
  }
  enter(stage_running);
  report("ready");
}

void keep(void) {
  int pipe_ends[2];
  await_leash();
  forget_arguments(launch.arguments);
  if (owns_namespace()) {
    if (!launch.inside_holder) {
      build();
    } else {
      mount_proc();
      limit_process_numbers();
    }
  } else if (prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0) {
    fail(errno, "PR_SET_CHILD_SUBREAPER");
  }
  int signals = open_signals();
  if (pipe2(pipe_ends, O_CLOEXEC) != 0) fail(errno, "pipe");
  launch.exec_pipe = pipe_ends[1];
  start_command();
  await_exec(pipe_ends[0]);
  if (launch.policy.time > 0) time_is_up = now() + (int64_t)launch.policy.time;
  next_memory = now() + LOOK_AT_MEMORY;
  next_disk = now() + LOOK_AT_DISK;
  watch(signals);
}
