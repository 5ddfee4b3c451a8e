/* A plugin with one tool, wordcount: how many words and lines a text has. */
#include "perdure_easy.h"

PDR_PLUGIN_NOTE("c");
PDR_MANIFEST(
    "{\"manifest\": 1, \"id\": \"example.wordcount\", \"version\": \"1.0.0\", \"runtime\": \"c\","
    " \"tools\": [{\"name\": \"wordcount\", \"description\": \"Counts the words and lines of a text.\","
    " \"replay\": \"safe\", \"parameters\": {\"type\": \"object\", \"required\": [\"text\"],"
    " \"properties\": {\"text\": {\"type\": \"string\"}}}}]}");

static int32_t wordcount(pdr_easy_call *call) {
  pdr_easy_reader text;
  int byte, last = '\n';
  long words = 0, lines = 0;
  if (!pdr_easy_open(call, "text", &text)) return pdr_easy_fail(call, "text is missing");
  for (; (byte = pdr_easy_next(&text)) >= 0; last = byte) {
    if (last == '\n') lines++;
    if (byte > ' ' && last <= ' ') words++;
  }
  return pdr_easy_answerf(call, "%ld words, %ld lines", words, lines);
}

PDR_EASY_PLUGIN({"wordcount", wordcount})
