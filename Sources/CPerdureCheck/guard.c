/* Memory with an edge, and what is said of a crash. */
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "internal.h"

#define LOANS 65536

typedef struct place {
  const uint8_t *begin, *edge, *end; /* [begin, edge) may be read, [edge, end) not */
  size_t length;
  _Atomic int is_over;
  char what[96];
} place;

static place places[LOANS];
static _Atomic size_t place_count;
static int told = -1;
static _Thread_local char here[192];
static char latest[192];

check_loan check_lend(const void *bytes, size_t length, int guarded, const char *what) {
  check_loan loan;
  size_t page = (size_t)sysconf(_SC_PAGESIZE), size = (length + page) / page * page;
  size_t index = place_count;
  uint8_t *pages;
  memset(&loan, 0, sizeof loan);
  if (!guarded || index >= LOANS) {
    /* A zero behind it, and kept for ever: only guarded memory shows what is read beyond. */
    uint8_t *copy = calloc(1, length + 16);
    if (copy && length) memcpy(copy, bytes, length);
    loan.bytes = copy;
    return loan;
  }
  pages = mmap(NULL, size + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (pages == MAP_FAILED) abort();
  if (length) memcpy(pages + size - length, bytes, length);
  mprotect(pages, size, PROT_READ);
  mprotect(pages + size, page, PROT_NONE);
  places[index].begin = pages;
  places[index].edge = pages + size;
  places[index].end = pages + size + page;
  places[index].length = length;
  snprintf(places[index].what, sizeof places[index].what, "%s", what);
  place_count = index + 1;
  loan.pages = pages;
  loan.size = size;
  loan.index = index;
  loan.bytes = pages + size - length;
  return loan;
}

void check_take_back(check_loan *loan) {
  if (!loan->pages) return;
  places[loan->index].is_over = 1;
  mprotect(loan->pages, loan->size, PROT_NONE);
}

static void explain(char *line, size_t capacity, const uint8_t *address) {
  size_t index, count = place_count;
  for (index = 0; index < count; index++) {
    place *it = &places[index];
    if (address < it->begin || address >= it->end) continue;
    if (it->is_over)
      snprintf(line, capacity, "it used %s after it had to be given back", it->what);
    else if (address >= it->edge)
      snprintf(line, capacity, "it went past the %zu bytes of %s", it->length, it->what);
    else
      snprintf(line, capacity, "it wrote to %s, which is only lent", it->what);
    return;
  }
  snprintf(line, capacity, "it used the address %p", (const void *)address);
}

static void on_crash(int number, siginfo_t *info, void *context) {
  char line[512], why[256] = "";
  const char *name = sigabbrev_np(number);
  ssize_t ignored;
  (void)context;
  if (number == SIGSEGV || number == SIGBUS) explain(why, sizeof why, info->si_addr);
  snprintf(line, sizeof line, "!SIG%s%s%s%s%s\n", name ? name : "?", why[0] ? ": " : "", why,
           here[0] ? ", in " : ", on a thread of its own after ", here[0] ? here : latest);
  ignored = write(told, line, strlen(line));
  (void)ignored;
  _exit(99);
}

void perdure_check_tell(int descriptor) {
  static const int signals[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT, SIGTRAP, SIGSYS};
  size_t i;
  struct sigaction action;
  static char stack[65536];
  stack_t other = {.ss_sp = stack, .ss_size = sizeof stack};
  told = descriptor;
  sigaltstack(&other, NULL);
  memset(&action, 0, sizeof action);
  action.sa_sigaction = on_crash;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  for (i = 0; i < sizeof signals / sizeof signals[0]; i++) sigaction(signals[i], &action, NULL);
}

void perdure_check_say(const uint8_t *line, size_t length) {
  while (told >= 0 && length > 0) {
    ssize_t count = write(told, line, length);
    if (count <= 0) return;
    line += count, length -= (size_t)count;
  }
}

void check_enter_code(const char *target) {
  char line[208];
  int length = snprintf(line, sizeof line, "@%s\n", target);
  snprintf(here, sizeof here, "%s", target);
  memcpy(latest, here, sizeof latest);
  perdure_check_say((const uint8_t *)line, (size_t)length);
}
