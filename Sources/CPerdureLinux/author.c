#define _GNU_SOURCE
#include "perdure_author.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "buffers.h"
#include "perdure_text.h"
#include "perdure_watch.h"

enum { most_words = 64, most_output = 1 << 20, most_files = 10000, deepest = 8, quiet_ms = 100 };

static int start_thread(void *(*body)(void *), void *context) {
  pthread_attr_t attributes;
  pthread_t thread;
  pthread_attr_init(&attributes);
  pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  int code = pthread_create(&thread, &attributes, body, context);
  pthread_attr_destroy(&attributes);
  return -code;
}

/* ---------------------------------------------------------------- commands */

struct command {
  void (*done)(int status, long long count);
  char *text;
  char *words[most_words + 1];
};

/* Protects what follows; the group is 0 while no command runs, and -1 while one is being started. */
static pthread_mutex_t command_lock = PTHREAD_MUTEX_INITIALIZER;
static pid_t command_group;
static int no_more_commands;

static pid_t start_child(const struct command *command, int output) {
  pid_t parent = getpid(), child = fork();
  if (child != 0) return child;
  int null = open("/dev/null", O_RDONLY);
  sigset_t none;
  sigemptyset(&none);
  (void)sigprocmask(SIG_SETMASK, &none, 0);
  (void)signal(SIGPIPE, SIG_DFL);
  (void)setpgid(0, 0);
  /* The thread that waits lives as long as the command, unless the process ends. */
  (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent || null < 0 || dup2(null, 0) < 0 || dup2(output, 1) < 0 ||
      dup2(output, 2) < 0 || chdir(command->words[0]) != 0)
    _exit(126);
  (void)execvp(command->words[1], command->words + 1);
  dprintf(2, "%s: %s\n", command->words[1], strerror(errno));
  _exit(127);
}

/* Reads until the command has ended, though something that it left behind may hold the pipe open, and
 * keeps the end of it. */
static size_t read_output(int input, int ended, char *bytes) {
  size_t count = 0;
  for (;;) {
    struct pollfd wait[] = {{.fd = input, .events = POLLIN}, {.fd = ended, .events = POLLIN}};
    if (poll(wait, 2, -1) < 0 && errno != EINTR) break;
    if (!wait[0].revents) {
      if (wait[1].revents) break;
      continue;
    }
    ssize_t got = read(input, bytes + count, 2 * most_output - count);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    count += (size_t)got;
    if (count == 2 * most_output) {
      memmove(bytes, bytes + most_output, most_output);
      count = most_output;
    }
  }
  if (count <= most_output) return count;
  memmove(bytes, bytes + count - most_output, most_output);
  return most_output;
}

