/* Completes its call a second time, a little later. */
#include "broken.h"

static void *again(void *argument) {
  nap(100);
  answer((pdr_id)(uintptr_t)argument, "twice");
  return NULL;
}

static int32_t start_call(void *state, const pdr_call *call) {
  int32_t code = ordinary(call);
  (void)state;
  if (!code) on_thread(again, (void *)(uintptr_t)call->id);
  return code;
}

PDR_EXPORT int32_t perdure_plugin_1(const pdr_host *host, pdr_plugin *out, pdr_errbuf *err) {
  int32_t code = fill(host, out, err);
  if (code) return code;
  return PDR_OK;
}
