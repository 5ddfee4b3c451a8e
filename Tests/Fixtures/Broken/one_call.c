/* Keeps the call it works on in a static. */
#include "broken.h"

static _Atomic pdr_id current;

static void *work(void *argument) {
  (void)argument;
  nap(50);
  if (current) answer(current, "echo");
  current = 0;
  return NULL;
}

static int32_t start_call(void *state, const pdr_call *call) {
  (void)state;
  if (!is_for(call, "tool:echo")) return PDR_E_UNSUPPORTED;
  current = call->id;
  on_thread(work, NULL);
  return PDR_OK;
}

PDR_EXPORT int32_t perdure_plugin_1(const pdr_host *host, pdr_plugin *out, pdr_errbuf *err) {
  int32_t code = fill(host, out, err);
  if (code) return code;
  return PDR_OK;
}
