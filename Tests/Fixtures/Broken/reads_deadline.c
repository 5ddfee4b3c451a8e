/* Reads the deadline of a call that has none. */
#include "broken.h"

static int32_t start_call(void *state, const pdr_call *call) {
  const volatile uint64_t *deadline = &call->deadline_ns;
  (void)state;
  return *deadline == 1 ? PDR_E_TIMEOUT : ordinary(call);
}

PDR_EXPORT int32_t perdure_plugin_1(const pdr_host *host, pdr_plugin *out, pdr_errbuf *err) {
  int32_t code = fill(host, out, err);
  if (code) return code;
  return PDR_OK;
}
