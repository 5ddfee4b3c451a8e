/* Goes on to emit when there is no credit. */
#include "broken.h"

static int32_t start_call(void *state, const pdr_call *call) {
  pdr_blob chunk = blob("a line of output\n", PDR_MEDIA_TEXT);
  int tries;
  (void)state;
  if (!is_for(call, "tool:echo")) return PDR_E_UNSUPPORTED;
  for (tries = 0; tries < 100000; tries++)
    if (calls->emit(calls->ctx, call->id, &chunk) != PDR_E_WOULD_BLOCK) break;
  return ordinary(call);
}

PDR_EXPORT int32_t perdure_plugin_1(const pdr_host *host, pdr_plugin *out, pdr_errbuf *err) {
  int32_t code = fill(host, out, err);
  if (code) return code;
  return PDR_OK;
}
