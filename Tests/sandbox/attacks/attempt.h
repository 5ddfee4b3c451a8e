/* How an attack says what came of it: one line for each attempt, "ROW.NAME RESULT". */
#ifndef ATTEMPT_H
#define ATTEMPT_H

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static inline void say(const char *row, const char *result) {
  printf("%s %s\n", row, result);
  fflush(stdout);
}

/* The result of a call that returns a negative number on failure: OK or the name of the error. */
static inline void tell(const char *row, long result) {
  const char *name = strerrorname_np(errno);
  say(row, result >= 0 ? "OK" : name != NULL ? name : "unnamed");
}

#define ATTEMPT(row, call) (errno = 0, tell(row, (long)(call)))

#endif
