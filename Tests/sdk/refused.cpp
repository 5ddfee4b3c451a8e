// A plugin whose manifest and handlers do not fit each other, in a way that WRONG chooses.
#include "perdure.hpp"

static void setup(perdure::Plugin &plugin) {
  plugin.tool("one", [](perdure::Call &) { return "1"; });
#if WRONG == 1
  plugin.hook("beforeTool", [](perdure::Call &) { return perdure::pass(); });
#endif
}

#if WRONG == 0
PERDURE_PLUGIN(R"({"tools": [{"name": "one"}, {"name": "two"}]})", setup);
#elif WRONG == 1
PERDURE_PLUGIN(R"({"tools": [{"name": "one"}]})", setup);
#else
PERDURE_PLUGIN(R"({"tools": [{"name": "one"},]})", setup);
#endif