static int run_command(const struct command *command, char *bytes, size_t *count) {
  int ends[2], status = 0;
  if (pipe2(ends, O_CLOEXEC) != 0) return -errno;
  pthread_mutex_lock(&command_lock);
  pid_t child = no_more_commands ? -1 : start_child(command, ends[1]);
  int error = no_more_commands ? ECANCELED : errno;
  if (child > 0) {
    (void)setpgid(child, child);
    command_group = child;
  }
  pthread_mutex_unlock(&command_lock);
  close(ends[1]);
  if (child > 0) {
    /* Without one (-1 is passed over) the end of the pipe is the only one. */
    int ended = pidfd_open(child, 0);
    *count = read_output(ends[0], ended, bytes);
    if (ended >= 0) close(ended);
  }
  close(ends[0]);
  if (child < 0) return -error;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

static void *work_command(void *context) {
  struct command *command = context;
  char *bytes = malloc(2 * most_output);
  size_t count = 0;
  int status = bytes ? run_command(command, bytes, &count) : -ENOMEM;
  long long length = perdure_buffer_receive(bytes ? bytes : "", count);
  free(bytes);
  void (*done)(int, long long) = command->done;
  free(command->text);
  free(command);
  pthread_mutex_lock(&command_lock);
  command_group = 0;
  pthread_mutex_unlock(&command_lock);
  done(length < 0 ? (int)length : status, length < 0 ? 0 : length);
  perdure_text_forget();
  return 0;
}

static int claim_command(void) {
  pthread_mutex_lock(&command_lock);
  int is_free = command_group == 0;
  if (is_free) command_group = -1;
  pthread_mutex_unlock(&command_lock);
  return is_free;
}

int perdure_author_start(void (*done)(int status, long long count)) {
  size_t count, words = 0;
  char *text = perdure_buffer_take(&count);
  if (!text) return -errno;
  struct command *command = calloc(1, sizeof *command);
  int code = command ? 0 : -ENOMEM;
  for (size_t at = 0; code == 0 && at < count; words++) {
    size_t length = strnlen(text + at, count - at);
    if (words == most_words || at + length == count) code = -EINVAL;
    if (code == 0) command->words[words] = text + at;
    at += length + 1;
  }
  if (code == 0 && words < 2) code = -EINVAL;
  if (code == 0 && !claim_command()) code = -EBUSY;
  if (code == 0) {
    command->done = done;
    command->text = text;
    code = start_thread(work_command, command);
    if (code == 0) return 0;
    pthread_mutex_lock(&command_lock);
    command_group = 0;
    pthread_mutex_unlock(&command_lock);
  }
  free(text);
  free(command);
  return code;
}

void perdure_author_end(void) {
  pthread_mutex_lock(&command_lock);
  no_more_commands = 1;
  if (command_group > 0) (void)kill(-command_group, SIGKILL);
  pthread_mutex_unlock(&command_lock);
}

/* ---------------------------------------------------------------- watching */

struct listing {
  int watch;
  FILE *text;
  int files;
  size_t root; /* length of the path of the folder */
};

static int ends_with(const char *name, const char *end) {
  size_t length = strlen(name), count = strlen(end);
  return length >= count && strcmp(name + length - count, end) == 0;
}

static int is_left_out(const char *name) {
  static const char *const ends[] = {".so", ".o", ".a", "~"};
  if (name[0] == '.') return 1;
  for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++)
    if (ends_with(name, ends[i])) return 1;
  return 0;
}

static int list_folder(struct listing *listing, const char *path, int depth);

static int list_entry(struct listing *listing, const char *path, int depth) {
  struct stat info;
  /* What is gone again, or leads nowhere, is no input. */
  if (lstat(path, &info) != 0) return 0;
  /* A folder that a link leads to is watched where it is, if it is one of these. */
  if (S_ISLNK(info.st_mode) && (stat(path, &info) != 0 || S_ISDIR(info.st_mode))) return 0;
  if (S_ISDIR(info.st_mode)) {
    const char *name = strrchr(path, '/') + 1;
    if (depth == deepest || !strcmp(name, "target") || !strcmp(name, "zig-out")) return 0;
    return list_folder(listing, path, depth + 1);
  }
  if (!S_ISREG(info.st_mode)) return 0;
  if (++listing->files > most_files) return -E2BIG;
  fprintf(listing->text, "%s\t%lld\t%lld.%09ld\t%llu\n", path + listing->root + 1,
          (long long)info.st_size, (long long)info.st_mtim.tv_sec, info.st_mtim.tv_nsec,
          (unsigned long long)info.st_ino);
  return 0;
}

static int list_folder(struct listing *listing, const char *path, int depth) {
  struct dirent **entries;
  int folder = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
  int number = folder < 0 ? -errno : perdure_watch_add(listing->watch, folder);
  if (folder >= 0) close(folder);
  if (number < 0) return depth > 0 && number != -ENOSPC ? 0 : number;
  int count = scandir(path, &entries, 0, alphasort), code = 0;
  if (count < 0) return depth > 0 ? 0 : -errno;
  for (int i = 0; i < count; i++) {
    char *full = 0;
    if (code == 0 && !is_left_out(entries[i]->d_name)) {
      code = asprintf(&full, "%s/%s", path, entries[i]->d_name) < 0 ? -ENOMEM
                                                                    : list_entry(listing, full, depth);
      free(full);
    }
    free(entries[i]);
  }
  free(entries);
  return code;
}

