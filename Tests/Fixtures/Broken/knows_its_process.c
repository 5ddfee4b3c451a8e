/* Answers with the program that it runs in. */
#include "broken.h"

static int32_t start_call(void *state, const pdr_call *call) {
  char program[512];
  ssize_t length = readlink("/proc/self/exe", program, sizeof program - 1);
  (void)state;
  if (!is_for(call, "tool:echo")) return PDR_E_UNSUPPORTED;
  program[length > 0 ? length : 0] = 0;
  answer(call->id, program);
  return PDR_OK;
}

PDR_EXPORT int32_t perdure_plugin_1(const pdr_host *host, pdr_plugin *out, pdr_errbuf *err) {
  return fill(host, out, err);
}
