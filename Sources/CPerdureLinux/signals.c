#define _GNU_SOURCE
#include "perdure_signals.h"

#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

/* A handler and not sigwait: libdispatch lets the main thread suspend with an empty mask, so a
 * blocked signal would be delivered there and end the process. */

static void (*first_handler)(int);
static sem_t arrived;
static atomic_int first_signal;

static void handle(int signal) {
  int none = 0, error = errno;
  if (!atomic_compare_exchange_strong(&first_signal, &none, signal)) _exit(128 + signal);
  sem_post(&arrived);
  errno = error;
}

static void *watch(void *unused) {
  (void)unused;
  while (sem_wait(&arrived) != 0) {
  }
  first_handler(atomic_load(&first_signal));
  return 0;
}

static int start_thread(void) {
  pthread_t thread;
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  int error = pthread_create(&thread, &attributes, watch, 0);
  pthread_attr_destroy(&attributes);
  return -error;
}

int perdure_signals_watch(void (*first)(int signal)) {
  struct sigaction ignored = {.sa_handler = SIG_IGN}, handled = {.sa_handler = handle}, before;
  sigaction(SIGPIPE, &ignored, 0);
  /* A file that may not grow is an error of the write, as on a full disk. */
  sigaction(SIGXFSZ, &ignored, 0);
  first_handler = first;
  if (sem_init(&arrived, 0, 0) != 0) return -errno;
  int error = start_thread();
  if (error) return error;
  handled.sa_flags = SA_RESTART;
  sigaction(SIGTERM, &handled, 0);
  /* A shell starts its background jobs with Ctrl-C ignored, and so it stays. */
  if (sigaction(SIGINT, 0, &before) == 0 && before.sa_handler != SIG_IGN)
    sigaction(SIGINT, &handled, 0);
  return 0;
}

static void (*exit_handler)(void);

static void exited(void) {
  if (exit_handler) exit_handler();
  _exit(1);
}

int perdure_process_watch_exit(void (*handler)(void)) {
  exit_handler = handler;
  return atexit(exited) == 0 && at_quick_exit(exited) == 0 ? 0 : -ENOMEM;
}

void perdure_process_end(int status) { _exit(status); }

void perdure_process_wait(void) {
  for (;;) pause();
}
