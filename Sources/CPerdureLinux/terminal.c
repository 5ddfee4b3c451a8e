#define _GNU_SOURCE
#include "perdure_terminal.h"

#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <unistd.h>

#include "buffers.h"
#include "perdure_text.h"

enum { longest = 64 << 10 };

static long long read_line(void) {
  static _Thread_local char line[longest];
  size_t count = 0;
  for (;;) {
    char byte;
    ssize_t got = read(0, &byte, 1);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return -errno;
    if (got == 0 && count == 0) return -ENODATA;
    if (got == 0 || byte == '\n') return perdure_buffer_receive(line, count);
    if (count < longest) line[count++] = byte;
  }
}

static void *work(void *context) {
  void (*done)(long long) = (void (*)(long long))(intptr_t)context;
  done(read_line());
  perdure_text_forget();
  return 0;
}

int perdure_terminal_read(void (*done)(long long count)) {
  pthread_attr_t attributes;
  pthread_t thread;
  pthread_attr_init(&attributes);
  pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  int code = pthread_create(&thread, &attributes, work, (void *)(intptr_t)done);
  pthread_attr_destroy(&attributes);
  return -code;
}
