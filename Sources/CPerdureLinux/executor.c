#define _GNU_SOURCE
#include "perdure_executor.h"

#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* One queue in the order of arrival, in which priorities count for nothing, and one worker thread for
 * each core. To wake a thread is what costs, so none is woken for what a worker takes soon anyway: for
 * the first job that a worker adds itself, or that another thread adds while a worker has only just
 * taken one. That would hold up the job if the worker went on for long, so a watching thread looks now
 * and then while any worker is awake: it wakes another for a job that waits, and adds one if all of
 * them are blocked. With the workers at rest it rests too, and nothing wakes until a job comes.
 *
 * Only the hook for the global executor is set. The main actor, `Task.sleep` and `Task.yield` do not
 * ask a hook; libdispatch goes on serving them, and what they resume comes back here at its next
 * suspension. */

#define SWIFT __attribute__((swiftcall))

struct executor {
  void *identity;
  uintptr_t implementation;
};

/* What every task is to its executor: two words are the executor's, after the header of an object. */
struct job {
  void *header[2];
  struct job *next;
  void *spare;
};

extern SWIFT void swift_job_run(struct job *job, struct executor executor);
extern SWIFT void (*swift_task_enqueueGlobal_hook)(struct job *job, void *original);

#define MAX_WORKERS 64
#define TICK_NANOSECONDS 50000000
/* Ticks without a job taken after which the workers count as blocked. */
#define BLOCKED_TICKS 2
/* Ticks with all workers at rest after which the watching thread is at rest too. */
#define RESTING_TICKS 2
/* How long a job is likely to take at most. */
#define SOON_NANOSECONDS 200000

struct worker {
  struct worker *below;
  atomic_int is_woken;
};

static pthread_mutex_t lock = PTHREAD_ADAPTIVE_MUTEX_INITIALIZER_NP;
/* All that follows is reached under the lock. */
static struct job *first, *last;
static int ready_count;
static struct worker workers[MAX_WORKERS];
static int worker_count, awake_count, awake_limit, core_count;
/* The last that went to rest is the first to be woken: what it needs is still in its cache. */
static struct worker *resting;
static uint64_t taken_count;
static int64_t taken_time;
static pthread_cond_t watch_news = PTHREAD_COND_INITIALIZER;
static int watch_rests;

static _Thread_local int is_worker;

static int64_t now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec * 1000000000LL + time.tv_nsec;
}

static void append(struct job *job) {
  job->next = 0;
  if (last) last->next = job;
  else first = job;
  last = job;
  ready_count++;
}

static struct job *take(void) {
  struct job *job = first;
  if (!job) return 0;
  first = job->next;
  if (!first) last = 0;
  ready_count--;
  taken_count++;
  taken_time = now();
  return job;
}

/* Workers */

static void rest(struct worker *worker) {
  atomic_store(&worker->is_woken, 0);
  worker->below = resting;
  resting = worker;
  awake_count--;
  /* Those that were added for blocked ones are not needed any more. */
  if (awake_limit > core_count) awake_limit--;
  pthread_mutex_unlock(&lock);
  while (!atomic_load(&worker->is_woken))
    syscall(SYS_futex, &worker->is_woken, FUTEX_WAIT_PRIVATE, 0, 0, 0, 0);
  pthread_mutex_lock(&lock);
}

/* Takes a worker from its rest, if one may be woken. */
static struct worker *choose(void) {
  struct worker *worker = resting;
  if (!worker || awake_count >= awake_limit) return 0;
  resting = worker->below;
  awake_count++;
  return worker;
}

/* Without the lock, for which the woken thread would only wait. */
static void wake(struct worker *worker) {
  if (!worker) return;
  atomic_store(&worker->is_woken, 1);
  syscall(SYS_futex, &worker->is_woken, FUTEX_WAKE_PRIVATE, 1, 0, 0, 0);
}

