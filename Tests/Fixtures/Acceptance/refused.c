/* A plugin that must be refused, in the way that CASE says. */
#include "perdure_easy.h"

#define TOOL(name) "{\"name\": \"" name "\", \"description\": \"\", \"parameters\": {\"type\": \"object\"}}"
#define START "{\"manifest\": 1, \"id\": \"test.refused\", \"version\": \"1.0.0\", \"runtime\": \"c\", "

#define CASE_NO_ENTRY 1
#define CASE_NO_NOTE 2
#define CASE_NO_MANIFEST 3
#define CASE_NOT_JSON 4
#define CASE_SCHEMA 5
#define CASE_MAJOR 6
#define CASE_INTERFACE 7
#define CASE_TWO_TOOLS 8
#define CASE_RUNNER 9
#define CASE_KEYWORD 10
#define CASE_TYPE 11

#if CASE == CASE_MAJOR
#undef PDR_ABI_MAJOR
#define PDR_ABI_MAJOR 2
#endif

#if CASE != CASE_NO_NOTE
PDR_PLUGIN_NOTE("c");
#endif

#if CASE == CASE_NOT_JSON
PDR_MANIFEST("{\"manifest\": 1,,}");
#elif CASE == CASE_SCHEMA
PDR_MANIFEST("{\"manifest\": 1, \"id\": 7, \"version\": \"1.0.0\", \"runtime\": \"c\"}");
#elif CASE == CASE_INTERFACE
PDR_MANIFEST(START "\"interfaces\": {\"required\": [\"perdure.magic/1\"]}, \"tools\": [" TOOL("a") "]}");
#elif CASE == CASE_TWO_TOOLS
PDR_MANIFEST(START "\"tools\": [" TOOL("a") ", " TOOL("a") "]}");
#elif CASE == CASE_RUNNER
PDR_MANIFEST(START "\"execution\": {\"mode\": \"runner\"}, \"tools\": [" TOOL("a") "]}");
#elif CASE == CASE_KEYWORD
PDR_MANIFEST(START "\"tools\": [{\"name\": \"a\", \"description\": \"\", \"parameters\":"
                   " {\"type\": \"object\", \"nullable\": true}}]}");
#elif CASE == CASE_TYPE
PDR_MANIFEST(START "\"tools\": [{\"name\": \"a\", \"description\": \"\", \"parameters\":"
                   " {\"type\": \"object\", \"properties\": {\"n\": {\"type\": \"int\"}}}}]}");
#elif CASE != CASE_NO_MANIFEST
PDR_MANIFEST(START "\"tools\": [" TOOL("a") "]}");
#endif

static int32_t run(pdr_easy_call *call) { return pdr_easy_answer(call, ""); }

#if CASE == CASE_NO_ENTRY
int32_t unused(pdr_easy_call *call) { return run(call); }
#else
PDR_EASY_PLUGIN({"a", run})
#endif
