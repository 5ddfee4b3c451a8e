/* Completes a call both from its work and from its cancellation. */
#include "broken.h"

static void cancelled(void *argument, pdr_id call, uint32_t reason) {
  (void)argument, (void)reason;
  nap(3);
  fail(call, PDR_E_CANCELLED, "cancelled");
}

static void *work(void *argument) {
  nap(2);
  answer((pdr_id)(uintptr_t)argument, "echo");
  return NULL;
}

static int32_t start_call(void *state, const pdr_call *call) {
  (void)state;
  if (!is_for(call, "tool:echo")) return PDR_E_UNSUPPORTED;
  calls->on_cancel(calls->ctx, call->id, cancelled, NULL);
  on_thread(work, (void *)(uintptr_t)call->id);
  return PDR_OK;
}

PDR_EXPORT int32_t perdure_plugin_1(const pdr_host *host, pdr_plugin *out, pdr_errbuf *err) {
  int32_t code = fill(host, out, err);
  if (code) return code;
  return PDR_OK;
}
