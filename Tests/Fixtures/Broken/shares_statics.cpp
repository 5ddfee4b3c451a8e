/* Counts in a static of a template, which the loader makes one for all copies. */
#define RUNTIME "c++"
#define NO_NOTE
#include "broken.h"

PDR_PLUGIN_NOTE("c++");

template <typename Value> struct Counter {
  static Value &count() {
    static Value value = 0;
    return value;
  }
};
template struct __attribute__((visibility("default"))) Counter<int>;

static int32_t start_call(void *, const pdr_call *call) {
  Counter<int>::count()++;
  return ordinary(call);
}

PDR_EXPORT int32_t perdure_plugin_1(const pdr_host *host, pdr_plugin *out, pdr_errbuf *err) {
  int32_t code = fill(host, out, err);
  if (code) return code;
  return PDR_OK;
}
