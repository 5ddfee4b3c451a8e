/* Ends the process when it does not know what to do. */
#include "broken.h"

static int32_t start_call(void *state, const pdr_call *call) {
  (void)state;
  if (is_for(call, "tool:echo")) exit(3);
  return PDR_E_UNSUPPORTED;
}

PDR_EXPORT int32_t perdure_plugin_1(const pdr_host *host, pdr_plugin *out, pdr_errbuf *err) {
  int32_t code = fill(host, out, err);
  if (code) return code;
  return PDR_OK;
}
