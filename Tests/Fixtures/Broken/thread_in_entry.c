/* Starts a thread in its entry function. */
#include "broken.h"

static int32_t start_call(void *state, const pdr_call *call) {
  (void)state;
  return ordinary(call);
}

static void *idle(void *argument) {
  (void)argument;
  nap(5000);
  return NULL;
}

PDR_EXPORT int32_t perdure_plugin_1(const pdr_host *host, pdr_plugin *out, pdr_errbuf *err) {
  int32_t code = fill(host, out, err);
  if (code) return code;
  on_thread(idle, NULL);
  return PDR_OK;
}
