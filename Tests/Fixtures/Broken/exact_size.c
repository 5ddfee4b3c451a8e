/* Wants a host that is exactly as old as it is. */
#include "broken.h"

static int32_t start_call(void *state, const pdr_call *call) {
  (void)state;
  return ordinary(call);
}

PDR_EXPORT int32_t perdure_plugin_1(const pdr_host *host, pdr_plugin *out, pdr_errbuf *err) {
  if (host->size != sizeof *host || host->minor != PDR_ABI_MINOR) return PDR_E_UNSUPPORTED;
  return fill(host, out, err);
}
