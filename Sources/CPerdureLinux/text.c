#define _GNU_SOURCE
#include "perdure_text.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "buffers.h"

struct text {
  char *bytes;
  size_t count, capacity;
  int failed;
};

static _Thread_local struct text outgoing, incoming;

static int reserve(struct text *text, size_t more) {
  size_t needed = text->count + more + 1, capacity = text->capacity ? text->capacity : 256;
  if (needed <= text->capacity) return 1;
  while (capacity < needed) capacity *= 2;
  char *bytes = realloc(text->bytes, capacity);
  if (!bytes) {
    text->failed = 1;
    return 0;
  }
  text->bytes = bytes;
  text->capacity = capacity;
  return 1;
}

static void release(struct text *text) {
  free(text->bytes);
  memset(text, 0, sizeof *text);
}

long long perdure_buffer_receive(const char *bytes, size_t count) {
  incoming.count = 0;
  if (!reserve(&incoming, count)) return -ENOMEM;
  memcpy(incoming.bytes, bytes, count);
  incoming.count = count;
  return (long long)count;
}

char *perdure_buffer_take_string(void) {
  struct text text = outgoing;
  memset(&outgoing, 0, sizeof outgoing);
  if (text.failed || !reserve(&text, 0)) {
    free(text.bytes);
    errno = ENOMEM;
    return 0;
  }
  text.bytes[text.count] = 0;
  if (strlen(text.bytes) != text.count) {
    free(text.bytes);
    errno = EINVAL;
    return 0;
  }
  return text.bytes;
}

char *perdure_buffer_take(size_t *count) {
  struct text text = outgoing;
  memset(&outgoing, 0, sizeof outgoing);
  if (text.failed || !reserve(&text, 0)) {
    free(text.bytes);
    errno = ENOMEM;
    return 0;
  }
  *count = text.count;
  return text.bytes;
}

void perdure_text_forget(void) { release(&incoming); }

/* Where the answers go. */
static _Atomic int output_descriptor = STDOUT_FILENO;

void perdure_streams_open(void) {
  for (int descriptor = 0; descriptor < 3; descriptor++)
    /* The lowest free number is taken, which is this one. */
    if (fcntl(descriptor, F_GETFD) < 0 && errno == EBADF) (void)!open("/dev/null", O_RDWR);
}

int perdure_text_guard_output(void) {
  /* Done once: what stands there now is standard error already. */
  if (output_descriptor != STDOUT_FILENO) return 0;
  int own = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3);
  if (own < 0) return -errno;
  if (dup2(STDERR_FILENO, STDOUT_FILENO) < 0) {
    int error = errno;
    close(own);
    return -error;
  }
  output_descriptor = own;
  return 0;
}

void perdure_text_put(unsigned long long word, int count) {
  if (count < 1 || count > 8 || !reserve(&outgoing, 8)) return;
  for (int i = 0; i < count; i++) outgoing.bytes[outgoing.count++] = (char)(word >> (8 * i));
}

unsigned long long perdure_text_word(long long index) {
  unsigned long long word = 0;
  if (index < 0) return 0;
  for (int i = 0; i < 8 && (size_t)index + i < incoming.count; i++)
    word |= (unsigned long long)(unsigned char)incoming.bytes[(size_t)index + i] << (8 * i);
  return word;
}

long long perdure_buffer_read_all(int descriptor, long long limit) {
  incoming.count = 0;
  for (;;) {
    if (!reserve(&incoming, 65536)) return -ENOMEM;
    ssize_t got = read(descriptor, incoming.bytes + incoming.count, 65536);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return -errno;
    if (got == 0) return (long long)incoming.count;
    incoming.count += (size_t)got;
    if ((long long)incoming.count > limit) return -EFBIG;
  }
}

long long perdure_text_read_file(long long limit) {
  char *path = perdure_buffer_take_string();
  if (!path) return -errno;
  int descriptor = open(path, O_RDONLY | O_CLOEXEC);
  long long result = descriptor < 0 ? -errno : 0;
  free(path);
  if (descriptor < 0) return result;
  result = perdure_buffer_read_all(descriptor, limit);
  close(descriptor);
  return result;
}

long long perdure_text_read_input(long long limit) {
  return perdure_buffer_read_all(STDIN_FILENO, limit);
}

long long perdure_text_variable(void) {
  char *name = perdure_buffer_take_string();
  if (!name) return -errno;
  const char *value = getenv(name);
  free(name);
  return value ? perdure_buffer_receive(value, strlen(value)) : -ENOENT;
}

long long perdure_text_full_path(void) {
  char *path = perdure_buffer_take_string();
  if (!path) return -errno;
  char *full = realpath(path, 0);
  long long result = full ? perdure_buffer_receive(full, strlen(full)) : -errno;
  free(full);
  free(path);
  return result;
}

long long perdure_text_working_directory(void) {
  char *path = getcwd(0, 0);
  if (!path) return -errno;
  long long result = perdure_buffer_receive(path, strlen(path));
  free(path);
  return result;
}

