/* Has no function for its second tool. */
#include "perdure_easy.h"

PDR_PLUGIN_NOTE("c");
PDR_MANIFEST("{\"manifest\":1,\"id\":\"test.broken\",\"version\":\"1.0.0\",\"runtime\":\"c\","
             "\"tools\":[{\"name\":\"count\",\"description\":\"Counts.\","
             "\"parameters\":{\"type\":\"object\"}}"
             ",{\"name\":\"tally\",\"description\":\"Tallies.\","
             "\"parameters\":{\"type\":\"object\"}}]}");

static int32_t count(pdr_easy_call *call) { return pdr_easy_answer(call, "1"); }

PDR_EASY_PLUGIN({"tally", count})
