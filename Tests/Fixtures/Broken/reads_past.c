/* Takes its input for a C string. */
#include "broken.h"

static int32_t start_call(void *state, const pdr_call *call) {
  const volatile uint8_t *at = call->input->ptr;
  size_t length = 0;
  (void)state;
  while (at[length]) length++;
  return length ? ordinary(call) : PDR_E_INVALID;
}

PDR_EXPORT int32_t perdure_plugin_1(const pdr_host *host, pdr_plugin *out, pdr_errbuf *err) {
  int32_t code = fill(host, out, err);
  if (code) return code;
  return PDR_OK;
}
