/* Works for half a minute, whatever the host says meanwhile. */
#include "broken.h"

static void *work(void *argument) {
  nap(30000);
  answer((pdr_id)(uintptr_t)argument, "at last");
  return NULL;
}

static int32_t start_call(void *state, const pdr_call *call) {
  (void)state;
  if (!is_for(call, "tool:echo")) return PDR_E_UNSUPPORTED;
  on_thread(work, (void *)(uintptr_t)call->id);
  return PDR_OK;
}

PDR_EXPORT int32_t perdure_plugin_1(const pdr_host *host, pdr_plugin *out, pdr_errbuf *err) {
  int32_t code = fill(host, out, err);
  if (code) return code;
  return PDR_OK;
}