long long perdure_text_error(int code) {
  char buffer[256];
  const char *text = strerror_r(code, buffer, sizeof buffer);
  return perdure_buffer_receive(text, strlen(text));
}

int perdure_text_path_kind(void) {
  struct stat status;
  char *path = perdure_buffer_take_string();
  if (!path) return -errno;
  int result = stat(path, &status) == 0 ? 0 : -errno;
  free(path);
  if (result == -ENOENT) return 0;
  if (result != 0) return result;
  if (S_ISREG(status.st_mode)) return 1;
  return S_ISDIR(status.st_mode) ? 2 : 3;
}

int perdure_text_make_folders(void) {
  char *path = perdure_buffer_take_string();
  if (!path) return -errno;
  int result = 0;
  for (char *end = path + 1; result == 0 && *path; end++) {
    char here = *end;
    if (here != '/' && here != 0) continue;
    *end = 0;
    if (mkdir(path, 0700) != 0 && errno != EEXIST) result = -errno;
    *end = here;
    if (here == 0) break;
  }
  free(path);
  return result;
}

int perdure_buffer_write_all(int descriptor, const char *bytes, size_t count) {
  while (count > 0) {
    ssize_t done = write(descriptor, bytes, count);
    if (done < 0 && errno == EINTR) continue;
    if (done < 0) return -errno;
    bytes += done;
    count -= (size_t)done;
  }
  return 0;
}

int perdure_text_write_error(void) {
  int result = outgoing.failed ? -ENOMEM : perdure_buffer_write_all(2, outgoing.bytes, outgoing.count);
  release(&outgoing);
  return result;
}

/* Standard output. A reader that is slow holds up this thread and nothing else. */
static struct {
  pthread_mutex_t mutex;
  pthread_cond_t changed;
  struct text waiting;
  int running, writing, failure;
} output = {.mutex = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

static void *write_output(void *unused) {
  (void)unused;
  pthread_mutex_lock(&output.mutex);
  for (;;) {
    while (output.waiting.count == 0) pthread_cond_wait(&output.changed, &output.mutex);
    struct text text = output.waiting;
    memset(&output.waiting, 0, sizeof output.waiting);
    output.writing = 1;
    int failed = output.failure;
    pthread_mutex_unlock(&output.mutex);
    int result = failed ? failed : perdure_buffer_write_all(output_descriptor, text.bytes, text.count);
    release(&text);
    pthread_mutex_lock(&output.mutex);
    output.failure = result;
    output.writing = 0;
    pthread_cond_broadcast(&output.changed);
  }
  return 0;
}

static int start_output(void) {
  pthread_t thread;
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  int error = pthread_create(&thread, &attributes, write_output, 0);
  pthread_attr_destroy(&attributes);
  return error;
}

void perdure_text_queue_output(void) {
  struct text text = outgoing;
  memset(&outgoing, 0, sizeof outgoing);
  pthread_mutex_lock(&output.mutex);
  if (!output.running) {
    int error = start_output();
    if (error) output.failure = -error;
    output.running = error == 0;
  }
  if (text.failed || !reserve(&output.waiting, text.count)) {
    output.failure = -ENOMEM;
  } else if (output.failure == 0 && text.count > 0) {
    memcpy(output.waiting.bytes + output.waiting.count, text.bytes, text.count);
    output.waiting.count += text.count;
    pthread_cond_broadcast(&output.changed);
  }
  pthread_mutex_unlock(&output.mutex);
  release(&text);
}

int perdure_text_wait_output(long long limit) {
  pthread_mutex_lock(&output.mutex);
  while (output.running && output.failure == 0 && (long long)output.waiting.count > limit)
    pthread_cond_wait(&output.changed, &output.mutex);
  int result = output.failure;
  pthread_mutex_unlock(&output.mutex);
  return result;
}

int perdure_text_finish_output(void) {
  pthread_mutex_lock(&output.mutex);
  while (output.running && (output.waiting.count > 0 || output.writing))
    pthread_cond_wait(&output.changed, &output.mutex);
  int result = output.failure;
  pthread_mutex_unlock(&output.mutex);
  return result;
}

int perdure_is_terminal(int descriptor) { return isatty(descriptor) == 1; }

long long perdure_local_time(long long milliseconds) {
  struct tm parts;
  time_t seconds = (time_t)(milliseconds / 1000);
  if (!localtime_r(&seconds, &parts)) return 0;
  long long date = (parts.tm_year + 1900LL) * 10000 + (parts.tm_mon + 1) * 100 + parts.tm_mday;
  return date * 1000000 + parts.tm_hour * 10000 + parts.tm_min * 100 + parts.tm_sec;
}

int perdure_local_offset(long long milliseconds) {
  struct tm parts;
  time_t seconds = (time_t)(milliseconds / 1000);
  return localtime_r(&seconds, &parts) ? (int)(parts.tm_gmtoff / 60) : 0;
}
