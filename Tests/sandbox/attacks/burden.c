/* burden KIND [COUNT]: takes more than its share, or does not want to end. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "attempt.h"

static void ignore_signals(void) {
  for (int number = 1; number < NSIG; number++) signal(number, SIG_IGN);
}

static void fork_bomb(int most) {
  int count = 0;
  while (count < most) {
    pid_t child = fork();
    if (child < 0) break;
    if (child == 0) {
      pause();
      _exit(0);
    }
    count++;
  }
  printf("%d\n", count);
}

static void touch(size_t size, int flags) {
  char *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, flags | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) {
    say("touch", "ENOMEM");
    exit(0);
  }
  for (size_t i = 0; i < size; i += 4096) memory[i] = 1;
}

/* Each child below the limit of one process, together above that of the tree. */
static void many(int count) {
  for (int i = 0; i < count; i++) {
    if (fork() == 0) {
      touch((size_t)32 << 20, MAP_PRIVATE);
      while (1) pause();
    }
  }
  while (1) pause();
}

static void *hold(void *unused) {
  (void)unused;
  touch((size_t)32 << 20, MAP_PRIVATE);
  while (1) pause();
  return NULL;
}

/* Children whose first thread has ended, so that /proc/PID/status says nothing of their memory. */
static void leaderless(int count) {
  for (int i = 0; i < count; i++) {
    if (fork() != 0) continue;
    pthread_t thread;
    pthread_create(&thread, NULL, hold, NULL);
    syscall(SYS_exit, 0);
  }
  while (1) pause();
}

/* Tables of a mapping that has no memory itself: a page of them for each 2 MiB. */
static void tables(int count) {
  size_t size = (size_t)count << 30;
  char *memory =
      mmap(NULL, size, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) {
    say("tables", "ENOMEM");
    return;
  }
  madvise(memory, size, MADV_NOHUGEPAGE);
  for (size_t i = 0; i < size; i += (size_t)2 << 20) (void)*(volatile char *)(memory + i);
  while (1) pause();
}

static void segments(int count) {
  for (int i = 0; i < count; i++) {
    int key = shmget(IPC_PRIVATE, (size_t)32 << 20, IPC_CREAT | 0600);
    if (key < 0) {
      tell("segments", -1);
      return;
    }
    char *memory = shmat(key, NULL, 0);
    for (size_t j = 0; j < (size_t)32 << 20; j += 4096) memory[j] = 1;
    shmdt(memory);
  }
  while (1) pause();
}

static void busy(void) {
  ignore_signals();
  say("busy", "now");
  while (1) {
  }
}

/* Outlives its parent, its session and every polite signal. */
static void daemonise(void) {
  pid_t child = fork();
  if (child > 0) {
    waitpid(child, NULL, 0);
    return;
  }
  setsid();
  if (fork() > 0) _exit(0);
  setsid();
  ignore_signals();
  while (1) pause();
}

/* Is always a new process when somebody looks. */
static void respawn(void) {
  for (int i = 0; i < 4; i++) {
    if (fork() == 0) {
      setsid();
      ignore_signals();
      while (1) {
        pid_t child = fork();
        if (child > 0) _exit(0);
      }
    }
  }
}

static void hold_output(void) {
  if (fork() == 0) {
    setsid();
    while (1) pause();
  }
  say("held", "yes");
}

static void kill_all(void) {
  if (fork() == 0) {
    ignore_signals();
    kill(-1, SIGKILL);
    _exit(0);
  }
  wait(NULL);
  say("killed", "sent");
}

static void flood(long bytes) {
  static char block[1 << 16];
  memset(block, 0xe2, sizeof block);
  while (bytes > 0 && write(1, block, sizeof block) > 0) bytes -= (long)sizeof block;
}

int main(int count, char **arguments) {
  if (count < 2) return 2;
  const char *kind = arguments[1];
  int number = count > 2 ? atoi(arguments[2]) : 0;
  if (strcmp(kind, "forks") == 0)
    fork_bomb(number);
  else if (strcmp(kind, "leaderless") == 0)
    leaderless(number);
  else if (strcmp(kind, "tables") == 0)
    tables(number);
  else if (strcmp(kind, "many") == 0)
    many(number);
  else if (strcmp(kind, "shared") == 0)
    touch((size_t)number << 20, MAP_SHARED);
  else if (strcmp(kind, "segments") == 0)
    segments(number);
  else if (strcmp(kind, "busy") == 0)
    busy();
  else if (strcmp(kind, "daemon") == 0)
    daemonise();
  else if (strcmp(kind, "respawn") == 0)
    respawn();
  else if (strcmp(kind, "output") == 0)
    hold_output();
  else if (strcmp(kind, "kill") == 0)
    kill_all();
  else if (strcmp(kind, "flood") == 0)
    flood((long)number << 20);
  else
    return 2;
  return 0;
}
