/* Lowers the letters of its input in place. */
#include "broken.h"

static int32_t start_call(void *state, const pdr_call *call) {
  uint8_t *bytes = (uint8_t *)(uintptr_t)call->input->ptr;
  size_t i;
  (void)state;
  for (i = 0; i < call->input->len; i++) bytes[i] |= 0x20;
  return ordinary(call);
}

PDR_EXPORT int32_t perdure_plugin_1(const pdr_host *host, pdr_plugin *out, pdr_errbuf *err) {
  int32_t code = fill(host, out, err);
  if (code) return code;
  return PDR_OK;
}
