// Names its tool otherwise than its manifest does.
#include "perdure.hpp"

static void setup(perdure::Plugin &plugin) {
  plugin.tool("cuont", [](perdure::Call &) -> perdure::Reply { return "1"; });
}

PERDURE_PLUGIN(R"(
{"manifest": 1, "id": "test.broken", "version": "1.0.0", "runtime": "c++",
 "tools": [{"name": "count", "description": "Counts.", "parameters": {"type": "object"}}]}
)", setup);
