/* Gives a table for whatever name it is asked for. */
#include "broken.h"

static int32_t start_call(void *state, const pdr_call *call) {
  (void)state;
  return ordinary(call);
}

static const void *query(void *state, pdr_str name, uint32_t least) {
  static const uint32_t table[2] = {sizeof table, 0};
  (void)state, (void)name, (void)least;
  return table;
}

PDR_EXPORT int32_t perdure_plugin_1(const pdr_host *host, pdr_plugin *out, pdr_errbuf *err) {
  int32_t code = fill(host, out, err);
  if (code) return code;
  out->query = query;
  return PDR_OK;
}
