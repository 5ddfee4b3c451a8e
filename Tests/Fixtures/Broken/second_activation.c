/* Can be activated once. */
#include "broken.h"

static int32_t start_call(void *state, const pdr_call *call) {
  (void)state;
  return ordinary(call);
}

static int is_used;

static int32_t activate(void *state, pdr_errbuf *err) {
  (void)state, (void)err;
  return is_used++ ? PDR_E_BUSY : PDR_OK;
}

PDR_EXPORT int32_t perdure_plugin_1(const pdr_host *host, pdr_plugin *out, pdr_errbuf *err) {
  int32_t code = fill(host, out, err);
  if (code) return code;
  out->activate = activate;
  return PDR_OK;
}
