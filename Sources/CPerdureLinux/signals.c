#define _GNU_SOURCE
#include "perdure_signals.h"

#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <unistd.h>

static void (*first_handler)(int);

static void watched(sigset_t *set) {
  sigemptyset(set);
  sigaddset(set, SIGINT);
  sigaddset(set, SIGTERM);
}

static void *watch(void *unused) {
  (void)unused;
  sigset_t set;
  int count = 0;
  watched(&set);
  for (;;) {
    int signal;
    if (sigwait(&set, &signal) != 0) continue;
    if (++count > 1) _exit(128 + signal);
    first_handler(signal);
  }
  return 0;
}

int perdure_signals_watch(void (*first)(int signal)) {
  sigset_t set;
  pthread_t thread;
  pthread_attr_t attributes;
  struct sigaction ignore = {.sa_handler = SIG_IGN};
  first_handler = first;
  sigaction(SIGPIPE, &ignore, 0);
  watched(&set);
  /* A shell starts background jobs with SIGINT ignored, and an ignored signal is never waited for. */
  struct sigaction standard = {.sa_handler = SIG_DFL}, before;
  sigaction(SIGTERM, &standard, 0);
  if (sigaction(SIGINT, 0, &before) == 0 && before.sa_handler == SIG_IGN) sigdelset(&set, SIGINT);
  int error = pthread_sigmask(SIG_BLOCK, &set, 0);
  if (error) return -error;
  pthread_attr_init(&attributes);
  pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  error = pthread_create(&thread, &attributes, watch, 0);
  pthread_attr_destroy(&attributes);
  return -error;
}

void perdure_process_end(int status) { _exit(status); }

void perdure_process_wait(void) {
  for (;;) pause();
}
