#define _GNU_SOURCE
#include "perdure_breadcrumb.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "buffers.h"

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
static int wants_frames;

static struct iovec piece(const char *text) {
  return (struct iovec){.iov_base = (void *)text, .iov_len = strlen(text)};
}

/* Where crashes are noted, or empty. */
static char folder[3072];

int perdure_breadcrumb_keep_crashes(void) {
  char *path = perdure_buffer_take_string();
  if (path == NULL) return -errno;
  size_t length = strlen(path);
  if (length < sizeof folder) memcpy(folder, path, length + 1);
  free(path);
  return length < sizeof folder ? 0 : -ENAMETOOLONG;
}

static void note(const perdure_breadcrumb *current) {
  char path[sizeof folder + 256];
  size_t length = strlen(folder), id = strlen(current->plugin);
  if (length == 0 || id > 200) return;
  memcpy(path, folder, length);
  path[length] = '/';
  memcpy(path + length + 1, current->plugin, id + 1);
  int file = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (file < 0) return;
  ssize_t ignored = write(file, current->target, strlen(current->target));
  (void)ignored;
  close(file);
}

long long perdure_breadcrumb_tell(int part) {
  perdure_breadcrumb current;
  if (!perdure_breadcrumb_current(&current)) return -ENOENT;
  const char *text = part == PERDURE_BREADCRUMB_PLUGIN ? current.plugin : current.target;
  return perdure_buffer_receive(text, strlen(text));
}

void perdure_breadcrumb_mark(void) {
  perdure_breadcrumb current;
  if (perdure_breadcrumb_current(&current)) note(&current);
}

void perdure_breadcrumb_signal_stack(void) {
  static _Thread_local char memory[16384] __attribute__((aligned(16)));
  stack_t stack = {.ss_sp = memory, .ss_size = sizeof memory}, there;
  /* A sanitizer has its own, which it also takes away again. */
  if (sigaltstack(NULL, &there) == 0 && there.ss_flags & SS_DISABLE) sigaltstack(&stack, NULL);
}

/* Whoever sanitizes wants to tell of it, too. */
extern void __asan_init(void) __attribute__((weak));
extern void __tsan_init(void) __attribute__((weak));

static void crashed(int signal) {
  perdure_breadcrumb current;
  int is_known = perdure_breadcrumb_current(&current);
  if (is_known) {
    struct iovec sentence[] = {
        piece("perdure: plugin "), piece(current.plugin), piece(" crashed the process in "),
        piece(current.target), piece("; what was committed is kept, and 'perdure resume' goes on\n")};
    note(&current);
    ssize_t ignored = writev(2, sentence, sizeof sentence / sizeof *sentence);
    (void)ignored;
  }
  /* The instruction runs again, and whoever was there before gets the signal; but pages of frames of
   * this program would bury the sentence that says which plugin it was. */
  static const struct sigaction none = {.sa_handler = SIG_DFL};
  int ends = is_known && !wants_frames;
  for (int i = 0; i < CRASHES; i++)
    if (crashes[i] == signal) sigaction(signal, ends ? &none : &earlier[i], 0);
}

void perdure_breadcrumb_report_crashes(void) {
  wants_frames = getenv("SWIFT_BACKTRACE") != NULL || __asan_init != NULL || __tsan_init != NULL;
  struct sigaction handled = {.sa_handler = crashed, .sa_flags = SA_ONSTACK};
  for (int i = 0; i < CRASHES; i++) sigaction(crashes[i], &handled, &earlier[i]);
}
