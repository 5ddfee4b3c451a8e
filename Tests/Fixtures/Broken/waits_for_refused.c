/* Waits for operations that the host did not accept. */
#include "broken.h"

static void done(void *argument, pdr_id request, int32_t status, const pdr_blob *value,
                 const pdr_err *err) {
  (void)request, (void)status, (void)value, (void)err;
  answer((pdr_id)(uintptr_t)argument, "echo");
}

static int32_t start_call(void *state, const pdr_call *call) {
  (void)state;
  if (!is_for(call, "tool:echo")) return PDR_E_UNSUPPORTED;
  invoke->start(invoke->ctx, call->id, str("clock"), NULL, done, (void *)(uintptr_t)call->id, NULL);
  return PDR_OK;
}

PDR_EXPORT int32_t perdure_plugin_1(const pdr_host *host, pdr_plugin *out, pdr_errbuf *err) {
  int32_t code = fill(host, out, err);
  if (code) return code;
  return PDR_OK;
}
