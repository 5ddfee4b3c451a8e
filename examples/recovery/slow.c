/* A plugin with one slow tool, to see what happens when the host dies in the middle of a call.
 *
 * brew writes a line to a file, takes its time and answers. It is marked "replay": "safe": after a
 * crash it runs again. With "unsafe" it would not, and the model would be told "interrupted". */
#include <time.h>

#include "perdure_easy.h"

PDR_PLUGIN_NOTE("c");
PDR_MANIFEST(
    "{\"manifest\": 1, \"id\": \"example.slow\", \"version\": \"1.0.0\", \"runtime\": \"c\","
    " \"execution\": {\"blocking\": true},"
    " \"tools\": [{\"name\": \"brew\", \"description\": \"Brews tea and notes it in a file.\","
    " \"replay\": \"safe\", \"parameters\": {\"type\": \"object\", \"required\": [\"journal\", \"seconds\"],"
    " \"properties\": {\"journal\": {\"type\": \"string\"}, \"seconds\": {\"type\": \"integer\"}}}}]}");

static int32_t brew(pdr_easy_call *call) {
  char path[512];
  int64_t seconds, ticks;
  struct timespec tick = {0, 20000000};
  FILE *journal;
  if (!pdr_easy_string(call, "journal", path, sizeof path)) return pdr_easy_fail(call, "journal is missing");
  if (!pdr_easy_integer(call, "seconds", &seconds)) return pdr_easy_fail(call, "seconds is missing");
  journal = fopen(path, "a");
  if (!journal) return pdr_easy_fail(call, "the journal cannot be opened");
  fputs("water is on\n", journal);
  fclose(journal);
  for (ticks = seconds * 50; ticks > 0; ticks--) {
    if (pdr_easy_cancelled(call)) return pdr_easy_fail(call, "stopped before the tea was ready");
    nanosleep(&tick, NULL);
  }
  return pdr_easy_answer(call, "the tea is ready");
}

PDR_EASY_PLUGIN({"brew", brew})
