/* Does not work beside a second copy of itself. */
#include "broken.h"

static int32_t start_call(void *state, const pdr_call *call) {
  (void)state;
  return ordinary(call);
}

static int32_t activate(void *state, pdr_errbuf *err) {
  (void)state, (void)err;
  if (getenv("BROKEN_IS_HERE")) return PDR_E_BUSY;
  return setenv("BROKEN_IS_HERE", "1", 1) ? PDR_E_INTERNAL : PDR_OK;
}

static void destroy(void *state) {
  (void)state;
  unsetenv("BROKEN_IS_HERE");
}

PDR_EXPORT int32_t perdure_plugin_1(const pdr_host *host, pdr_plugin *out, pdr_errbuf *err) {
  int32_t code = fill(host, out, err);
  if (code) return code;
  out->activate = activate;
  out->destroy = destroy;
  return PDR_OK;
}
