/* The plugin of the benchmark of the border: it answers inside start, with 1 KiB for 1 KiB.
 *
 * cc -shared -fPIC -O2 -fvisibility=hidden -I Sources/CPerdureABI/include -o border.so \
 *   Tests/Fixtures/Plugins/border.c
 */
#include "perdure_easy.h"

#include <string.h>

#define TOOL(name)                                                                             \
  "{\"name\": \"" name "\", \"description\": \"Answers.\", \"replay\": \"safe\","              \
  " \"parameters\": {\"type\": \"object\", \"required\": [\"i\", \"pad\"], \"properties\":"    \
  " {\"i\": {\"type\": \"integer\"}, \"pad\": {\"type\": \"string\"}}}}"

PDR_PLUGIN_NOTE("c");
PDR_MANIFEST("{\"manifest\": 1, \"id\": \"bench.border\", \"version\": \"1.0.0\", \"runtime\": \"c\","
             " \"tools\": [" TOOL("raw") "," TOOL("text") "," TOOL("json") "],"
             " \"hooks\": [{\"point\": \"beforeTool\", \"role\": \"guard\", \"inline\": true}],"
             " \"wraps\": [{\"tool\": \"raw\", \"role\": \"observer\", \"inline\": true}]}");

static const pdr_calls_1 *calls;
static char text[1024];
static char json[1024];

static int32_t answer(pdr_id id, const char *media_type, const void *bytes, size_t length) {
  pdr_blob value;
  memset(&value, 0, sizeof value);
  value.size = sizeof value;
  value.ptr = (const uint8_t *)bytes;
  value.len = length;
  value.media_type = pdr_easy_str(media_type);
  calls->complete(calls->ctx, id, PDR_OK, &value, NULL);
  return PDR_OK;
}

static int32_t start(void *state, const pdr_call *call) {
  (void)state;
  if (call->target.ptr[0] != 't')
    return calls->complete(calls->ctx, call->id, PDR_OK, NULL, NULL);
  switch (call->target.len > 5 ? call->target.ptr[5] : 0) {
  case 'r': return answer(call->id, PDR_MEDIA_BYTES, call->input->ptr, call->input->len);
  case 't': return answer(call->id, PDR_MEDIA_TEXT, text, sizeof text);
  case 'j': return answer(call->id, PDR_MEDIA_JSON, json, sizeof json);
  default: return PDR_E_UNSUPPORTED;
  }
}

PDR_EXPORT int32_t perdure_plugin_1(const pdr_host *host, pdr_plugin *out, pdr_errbuf *err) {
  static const char head[] = "{\"output\": [{\"type\": \"text\", \"text\": \"";
  static const char tail[] = "\"}]}";
  (void)err;
  calls = (const pdr_calls_1 *)host->query(host->ctx, pdr_easy_str(PDR_CALLS_1), sizeof *calls);
  if (!calls) return PDR_E_UNSUPPORTED;
  memset(text, 'x', sizeof text);
  memset(json, 'x', sizeof json);
  memcpy(json, head, sizeof head - 1);
  memcpy(json + sizeof json - (sizeof tail - 1), tail, sizeof tail - 1);
  out->start = start;
  return PDR_OK;
}
