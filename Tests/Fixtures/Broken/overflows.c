/* Calls itself without end. */
#include "broken.h"

static int deeper(const volatile char *above) {
  volatile char here[512];
  here[0] = above[0];
  return here[0] ? deeper(here) + here[0] : 0;
}

static int32_t start_call(void *state, const pdr_call *call) {
  (void)state;
  return deeper("x") ? ordinary(call) : PDR_E_INTERNAL;
}

PDR_EXPORT int32_t perdure_plugin_1(const pdr_host *host, pdr_plugin *out, pdr_errbuf *err) {
  int32_t code = fill(host, out, err);
  if (code) return code;
  return PDR_OK;
}
