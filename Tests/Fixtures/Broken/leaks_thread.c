/* Starts a thread when it is activated and never ends it. */
#include "broken.h"

static int32_t start_call(void *state, const pdr_call *call) {
  (void)state;
  return ordinary(call);
}

static void *idle(void *argument) {
  (void)argument;
  for (;;) pause();
  return NULL;
}

static int32_t activate(void *state, pdr_errbuf *err) {
  (void)state, (void)err;
  on_thread(idle, NULL);
  return PDR_OK;
}

PDR_EXPORT int32_t perdure_plugin_1(const pdr_host *host, pdr_plugin *out, pdr_errbuf *err) {
  int32_t code = fill(host, out, err);
  if (code) return code;
  out->activate = activate;
  return PDR_OK;
}
