/* Keeps what activate made in a variable of that thread. */
#include "broken.h"

static _Thread_local const char *volatile text;

static int32_t activate(void *state, pdr_errbuf *err) {
  (void)state, (void)err;
  text = "echo";
  return PDR_OK;
}

static int32_t start_call(void *state, const pdr_call *call) {
  (void)state;
  if (!is_for(call, "tool:echo")) return PDR_E_UNSUPPORTED;
  answer(call->id, text);
  return PDR_OK;
}

PDR_EXPORT int32_t perdure_plugin_1(const pdr_host *host, pdr_plugin *out, pdr_errbuf *err) {
  int32_t code = fill(host, out, err);
  if (code) return code;
  out->activate = activate;
  return PDR_OK;
}
