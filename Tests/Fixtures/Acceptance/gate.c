/* One blocking tool, wait: it puts out "mib" MiB of lines, writes a line to the file "journal" (a FIFO
 * tells the test at once), puts out what "says" holds, and answers when the file "gate" exists. REPLAY is
 * "safe" or "unsafe". */
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "perdure_easy.h"

#ifndef REPLAY
#define REPLAY "safe"
#endif

PDR_PLUGIN_NOTE("c");
PDR_MANIFEST(
    "{\"manifest\": 1, \"id\": \"test.gate\", \"version\": \"1.0.0\", \"runtime\": \"c\","
    " \"execution\": {\"blocking\": true},"
    " \"tools\": [{\"name\": \"wait\", \"description\": \"Waits for a gate.\", \"replay\": \"" REPLAY
    "\", \"parameters\": {\"type\": \"object\", \"properties\":"
    " {\"journal\": {\"type\": \"string\"}, \"gate\": {\"type\": \"string\"},"
    " \"says\": {\"type\": \"string\"}, \"mib\": {\"type\": \"integer\"}}}}]}");

static void flood(pdr_easy_call *call, int64_t mib) {
  static char chunk[65537];
  struct timespec tick = {0, 100000};
  int64_t left = mib * 16;
  memset(chunk, 'x', sizeof chunk - 2);
  chunk[sizeof chunk - 2] = '\n';
  while (left > 0 && !pdr_easy_cancelled(call)) {
    if (pdr_easy_emit(call, chunk) == PDR_OK)
      left--;
    else
      nanosleep(&tick, NULL);
  }
}

static int32_t wait_for_gate(pdr_easy_call *call) {
  char path[1024], gate[1024], says[8192];
  struct timespec tick = {0, 5000000};
  int64_t mib;
  FILE *journal;
  if (!pdr_easy_string(call, "journal", path, sizeof path)) return pdr_easy_fail(call, "no journal");
  if (!pdr_easy_string(call, "gate", gate, sizeof gate)) return pdr_easy_fail(call, "no gate");
  if (pdr_easy_integer(call, "mib", &mib)) flood(call, mib);
  journal = fopen(path, "a");
  if (!journal) return pdr_easy_fail(call, "the journal cannot be opened");
  fputs("started\n", journal);
  fclose(journal);
  if (pdr_easy_string(call, "says", says, sizeof says)) pdr_easy_emit(call, says);
  while (access(gate, F_OK) != 0) {
    if (pdr_easy_cancelled(call)) return pdr_easy_fail(call, "stopped at the gate");
    nanosleep(&tick, NULL);
  }
  return pdr_easy_answer(call, "the gate is open");
}

PDR_EASY_PLUGIN({"wait", wait_for_gate})
