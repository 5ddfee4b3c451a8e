#define _GNU_SOURCE
#include "perdure_command.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

/* Pointers to `count` texts that stand one behind the other. */
static char **pointers(const char *texts, int count) {
  char **list = malloc(sizeof(char *) * ((size_t)count + 1));
  if (!list) return NULL;
  for (int index = 0; index < count; index++) {
    list[index] = (char *)texts;
    texts += strlen(texts) + 1;
  }
  list[count] = NULL;
  return list;
}

/* Looks for a program as a shell would; `found` has room for PATH_MAX bytes. */
static int look_up(const char *name, char **variables, char *found) {
  const char *folders = "/usr/local/bin:/usr/bin:/bin";
  for (char **variable = variables; *variable; variable++)
    if (strncmp(*variable, "PATH=", 5) == 0) folders = *variable + 5;
  int error = ENOENT;
  size_t length = strlen(name);
  while (1) {
    size_t count = strcspn(folders, ":");
    /* What is not absolute would depend on the folder of this process. */
    if (count > 0 && folders[0] == '/' && count + length + 2 <= 4096) {
      memcpy(found, folders, count);
      found[count] = '/';
      memcpy(found + count + 1, name, length + 1);
      if (access(found, X_OK) == 0) return 0;
      if (errno == EACCES) error = EACCES;
    }
    if (!folders[count]) return -error;
    folders += count + 1;
  }
}

static int prepare(posix_spawn_file_actions_t *actions, posix_spawnattr_t *attributes, int folder,
                   const int *output, const int *errors) {
  sigset_t signals;
  int error = posix_spawn_file_actions_addopen(actions, 0, "/dev/null", O_RDONLY, 0);
  if (!error) error = posix_spawn_file_actions_adddup2(actions, output[1], 1);
  if (!error) error = posix_spawn_file_actions_adddup2(actions, errors[1], 2);
  if (!error) error = posix_spawn_file_actions_addfchdir_np(actions, folder);
  if (!error) error = posix_spawn_file_actions_addclosefrom_np(actions, 3);
  sigemptyset(&signals);
  if (!error) error = posix_spawnattr_setsigmask(attributes, &signals);
  sigfillset(&signals);
  if (!error) error = posix_spawnattr_setsigdefault(attributes, &signals);
  if (!error)
    error = posix_spawnattr_setflags(
        attributes, POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  return error;
}

static int spawn(const char *program, char **arguments, char **variables, int folder,
                 const int *output, const int *errors, pid_t *process) {
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  int error = posix_spawn_file_actions_init(&actions);
  if (error) return error;
  error = posix_spawnattr_init(&attributes);
  if (!error) {
    error = prepare(&actions, &attributes, folder, output, errors);
    if (!error) error = posix_spawn(process, program, &actions, &attributes, arguments, variables);
    posix_spawnattr_destroy(&attributes);
  }
  posix_spawn_file_actions_destroy(&actions);
  return error;
}

static void close_pipe(int *ends) {
  if (ends[0] >= 0) close(ends[0]);
  if (ends[1] >= 0) close(ends[1]);
}

static int start(const char *program, char **arguments, char **variables, int folder,
                 struct perdure_command *command) {
  int output[2] = {-1, -1};
  int errors[2] = {-1, -1};
  pid_t process = 0;
  int error = 0;
  if (pipe2(output, O_CLOEXEC) != 0 || pipe2(errors, O_CLOEXEC) != 0) error = errno;
  if (!error) error = spawn(program, arguments, variables, folder, output, errors, &process);
  if (error) {
    close_pipe(output);
    close_pipe(errors);
    return -error;
  }
  close(output[1]);
  close(errors[1]);
  fcntl(output[0], F_SETFL, O_NONBLOCK);
  fcntl(errors[0], F_SETFL, O_NONBLOCK);
  /* It is not waited for before it is forgotten, so the number is still its own. */
  int handle = (int)syscall(SYS_pidfd_open, process, 0);
  if (handle < 0) {
    error = errno;
    perdure_command_kill(process);
    waitpid(process, NULL, 0);
    close(output[0]);
    close(errors[0]);
    return -error;
  }
  command->output = output[0];
  command->errors = errors[0];
  command->process = process;
  command->handle = handle;
  return 0;
}

int perdure_command_start(const char *path, const char *arguments, int argument_count,
                          const char *variables, int variable_count, int folder,
                          struct perdure_command *command) {
  char found[4096 + 256];
  char **argument_list = pointers(arguments, argument_count);
  char **variable_list = pointers(variables, variable_count);
  int error = argument_list && variable_list ? 0 : -ENOMEM;
  if (!error && !*path) error = -ENOENT;
  if (!error && !strchr(path, '/')) {
    error = strlen(path) > 255 ? -ENAMETOOLONG : look_up(path, variable_list, found);
    path = found;
  }
  if (!error) error = start(path, argument_list, variable_list, folder, command);
  free(argument_list);
  free(variable_list);
  return error;
}

int perdure_command_status(int handle) {
  siginfo_t info;
  memset(&info, 0, sizeof info);
  int result;
  do {
    result = waitid((idtype_t)P_PIDFD, (id_t)handle, &info, WEXITED | WNOHANG | WNOWAIT);
  } while (result != 0 && errno == EINTR);
  /* Somebody else has reaped it, so its status is gone, and its number may be another one's. */
  if (result != 0) return errno == ECHILD ? -2 : -1;
  if (info.si_pid == 0) return -1;
  return info.si_code == CLD_EXITED ? info.si_status : 128 + info.si_status;
}

void perdure_command_kill(int process) {
  if (process <= 1) return;
  kill(-process, SIGKILL);
  /* It leads a group only once it has begun. */
  kill(process, SIGKILL);
}

void perdure_command_reap(int process) {
  while (waitpid(process, NULL, 0) < 0 && errno == EINTR) {
  }
}

int perdure_bell_make(void) {
  int bell = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  return bell < 0 ? -errno : bell;
}

void perdure_bell_ring(int bell) {
  unsigned long long one = 1;
  (void)!write(bell, &one, sizeof one);
}

void perdure_bell_silence(int bell) {
  unsigned long long count;
  (void)!read(bell, &count, sizeof count);
}

long long perdure_command_read(int file, void *buffer, long long count) {
  while (1) {
    ssize_t length = read(file, buffer, (size_t)count);
    if (length >= 0) return (long long)length;
    if (errno != EINTR) return -errno;
  }
}

int perdure_command_wait(int first, int second, int third, int fourth, int milliseconds) {
  struct pollfd files[4] = {
      {.fd = first, .events = POLLIN},
      {.fd = second, .events = POLLIN},
      {.fd = third, .events = POLLIN},
      {.fd = fourth, .events = POLLIN},
  };
  int count = poll(files, 4, milliseconds);
  if (count < 0) return errno == EINTR ? 0 : -errno;
  int ready = 0;
  for (int index = 0; index < 4; index++)
    if (files[index].revents) ready |= 1 << index;
  return ready;
}

long long perdure_command_clock(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (long long)now.tv_sec * 1000000000 + now.tv_nsec;
}

const char *perdure_command_variable(const char *name) { return getenv(name); }

const char *perdure_command_variable_at(int index) {
  for (int at = 0; environ && environ[at]; at++)
    if (at == index) return environ[at];
  return NULL;
}