/* Takes all that has been heard of; a wait for the rest of a change follows the first of it. */
static int drain(int watch, int timeout) {
  int heard = 0;
  for (;;) {
    struct pollfd wait = {.fd = watch, .events = POLLIN};
    int ready = poll(&wait, 1, timeout);
    if (ready < 0 && errno == EINTR) continue;
    if (ready < 0) return -errno;
    if (ready == 0) return heard;
    if (wait.revents & (POLLERR | POLLNVAL)) return -EBADF;
    (void)perdure_watch_take(watch);
    heard = 1;
    if (timeout < 0) timeout = quiet_ms;
  }
}

long long perdure_author_list(int watch) {
  char *path = perdure_buffer_take_string(), *bytes = 0;
  size_t count = 0;
  if (!path) return -errno;
  struct listing listing = {.watch = watch, .text = open_memstream(&bytes, &count)};
  long long code = listing.text ? 0 : -ENOMEM;
  listing.root = strlen(path);
  if (code == 0) {
    (void)drain(watch, 0);
    code = list_folder(&listing, path, 0);
    if (fclose(listing.text) != 0 && code == 0) code = -ENOMEM;
  }
  if (code == 0) code = perdure_buffer_receive(bytes, count);
  free(bytes);
  free(path);
  return code;
}

struct waiting {
  int watch;
  void (*done)(int code);
};

static void *work_watch(void *context) {
  struct waiting waiting = *(struct waiting *)context;
  free(context);
  int code = drain(waiting.watch, -1);
  waiting.done(code < 0 ? code : 0);
  perdure_text_forget();
  return 0;
}

int perdure_author_next(int watch, void (*done)(int code)) {
  struct waiting *waiting = malloc(sizeof *waiting);
  if (!waiting) return -ENOMEM;
  *waiting = (struct waiting){.watch = watch, .done = done};
  int code = start_thread(work_watch, waiting);
  if (code != 0) free(waiting);
  return code;
}

/* ---------------------------------------------------------------- folders */

long long perdure_folder_temporary(void) {
  const char *parent = getenv("TMPDIR");
  char path[PATH_MAX];
  if (!parent || parent[0] != '/') parent = "/tmp";
  int length = snprintf(path, sizeof path, "%s/perdure-XXXXXX", parent);
  if (length < 0 || (size_t)length >= sizeof path) return -ENAMETOOLONG;
  if (!mkdtemp(path)) return -errno;
  return perdure_buffer_receive(path, (size_t)length);
}

static int remove_one(const char *path, const struct stat *info, int kind, struct FTW *place) {
  (void)info, (void)kind, (void)place;
  return remove(path) == 0 || errno == ENOENT ? 0 : -1;
}

int perdure_folder_remove(void) {
  char *path = perdure_buffer_take_string();
  if (!path) return -errno;
  int code = nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS) == 0 || errno == ENOENT ? 0 : -errno;
  free(path);
  return code;
}

int perdure_folder_new(void) {
  char *path = perdure_buffer_take_string();
  if (!path) return -errno;
  int code = mkdir(path, 0777) == 0 ? 0 : -errno;
  free(path);
  return code;
}

int perdure_file_new(int kind) {
  size_t count;
  char *text = perdure_buffer_take(&count);
  if (!text) return -errno;
  size_t length = strnlen(text, count);
  int code = length < count ? 0 : -EINVAL;
  int flags = O_WRONLY | O_CREAT | O_CLOEXEC | O_NOCTTY;
  flags |= kind & PERDURE_NEW_REPLACES ? O_TRUNC : O_EXCL;
  int file = code == 0 ? open(text, flags, kind & PERDURE_NEW_PROGRAM ? 0777 : 0666) : -1;
  if (code == 0 && file < 0) code = -errno;
  if (file >= 0) {
    code = perdure_buffer_write_all(file, text + length + 1, count - length - 1);
    if (close(file) != 0 && code == 0) code = -errno;
  }
  free(text);
  return code;
}
