// A plugin in C++ whose tool lets an exception out, which no plugin may.
#include <stdexcept>

#include "perdure_easy.h"

PDR_PLUGIN_NOTE("c++");
PDR_MANIFEST(
    "{\"manifest\":1,\"id\":\"test.thrower\",\"version\":\"1.0.0\",\"runtime\":\"c++\",\"tools\":["
    "{\"name\":\"raise\",\"description\":\"r\",\"parameters\":{\"type\":\"object\"}},"
    "{\"name\":\"catch\",\"description\":\"c\",\"parameters\":{\"type\":\"object\"}}]}");

static int32_t raise_it(pdr_easy_call *) { throw std::runtime_error("no luck"); }

static int32_t catch_it(pdr_easy_call *call) {
  try {
    return raise_it(call);
  } catch (const std::exception &error) {
    return pdr_easy_fail(call, error.what());
  }
}

PDR_EASY_PLUGIN({"raise", raise_it}, {"catch", catch_it})
