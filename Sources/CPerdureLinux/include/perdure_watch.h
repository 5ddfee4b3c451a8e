/* Being told that files change. What fails returns -errno. */
#ifndef PERDURE_WATCH_H
#define PERDURE_WATCH_H

enum perdure_watch_news {
  PERDURE_WATCH_CHANGED = 1,
  /* More happened than the kernel kept. */
  PERDURE_WATCH_OVERFLOW = 2
};

int perdure_watch_make(void);

/* Begins to watch what `file` is, a file or a folder; the number of the watch. */
int perdure_watch_add(int watch, int file);

void perdure_watch_remove(int watch, int number);

/* Takes all that has happened; the kinds of it. */
int perdure_watch_take(int watch);

#endif
