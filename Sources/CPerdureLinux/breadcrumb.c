#include "perdure_breadcrumb.h"

#include <signal.h>
#include <stddef.h>

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
