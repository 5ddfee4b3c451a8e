/* Lists an older version of its tasks and answers with junk for it. */
#define EXTRA                                                                                    \
  ",\"tasks\":[{\"type\":\"broken.job\",\"version\":2,\"migrates\":[1],\"phases\":[\"one\"],"       \
  "\"initial\":{\"phase\":\"one\"}}]"
#include "broken.h"

static int32_t start_call(void *state, const pdr_call *call) {
  pdr_blob value = blob("[]", PDR_MEDIA_JSON), nothing = blob("{}", PDR_MEDIA_JSON);
  int migrates = is_for(call, "task.migrate:broken.job");
  (void)state;
  if (is_for(call, "tool:echo")) return ordinary(call);
  calls->complete(calls->ctx, call->id, PDR_OK, migrates ? &value : &nothing, NULL);
  return PDR_OK;
}

PDR_EXPORT int32_t perdure_plugin_1(const pdr_host *host, pdr_plugin *out, pdr_errbuf *err) {
  int32_t code = fill(host, out, err);
  if (code) return code;
  return PDR_OK;
}
