/* A plugin that is rude to its host's process in the way that RUDE says, when its tool is called. */
#include <pthread.h>
#include <stdlib.h>

#include "perdure_easy.h"

#ifndef ID
#define ID "test.rude"
#endif
#ifndef MORE
#define MORE ""
#endif
#ifndef RUDE
#define RUDE
#endif
#ifndef EARLY
#define EARLY
#endif

PDR_PLUGIN_NOTE("c");
PDR_MANIFEST(
    "{\"manifest\": 1, \"id\": \"" ID "\", \"version\": \"1.0.0\", \"runtime\": \"c\","
    " \"execution\": {\"blocking\": true, \"deadlineMs\": 200, \"graceMs\": 100},"
    " \"tools\": [{\"name\": \"act\", \"description\": \"Acts.\"," MORE
    " \"parameters\": {\"type\": \"object\"}}]}");

__attribute__((constructor)) static void early(void) { EARLY; }

/* Ends the process on a thread that the host knows nothing of. */
static void *leave(void *unused) {
  exit(0);
  return unused;
}

__attribute__((unused)) static void leave_elsewhere(void) {
  pthread_t thread;
  pthread_create(&thread, NULL, leave, NULL);
  pthread_join(thread, NULL);
}

static int32_t act(pdr_easy_call *call) {
  RUDE;
  return pdr_easy_answer(call, "done");
}

PDR_EASY_PLUGIN({"act", act})
