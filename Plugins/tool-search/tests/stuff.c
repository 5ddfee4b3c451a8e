/* A plugin whose tools are not offered until somebody finds them. */
#include "perdure_easy.h"

#define TOOL(name, description, parameters)                                              \
  "{\"name\": \"" name "\", \"description\": \"" description "\", \"replay\": \"safe\"," \
  " \"deferred\": true, \"parameters\": " parameters "}"

PDR_PLUGIN_NOTE("c");
PDR_MANIFEST(
    "{\"manifest\": 1, \"id\": \"test.stuff\", \"version\": \"1.0.0\", \"runtime\": \"c\", \"tools\": ["
    TOOL("send_mail", "Sends a letter to somebody.", "{\"type\": \"object\"}") ", "
    TOOL("listIssues", "Shows what is open in a repository.", "{\"type\": \"object\"}") ", "
    TOOL("weather", "Tells how it is outside.",
         "{\"type\": \"object\", \"properties\": {\"city\": {\"type\": \"string\","
         " \"description\": \"Where, for instance Oslo.\"}}}") ", "
    TOOL("send_fax", "Sends a letter to somebody.", "{\"type\": \"object\"}")
    "]}");

static int32_t say(pdr_easy_call *call) { return pdr_easy_answer(call, "done"); }

PDR_EASY_PLUGIN({"send_mail", say}, {"listIssues", say}, {"weather", say}, {"send_fax", say})
