/* Destroys what only activate makes. */
#include "broken.h"

static int32_t start_call(void *state, const pdr_call *call) {
  (void)state;
  return ordinary(call);
}

static volatile int *made;

static int32_t activate(void *state, pdr_errbuf *err) {
  (void)state, (void)err;
  made = calloc(1, sizeof *made);
  return made ? PDR_OK : PDR_E_INTERNAL;
}

static void destroy(void *state) {
  (void)state;
  *made = 1;
  free((void *)made);
  made = NULL;
}

PDR_EXPORT int32_t perdure_plugin_1(const pdr_host *host, pdr_plugin *out, pdr_errbuf *err) {
  int32_t code = fill(host, out, err);
  if (code) return code;
  out->activate = activate;
  out->destroy = destroy;
  return PDR_OK;
}
