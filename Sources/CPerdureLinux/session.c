#define _GNU_SOURCE
#include "perdure_session.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

/* A reader that is gone sends SIGPIPE to this thread; it is taken back unless one was waiting. */
long long perdure_session_write(int file, const void *bytes, long long count) {
  sigset_t pipe_signal, before, pending;
  sigemptyset(&pipe_signal);
  sigaddset(&pipe_signal, SIGPIPE);
  sigpending(&pending);
  int was_pending = sigismember(&pending, SIGPIPE);
  pthread_sigmask(SIG_BLOCK, &pipe_signal, &before);
  ssize_t written;
  do {
    written = write(file, bytes, (size_t)count);
  } while (written < 0 && errno == EINTR);
  int error = errno;
  if (written < 0 && error == EPIPE && !was_pending) {
    struct timespec at_once = {0, 0};
    while (sigtimedwait(&pipe_signal, NULL, &at_once) < 0 && errno == EINTR) {
    }
  }
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  return written < 0 ? -error : (long long)written;
}

int perdure_session_wait(int first, int second, int third, int fourth, int written,
                         int milliseconds) {
  struct pollfd files[5] = {
      {.fd = first, .events = POLLIN},  {.fd = second, .events = POLLIN},
      {.fd = third, .events = POLLIN},  {.fd = fourth, .events = POLLIN},
      {.fd = written, .events = POLLOUT},
  };
  int count = poll(files, 5, milliseconds);
  if (count < 0) return errno == EINTR ? 0 : -errno;
  int ready = 0;
  for (int index = 0; index < 5; index++)
    if (files[index].revents) ready |= 1 << index;
  return ready;
}

int perdure_session_prepare(int file) {
  int flags = fcntl(file, F_GETFL);
  return flags < 0 || fcntl(file, F_SETFL, flags | O_NONBLOCK) != 0 ? -errno : 0;
}

int perdure_session_resize(int terminal, int rows, int columns) {
  struct winsize size;
  memset(&size, 0, sizeof size);
  size.ws_row = (unsigned short)rows;
  size.ws_col = (unsigned short)columns;
  return ioctl(terminal, TIOCSWINSZ, &size) != 0 ? -errno : 0;
}

int perdure_session_has_group(int group) {
  /* EPERM: there is one, of another user. */
  return group > 1 && (kill(-group, 0) == 0 || errno == EPERM);
}
