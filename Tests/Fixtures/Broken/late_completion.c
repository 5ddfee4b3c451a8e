/* Says that it is stopped while a call is open, and completes that later. */
#include "broken.h"

static void *later(void *argument) {
  nap(250);
  answer((pdr_id)(uintptr_t)argument, "late");
  return NULL;
}

static int32_t start_call(void *state, const pdr_call *call) {
  (void)state;
  if (!is_for(call, "tool:echo")) return PDR_E_UNSUPPORTED;
  on_thread(later, (void *)(uintptr_t)call->id);
  return PDR_OK;
}

static int32_t deactivate(void *state, pdr_id ticket, uint64_t deadline) {
  (void)state, (void)deadline;
  say_stopped(ticket);
  return PDR_OK;
}

PDR_EXPORT int32_t perdure_plugin_1(const pdr_host *host, pdr_plugin *out, pdr_errbuf *err) {
  int32_t code = fill(host, out, err);
  if (code) return code;
  out->deactivate = deactivate;
  return PDR_OK;
}
