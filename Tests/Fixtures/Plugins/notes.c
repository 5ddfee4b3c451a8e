/* Two tools that append a line to a file and then take a while, to be killed meanwhile: one may be
 * run again after a crash, the other may not. */
#include <time.h>

#include "perdure_easy.h"

#define NOTE(name, replay)                                                                         \
  "{\"name\": \"" name "\", \"description\": \"Appends a line to a file.\","                       \
  " \"replay\": \"" replay "\", \"parameters\": {\"type\": \"object\","                            \
  " \"required\": [\"path\", \"ms\"], \"properties\": {\"path\": {\"type\": \"string\"},"          \
  " \"ms\": {\"type\": \"integer\"}}}}"

PDR_PLUGIN_NOTE("c");
PDR_MANIFEST(
    "{\"manifest\": 1, \"id\": \"test.notes\", \"version\": \"1.0.0\", \"runtime\": \"c\","
    " \"execution\": {\"blocking\": true},"
    " \"tools\": [" NOTE("note_safe", "safe") ", " NOTE("note_unsafe", "unsafe") "]}");

static int32_t note(pdr_easy_call *call) {
  char path[1024];
  int64_t ms;
  struct timespec pause;
  FILE *file;
  if (!pdr_easy_string(call, "path", path, sizeof path)) return pdr_easy_fail(call, "no path");
  if (!pdr_easy_integer(call, "ms", &ms)) return pdr_easy_fail(call, "no ms");
  file = fopen(path, "a");
  if (!file) return pdr_easy_fail(call, "the file cannot be opened");
  fputs("noted\n", file);
  fclose(file);
  pause.tv_sec = ms / 1000;
  pause.tv_nsec = (ms % 1000) * 1000000;
  nanosleep(&pause, NULL);
  return pdr_easy_answer(call, "noted");
}

PDR_EASY_PLUGIN({"note_safe", note}, {"note_unsafe", note})
