/* Takes the request to stop and never says that it did. */
#include "broken.h"

static int32_t start_call(void *state, const pdr_call *call) {
  (void)state;
  return ordinary(call);
}

static int32_t deactivate(void *state, pdr_id ticket, uint64_t deadline) {
  (void)state, (void)ticket, (void)deadline;
  return PDR_OK;
}

PDR_EXPORT int32_t perdure_plugin_1(const pdr_host *host, pdr_plugin *out, pdr_errbuf *err) {
  int32_t code = fill(host, out, err);
  if (code) return code;
  out->deactivate = deactivate;
  return PDR_OK;
}
