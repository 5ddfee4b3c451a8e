#include "perdure_watch.h"

#include <errno.h>
#include <stdio.h>
#include <sys/inotify.h>
#include <unistd.h>

int perdure_watch_make(void) {
  int watch = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
  return watch < 0 ? -errno : watch;
}

int perdure_watch_add(int watch, int file) {
  char name[40];
  snprintf(name, sizeof name, "/proc/self/fd/%d", file);
  int number = inotify_add_watch(watch, name,
                                 IN_ATTRIB | IN_CLOSE_WRITE | IN_CREATE | IN_DELETE |
                                     IN_DELETE_SELF | IN_MODIFY | IN_MOVE_SELF | IN_MOVED_FROM |
                                     IN_MOVED_TO);
  return number < 0 ? -errno : number;
}

void perdure_watch_remove(int watch, int number) { inotify_rm_watch(watch, number); }

int perdure_watch_take(int watch) {
  _Alignas(struct inotify_event) char events[16384];
  int news = 0;
  while (1) {
    ssize_t length = read(watch, events, sizeof events);
    if (length < 0 && errno == EINTR) continue;
    if (length <= 0) return news;
    for (ssize_t at = 0; at < length;) {
      const struct inotify_event *event = (const struct inotify_event *)(events + at);
      news |= event->mask & IN_Q_OVERFLOW ? PERDURE_WATCH_OVERFLOW : PERDURE_WATCH_CHANGED;
      at += (ssize_t)(sizeof *event + event->len);
    }
  }
}
