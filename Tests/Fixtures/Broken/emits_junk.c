/* Emits bytes that are no text as text. */
#include "broken.h"

static int32_t start_call(void *state, const pdr_call *call) {
  pdr_blob chunk = blob("half a letter: \xc3", PDR_MEDIA_TEXT);
  (void)state;
  if (!is_for(call, "tool:echo")) return PDR_E_UNSUPPORTED;
  calls->emit(calls->ctx, call->id, &chunk);
  return ordinary(call);
}

PDR_EXPORT int32_t perdure_plugin_1(const pdr_host *host, pdr_plugin *out, pdr_errbuf *err) {
  return fill(host, out, err);
}
