/* Has a thread that logs for ever. */
#include "broken.h"

static int32_t start_call(void *state, const pdr_call *call) {
  (void)state;
  return ordinary(call);
}

static void *chatter(void *argument) {
  (void)argument;
  for (;;) {
    pdr_blob line = blob("{\"level\":\"info\",\"message\":\"still here\"}", PDR_MEDIA_JSON);
    invoke->start(invoke->ctx, 0, str("log"), &line, NULL, NULL, NULL);
    nap(50);
  }
  return NULL;
}

static int32_t activate(void *state, pdr_errbuf *err) {
  (void)state, (void)err;
  on_thread(chatter, NULL);
  return PDR_OK;
}

PDR_EXPORT int32_t perdure_plugin_1(const pdr_host *host, pdr_plugin *out, pdr_errbuf *err) {
  int32_t code = fill(host, out, err);
  if (code) return code;
  out->activate = activate;
  return PDR_OK;
}
