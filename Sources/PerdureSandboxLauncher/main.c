/* perdure-sandbox: starts one command, or holds a sandbox for many, as a policy says. */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "launch.h"

struct launch launch = {.user_space = -1, .old_root = -1};

/* Reads all of the policy. Kept for the life of the process: strings of the policy point into
   it. */
static unsigned char *read_message(size_t *length) {
  size_t room = 1 << 16;
  unsigned char *message = malloc(room);
  *length = 0;
  while (message != NULL) {
    struct pollfd event = {.fd = FD_POLICY, .events = POLLIN};
    int ready = poll(&event, 1, 5000);
    if (ready < 0 && errno == EINTR) continue;
    if (ready == 0) fail(ETIMEDOUT, "the policy does not end");
    ssize_t count = read(FD_POLICY, message + *length, room - *length);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) fail(errno, "the policy cannot be read");
    if (count == 0) return message;
    *length += (size_t)count;
    if (*length < room) continue;
    if (room >= LARGEST_MESSAGE) fail(E2BIG, "the policy is too large");
    room *= 2;
    message = realloc(message, room);
  }
  fail(ENOMEM, "the policy");
}

void read_policy(bool order) {
  size_t length;
  unsigned char *message = read_message(&length);
  struct policy_error error;
  if (!parse_policy(message, length, order, &launch.policy, &error)) fail(EINVAL, error.text);
  close(FD_POLICY);
}

static int run(void) {
  make_progress_page();
  enter(stage_descriptors);
  close_foreign_descriptors();
  reset_signals();
  umask(022);
  /* A working directory of the host would keep it busy, and shows nothing we need. */
  if (chdir("/") != 0) fail(errno, "/");
  enter(stage_policy);
  read_policy(false);
  enter(stage_descriptors);
  check_standard_streams();
  return monitor();
}

int main(int count, char **arguments) {
  forget_environment(environ);
  launch.arguments = arguments;
  if (count == 2 && strcmp(arguments[1], "--run") == 0) return run();
  if (count == 2 && strcmp(arguments[1], "--probe") == 0) return probe();
  if (count == 2 && strcmp(arguments[1], "--version") == 0) {
    puts("perdure-sandbox 1");
    return 0;
  }
  fputs("usage: perdure-sandbox --run | --probe | --version\n", stderr);
  return 2;
}
