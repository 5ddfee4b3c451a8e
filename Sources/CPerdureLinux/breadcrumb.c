#define _GNU_SOURCE
#include "perdure_breadcrumb.h"

#include <signal.h>
#include <stddef.h>
#include <string.h>
#include <sys/uio.h>

static _Thread_local perdure_breadcrumb crumb;
/* Written last and cleared first, so that a handler never sees half a crumb. */
static _Thread_local volatile sig_atomic_t inside;

void perdure_breadcrumb_enter(const char *plugin, const char *target, unsigned long long call) {
  crumb.plugin = plugin;
  crumb.target = target;
  crumb.call = call;
  __atomic_signal_fence(__ATOMIC_RELEASE);
  inside = 1;
}

void perdure_breadcrumb_leave(void) { inside = 0; }

int perdure_breadcrumb_current(perdure_breadcrumb *out) {
  if (!inside || !out) return 0;
  __atomic_signal_fence(__ATOMIC_ACQUIRE);
  *out = crumb;
  return 1;
}

static const int crashes[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};
enum { CRASHES = sizeof crashes / sizeof *crashes };
static struct sigaction earlier[CRASHES];

static struct iovec piece(const char *text) {
  return (struct iovec){.iov_base = (void *)text, .iov_len = strlen(text)};
}

static void crashed(int signal) {
  perdure_breadcrumb current;
  if (perdure_breadcrumb_current(&current)) {
    struct iovec sentence[] = {
        piece("perdure: plugin "), piece(current.plugin), piece(" crashed the process in "),
        piece(current.target), piece("; what was committed is kept, and 'perdure resume' goes on\n")};
    ssize_t ignored = writev(2, sentence, sizeof sentence / sizeof *sentence);
    (void)ignored;
  }
  /* The instruction runs again, and whoever was there before gets the signal. */
  for (int i = 0; i < CRASHES; i++)
    if (crashes[i] == signal) sigaction(signal, &earlier[i], 0);
}

void perdure_breadcrumb_report_crashes(void) {
  struct sigaction handled = {.sa_handler = crashed, .sa_flags = SA_ONSTACK};
  for (int i = 0; i < CRASHES; i++) sigaction(crashes[i], &handled, &earlier[i]);
}
