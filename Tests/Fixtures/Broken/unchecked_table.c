/* Uses a table without looking whether it got it. */
#include "broken.h"

static int32_t start_call(void *state, const pdr_call *call) {
  (void)state;
  return ordinary(call);
}

PDR_EXPORT int32_t perdure_plugin_1(const pdr_host *host, pdr_plugin *out, pdr_errbuf *err) {
  const volatile pdr_invoke_1 *table = host->query(host->ctx, str(PDR_INVOKE_1), sizeof *invoke);
  if (table->size < sizeof *invoke) return PDR_E_UNSUPPORTED;
  return fill(host, out, err);
}
