/* Refuses the settings that are its own default. */
#define EXTRA ",\"settings\":{\"schema\":{\"type\":\"object\"},\"default\":{\"n\":1}}"
#include "broken.h"

static int32_t start_call(void *state, const pdr_call *call) {
  (void)state;
  if (!is_for(call, "settings.changed")) return ordinary(call);
  fail(call->id, PDR_E_INVALID, "n must be 2");
  return PDR_OK;
}

PDR_EXPORT int32_t perdure_plugin_1(const pdr_host *host, pdr_plugin *out, pdr_errbuf *err) {
  int32_t code = fill(host, out, err);
  if (code) return code;
  return PDR_OK;
}
