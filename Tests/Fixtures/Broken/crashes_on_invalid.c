/* Believes that its text is there. */
#include "broken.h"

static int32_t start_call(void *state, const pdr_call *call) {
  const uint8_t *text;
  (void)state;
  if (!is_for(call, "tool:echo")) return PDR_E_UNSUPPORTED;
  text = memmem(call->input->ptr, call->input->len, "\"text\":\"", 8);
  if (*(const volatile uint8_t *)text != '"') return PDR_E_INVALID;
  answer(call->id, "echo");
  return PDR_OK;
}

PDR_EXPORT int32_t perdure_plugin_1(const pdr_host *host, pdr_plugin *out, pdr_errbuf *err) {
  int32_t code = fill(host, out, err);
  if (code) return code;
  return PDR_OK;
}
