/* latency LAUNCHER POLICY COUNT [HOLDER-POLICY]: how long one command takes, from spawn to the end
   of the launcher, as a host in C sees it. POLICY is a file with the message; with HOLDER-POLICY
   the command is an order (POLICY) to a holder that is started first, and ends when its status pipe
   does. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static char *launcher;
static int null_file;

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec * 1e3 + (double)time.tv_nsec / 1e6;
}

struct ends {
  int policy, status, lifeline, control; /* the host's */
  int theirs[7];
};

static struct ends make_ends(const char *policy) {
  int lifeline[2], status[2], control[2];
  struct ends ends;
  ends.policy = open(policy, O_RDONLY | O_CLOEXEC);
  if (ends.policy < 0 || pipe2(status, O_CLOEXEC) || pipe2(lifeline, O_CLOEXEC) ||
      socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, control)) {
    perror("latency");
    exit(1);
  }
  ends.status = status[0];
  ends.lifeline = lifeline[1];
  ends.control = control[0];
  int theirs[7] = {null_file, null_file,   null_file, ends.policy,
                   status[1], lifeline[0], control[1]};
  memcpy(ends.theirs, theirs, sizeof theirs);
  return ends;
}

static void close_theirs(struct ends *ends) {
  for (int i = 3; i < 7; i++) close(ends->theirs[i]);
}

static void close_ours(struct ends *ends) {
  close(ends->status);
  close(ends->lifeline);
  close(ends->control);
}

static pid_t start(struct ends *ends) {
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  for (int i = 0; i < 7; i++) posix_spawn_file_actions_adddup2(&actions, ends->theirs[i], 50 + i);
  for (int i = 0; i < 7; i++) posix_spawn_file_actions_adddup2(&actions, 50 + i, i);
  char *arguments[] = {launcher, "--run", NULL};
  char *environment[] = {NULL};
  pid_t child;
  if (posix_spawn(&child, launcher, &actions, NULL, arguments, environment) != 0) exit(1);
  posix_spawn_file_actions_destroy(&actions);
  close_theirs(ends);
  return child;
}

static void order(int control, struct ends *ends) {
  char space[CMSG_SPACE(7 * sizeof(int))] = {0};
  struct iovec part = {"x", 1};
  struct msghdr message = {
      .msg_iov = &part, .msg_iovlen = 1, .msg_control = space, .msg_controllen = sizeof space};
  struct cmsghdr *item = CMSG_FIRSTHDR(&message);
  item->cmsg_level = SOL_SOCKET;
  item->cmsg_type = SCM_RIGHTS;
  item->cmsg_len = CMSG_LEN(7 * sizeof(int));
  memcpy(CMSG_DATA(item), ends->theirs, 7 * sizeof(int));
  if (sendmsg(control, &message, 0) != 1) exit(1);
  close_theirs(ends);
}

/* Reads records to the end; false if the command did not end with status 0. */
static int succeeded(int status) {
  char text[8192];
  size_t length = 0;
  ssize_t count;
  while ((count = read(status, text + length, sizeof text - 1 - length)) > 0)
    length += (size_t)count;
  text[length] = 0;
  if (strstr(text, "exit status 0\n") != NULL) return 1;
  fputs(text, stderr);
  return 0;
}

static int compare(const void *left, const void *right) {
  double difference = *(const double *)left - *(const double *)right;
  return (difference > 0) - (difference < 0);
}

int main(int count, char **arguments) {
  if (count < 4) return 2;
  launcher = arguments[1];
  null_file = open("/dev/null", O_RDWR | O_CLOEXEC);
  int runs = atoi(arguments[3]);
  double *times = calloc((size_t)runs, sizeof *times);
  struct ends holder;
  pid_t holder_process = 0;
  if (count == 5) {
    holder = make_ends(arguments[4]);
    holder_process = start(&holder);
    char byte, last[6] = "";
    while (strcmp(last, "ready") != 0 && read(holder.status, &byte, 1) == 1) {
      memmove(last, last + 1, 4);
      last[4] = byte;
    }
  }
  for (int i = 0; i < runs; i++) {
    struct ends ends = make_ends(arguments[2]);
    double start_time = now();
    if (holder_process != 0) {
      order(holder.control, &ends);
      if (!succeeded(ends.status)) return 1;
    } else {
      pid_t child = start(&ends);
      if (!succeeded(ends.status)) return 1;
      waitpid(child, NULL, 0);
    }
    times[i] = now() - start_time;
    close_ours(&ends);
  }
  qsort(times, (size_t)runs, sizeof *times, compare);
  struct rusage usage;
  getrusage(RUSAGE_CHILDREN, &usage);
  double processor = (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1e3 +
                     (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e3;
  if (holder_process == 0) printf("processor %.2f ms a run, ", processor / runs);
  printf("median %.2f ms, p10 %.2f, least %.2f, p90 %.2f of %d\n", times[runs / 2],
         times[runs / 10], times[0], times[runs * 9 / 10], runs);
  if (holder_process != 0) {
    close_ours(&holder);
    waitpid(holder_process, NULL, 0);
  }
  return 0;
}
