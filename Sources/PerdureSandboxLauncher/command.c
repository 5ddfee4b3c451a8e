/* The command's own process, from fork to exec. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <termios.h>
#include <unistd.h>

#include "launch.h"

/* Makes a terminal inside and sends its controlling side to the host, so that the host never shares
   one of its own. Returns the command's side. */
int open_terminal(void) {
  if (!launch.policy.terminal) return -1;
  enter(stage_terminal);
  int host_side = open("/dev/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC);
  if (host_side < 0) fail(errno, "/dev/ptmx");
  int unlocked = 0;
  if (ioctl(host_side, TIOCSPTLCK, &unlocked) != 0) fail(errno, "TIOCSPTLCK");
  struct winsize size = {.ws_row = (unsigned short)launch.policy.rows,
                         .ws_col = (unsigned short)launch.policy.columns};
  if (ioctl(host_side, TIOCSWINSZ, &size) != 0) fail(errno, "TIOCSWINSZ");
  /* By descriptor: the path of a terminal may mean another one in another mount namespace. */
  int command_side = ioctl(host_side, TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC);
  if (command_side < 0) fail(errno, "TIOCGPTPEER");
  send_descriptor(host_side, "t", 1);
  close(host_side);
  return command_side;
}

static void take_terminal(int terminal) {
  if (ioctl(terminal, TIOCSCTTY, 0) != 0) fail(errno, "TIOCSCTTY");
  for (int stream = 0; stream < 3; stream++) {
    if (dup2(terminal, stream) < 0) fail(errno, "dup2");
  }
  if (tcsetpgrp(0, getpid()) != 0) fail(errno, "tcsetpgrp");
}

static const char *variable(const char *name) {
  size_t length = strlen(name);
  for (size_t i = 0; i < launch.policy.environment.count; i++) {
    const char *entry = launch.policy.environment.items[i];
    if (strncmp(entry, name, length) == 0 && entry[length] == '=') return entry + length + 1;
  }
  return NULL;
}

/* execve with a search in the command's PATH. A script without "#!" is an error here, not an order
   to guess a shell. */
static int search_and_run(char *const *arguments, char *const *environment) {
  const char *name = arguments[0];
  if (strchr(name, '/') != NULL) {
    execve(name, arguments, environment);
    return errno;
  }
  const char *path = variable("PATH");
  if (path == NULL) path = "/usr/local/bin:/usr/bin:/bin";
  int error = ENOENT;
  while (*name != 0) {
    size_t length = strcspn(path, ":");
    char file[4096];
    /* An empty part would be the current directory, which belongs to the workspace. */
    if (length > 0 && length + strlen(name) + 2 <= sizeof file) {
      snprintf(file, sizeof file, "%.*s/%s", (int)length, path, name);
      execve(file, arguments, environment);
      if (errno == EACCES) error = EACCES;
      if (errno != ENOENT && errno != ENOTDIR && errno != EACCES) return errno;
    }
    path += length;
    if (*path == 0) break;
    path++;
  }
  return error;
}

void run_command(int terminal) {
  /* Handlers end with exec, and what was ignored was reset when the launcher started. */
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, NULL);
  umask(022);
  if (setsid() < 0) fail(errno, "setsid");
  if (terminal >= 0) take_terminal(terminal);
  enter(stage_directory);
  if (chdir(launch.policy.directory) != 0) fail(errno, launch.policy.directory);
  enter(stage_exec);
  static const char *const nothing[] = {NULL};
  const char *const *environment = launch.policy.environment.items;
  if (environment == NULL) environment = (const char **)nothing;
  /* Only the three streams go on; what reports failures closes itself. */
  if (close_range(3, ~0U, CLOSE_RANGE_CLOEXEC) != 0) fail(errno, "close_range");
  int error =
      search_and_run((char *const *)launch.policy.arguments.items, (char *const *)environment);
  fail(error, launch.policy.arguments.items[0]);
}
