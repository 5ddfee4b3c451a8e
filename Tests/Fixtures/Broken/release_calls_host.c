/* Logs from the function that releases its bytes. */
#include "broken.h"

static void release(void *owner) {
  pdr_blob line = blob("{\"level\":\"info\",\"message\":\"freed\"}", PDR_MEDIA_JSON);
  invoke->start(invoke->ctx, 0, str("log"), &line, NULL, NULL, NULL);
  free(owner);
}

static int32_t start_call(void *state, const pdr_call *call) {
  pdr_blob value = blob("echo", PDR_MEDIA_TEXT);
  (void)state;
  if (!is_for(call, "tool:echo")) return PDR_E_UNSUPPORTED;
  value.owner = strdup("echo");
  value.ptr = value.owner;
  value.release = release;
  calls->complete(calls->ctx, call->id, PDR_OK, &value, NULL);
  return PDR_OK;
}

PDR_EXPORT int32_t perdure_plugin_1(const pdr_host *host, pdr_plugin *out, pdr_errbuf *err) {
  int32_t code = fill(host, out, err);
  if (code) return code;
  return PDR_OK;
}
