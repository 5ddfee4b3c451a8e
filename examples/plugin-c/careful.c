/* A plugin that guards the tool wordcount, wraps it, and tells the model about itself. */
#include "perdure_easy.h"

PDR_PLUGIN_NOTE("c");
PDR_MANIFEST(
    "{\"manifest\": 1, \"id\": \"example.careful\", \"version\": \"1.0.0\", \"runtime\": \"c\","
    " \"interfaces\": {\"required\": [\"perdure.invoke/1\"]},"
    " \"sections\": [{\"key\": \"careful\", \"text\": \"Secrets are not counted here.\"}],"
    " \"hooks\": [{\"point\": \"beforeTool\", \"role\": \"guard\", \"tools\": [\"wordcount\"]}],"
    " \"wraps\": [{\"tool\": \"wordcount\", \"role\": \"observer\"}]}");

/* Whether the JSON holds the word. */
static int holds(pdr_str json, const char *word) {
  size_t length = strlen(word), i;
  for (i = 0; i + length <= json.len; i++)
    if (!memcmp(json.ptr + i, word, length)) return 1;
  return 0;
}

static int32_t check(pdr_easy_call *call) {
  pdr_str tool;
  if (pdr_easy_member(pdr_easy_input(call), "call", &tool) && holds(tool, "secret"))
    return pdr_easy_deny(call, "the text is secret; count another one");
  return pdr_easy_nothing(call);
}

PDR_EASY_PLUGIN({"hook:beforeTool", check}, {"wrap:tool:wordcount", pdr_easy_pass})
