#define _GNU_SOURCE
#include "perdure_timers.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <time.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t news = PTHREAD_COND_INITIALIZER;
static int has_news;
static int64_t (*look_now)(void);

static int wait_for_news(int64_t until) {
  struct timespec time = {until / 1000000000, until % 1000000000};
  if (until == INT64_MAX) return pthread_cond_wait(&news, &lock);
  return pthread_cond_clockwait(&news, &lock, CLOCK_MONOTONIC, &time);
}

static void *run(void *unused) {
  (void)unused;
  for (;;) {
    /* Before the look: what comes after it must not be missed. */
    pthread_mutex_lock(&lock);
    has_news = 0;
    pthread_mutex_unlock(&lock);
    int64_t next = look_now();
    pthread_mutex_lock(&lock);
    while (!has_news && wait_for_news(next) != ETIMEDOUT) {
    }
    pthread_mutex_unlock(&lock);
  }
  return 0;
}

int perdure_timers_start(int64_t (*look)(void)) {
  pthread_t thread;
  pthread_attr_t attributes;
  sigset_t all, before;
  look_now = look;
  pthread_attr_init(&attributes);
  pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  /* Signals are for other threads. */
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  int error = pthread_create(&thread, &attributes, run, 0);
  pthread_sigmask(SIG_SETMASK, &before, 0);
  pthread_attr_destroy(&attributes);
  return -error;
}

void perdure_timers_wake(void) {
  pthread_mutex_lock(&lock);
  has_news = 1;
  pthread_cond_signal(&news);
  pthread_mutex_unlock(&lock);
}
