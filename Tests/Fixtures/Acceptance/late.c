/* A plugin that registers a tool while it runs, and one of whose tools fails for the operator only. */
#include "perdure_easy.h"

PDR_PLUGIN_NOTE("c");
PDR_MANIFEST(
    "{\"manifest\": 1, \"id\": \"test.late\", \"version\": \"1.0.0\", \"runtime\": \"c\","
    " \"interfaces\": {\"required\": [\"perdure.calls/1\", \"perdure.invoke/1\"]},"
    " \"dynamic\": {\"tools\": \"extra_*\"},"
    " \"tools\": [{\"name\": \"grow\", \"description\": \"g\", \"parameters\": {\"type\": \"object\"}},"
    " {\"name\": \"fail\", \"description\": \"f\", \"parameters\": {\"type\": \"object\"}}]}");

static const pdr_calls_1 *calls;
static const pdr_invoke_1 *invoke;

static int32_t answer(pdr_id id, const char *text) {
  pdr_blob blob = {sizeof blob, 0, (const uint8_t *)text, strlen(text), pdr_easy_str(PDR_MEDIA_TEXT), NULL, NULL};
  return calls->complete(calls->ctx, id, PDR_OK, &blob, NULL);
}

static void grown(void *argument, pdr_id request, int32_t status, const pdr_blob *value, const pdr_err *err) {
  (void)request, (void)value, (void)err;
  answer((pdr_id)(uintptr_t)argument, status == PDR_OK ? "grown" : "refused");
}

static int32_t grow(pdr_id id) {
  static const char input[] =
      "{\"tools\":[{\"name\":\"extra_tool\",\"description\":\"e\",\"parameters\":{\"type\":\"object\"}}]}";
  pdr_blob blob = {sizeof blob, 0, (const uint8_t *)input, sizeof input - 1, {NULL, 0}, NULL, NULL};
  pdr_id request;
  return invoke->start(invoke->ctx, 0, pdr_easy_str("register"), &blob, grown, (void *)(uintptr_t)id, &request);
}

static int32_t start(void *state, const pdr_call *call) {
  pdr_err err = {sizeof err, PDR_E_INTERNAL, 0, 0, pdr_easy_str("the disk is full"), {NULL, 0}};
  size_t length = call->target.len;
  (void)state;
  if (length == 9 && !memcmp(call->target.ptr, "tool:grow", 9)) return grow(call->id);
  if (length == 9 && !memcmp(call->target.ptr, "tool:fail", 9))
    return calls->complete(calls->ctx, call->id, PDR_E_INTERNAL, NULL, &err);
  if (length == 15 && !memcmp(call->target.ptr, "tool:extra_tool", 15)) return answer(call->id, "extra");
  return PDR_E_UNSUPPORTED;
}

PDR_EXPORT int32_t perdure_plugin_1(const pdr_host *host, pdr_plugin *out, pdr_errbuf *err) {
  (void)err;
  calls = host->query(host->ctx, pdr_easy_str(PDR_CALLS_1), sizeof *calls);
  invoke = host->query(host->ctx, pdr_easy_str(PDR_INVOKE_1), sizeof *invoke);
  out->start = start;
  return calls && invoke ? PDR_OK : PDR_E_UNSUPPORTED;
}