/* Wakes a worker if more than `spared` jobs are ready, which are those that need none. */
static void unlock_and_wake(int spared) {
  struct worker *worker = ready_count > spared ? choose() : 0;
  if (worker && watch_rests) {
    watch_rests = 0;
    pthread_cond_signal(&watch_news);
  }
  pthread_mutex_unlock(&lock);
  wake(worker);
}

static SWIFT void enqueue(struct job *job, void *original) {
  (void)original;
  pthread_mutex_lock(&lock);
  append(job);
  unlock_and_wake(is_worker || (awake_count && now() - taken_time < SOON_NANOSECONDS));
}

static void *work(void *context) {
  struct worker *worker = context;
  is_worker = 1;
  for (;;) {
    struct job *job;
    pthread_mutex_lock(&lock);
    while (!(job = take())) rest(worker);
    unlock_and_wake(1);
    swift_job_run(job, (struct executor){0, 0});
  }
  return 0;
}

static int start(void *(*body)(void *), void *context) {
  pthread_t thread;
  pthread_attr_t attributes;
  sigset_t blocked, before;
  pthread_attr_init(&attributes);
  pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  /* Signals are for other threads, but for those with which a thread hears of its own fault, and the
   * one with which the runtime stops the others to print where a fault was. */
  static const int open[] = {SIGABRT, SIGBUS, SIGFPE, SIGILL, SIGPROF, SIGSEGV, SIGSYS, SIGTRAP};
  sigfillset(&blocked);
  for (size_t i = 0; i < sizeof open / sizeof *open; i++) sigdelset(&blocked, open[i]);
  pthread_sigmask(SIG_SETMASK, &blocked, &before);
  int error = pthread_create(&thread, &attributes, body, context);
  pthread_sigmask(SIG_SETMASK, &before, 0);
  pthread_attr_destroy(&attributes);
  return -error;
}

/* It is for the caller to see that there is room. */
static int add_worker(void) {
  int error = start(work, &workers[worker_count]);
  if (error) return error;
  worker_count++;
  awake_count++;
  return 0;
}

/* The watching thread */

static struct worker *relieve(void) {
  static uint64_t last_count;
  static int blocked_ticks;
  blocked_ticks = ready_count && taken_count == last_count ? blocked_ticks + 1 : 0;
  last_count = taken_count;
  if (blocked_ticks >= BLOCKED_TICKS && awake_limit < MAX_WORKERS) {
    blocked_ticks = 0;
    awake_limit++;
    if (!resting && worker_count < MAX_WORKERS) add_worker();
  }
  return ready_count ? choose() : 0;
}

static void wait_for_tick(void) {
  int64_t end = now() + TICK_NANOSECONDS;
  struct timespec until = {end / 1000000000, end % 1000000000};
  while (pthread_cond_clockwait(&watch_news, &lock, CLOCK_MONOTONIC, &until) == 0) {
  }
}

static void *watch(void *unused) {
  int resting_ticks = 0;
  (void)unused;
  pthread_mutex_lock(&lock);
  for (;;) {
    resting_ticks = awake_count ? 0 : resting_ticks + 1;
    watch_rests = resting_ticks > RESTING_TICKS;
    while (watch_rests) pthread_cond_wait(&watch_news, &lock);
    wait_for_tick();
    struct worker *worker = relieve();
    pthread_mutex_unlock(&lock);
    wake(worker);
    pthread_mutex_lock(&lock);
  }
  return 0;
}

int perdure_executor_install(void) {
  cpu_set_t cores;
  int error;
  core_count = sched_getaffinity(0, sizeof cores, &cores) == 0 ? CPU_COUNT(&cores) : 2;
  if (core_count < 2) core_count = 2;
  if (core_count > MAX_WORKERS) core_count = MAX_WORKERS;
  pthread_mutex_lock(&lock);
  awake_limit = core_count;
  error = start(watch, 0);
  while (!error && worker_count < core_count) error = add_worker();
  pthread_mutex_unlock(&lock);
  if (error && !worker_count) return error;
  swift_task_enqueueGlobal_hook = enqueue;
  return 0;
}
