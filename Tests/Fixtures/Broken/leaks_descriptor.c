/* Opens a file when it is activated and never closes it. */
#include "broken.h"

static int32_t start_call(void *state, const pdr_call *call) {
  (void)state;
  return ordinary(call);
}

static int32_t activate(void *state, pdr_errbuf *err) {
  (void)state, (void)err;
  return open("/dev/null", O_RDONLY | O_CLOEXEC) < 0 ? PDR_E_INTERNAL : PDR_OK;
}

PDR_EXPORT int32_t perdure_plugin_1(const pdr_host *host, pdr_plugin *out, pdr_errbuf *err) {
  int32_t code = fill(host, out, err);
  if (code) return code;
  out->activate = activate;
  return PDR_OK;
}
