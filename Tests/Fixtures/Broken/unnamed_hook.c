/* Has a function for a hook that its manifest does not name, so that nobody ever calls it. */
#include "perdure_easy.h"

PDR_PLUGIN_NOTE("c");
PDR_MANIFEST("{\"manifest\":1,\"id\":\"test.broken\",\"version\":\"1.0.0\",\"runtime\":\"c\","
             "\"tools\":[{\"name\":\"count\",\"description\":\"Counts.\","
             "\"parameters\":{\"type\":\"object\"}}]}");

static int32_t count(pdr_easy_call *call) { return pdr_easy_answer(call, "1"); }

static int32_t look(pdr_easy_call *call) { return pdr_easy_nothing(call); }

PDR_EASY_PLUGIN({"count", count}, {"hook:afterTool", look})
