/* The holder: keeps a built tree, its network and its users, so that a command costs only a pid
   namespace and a /proc. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "launch.h"

/* The descriptors of an order, by their places: three streams, then as FD_…. */
static void serve(const int *descriptors) __attribute__((noreturn));
static void serve(const int *descriptors) {
  make_progress_page();
  launch.inside_holder = true;
  for (int place = 0; place < FD_COUNT; place++) {
    if (dup2(descriptors[place], place) < 0) _exit(STATUS_FAILED);
    close(descriptors[place]);
  }
  for (int place = FD_POLICY; place < FD_COUNT; place++) fcntl(place, F_SETFD, FD_CLOEXEC);
  enter(stage_policy);
  read_policy(true);
  enter(stage_descriptors);
  check_standard_streams();
  close(launch.leash);
  _exit(monitor());
}

static void take_order(void) {
  unsigned char order = 0;
  int descriptors[FD_COUNT];
  ssize_t length = receive_control(&order, 1, descriptors, FD_COUNT);
  if (length < 0 && errno == EAGAIN) return;
  /* Without a host that can order there is nothing to hold for. */
  if (length == 0) _exit(0);
  if (length != 1) {
    report("weakened control");
    return;
  }
  pid_t child = order == 'x' ? fork() : -1;
  if (child == 0) serve(descriptors);
  if (child < 0) report("weakened control");
  for (int i = 0; i < FD_COUNT; i++) close(descriptors[i]);
}

void hold(void) {
  sigset_t set;
  sigfillset(&set);
  sigprocmask(SIG_SETMASK, &set, NULL);
  sigemptyset(&set);
  sigaddset(&set, SIGCHLD);
  int signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
  if (signals < 0) fail(errno, "signalfd");
  await_leash();
  enter(stage_running);
  report("ready");
  struct pollfd events[] = {
      {.fd = signals, .events = POLLIN},
      {.fd = launch.leash, .events = POLLIN},
      {.fd = FD_CONTROL, .events = POLLIN},
  };
  while (true) {
    if (poll(events, 3, -1) < 0 && errno != EINTR) fail(errno, "poll");
    if (events[1].revents != 0) _exit(0);
    if (events[0].revents != 0) {
      struct signalfd_siginfo information;
      while (read(signals, &information, sizeof information) > 0) {
      }
      while (waitpid(-1, NULL, WNOHANG) > 0) {
      }
    }
    if (events[2].revents != 0) take_order();
  }
}
