/* Reads its input on a thread, when start has returned. */
#include "broken.h"

struct job {
  pdr_id id;
  const volatile uint8_t *input;
};

static void *work(void *argument) {
  struct job job = *(struct job *)argument;
  free(argument);
  nap(100);
  answer(job.id, job.input[0] == '{' ? "object" : "other");
  return NULL;
}

static int32_t start_call(void *state, const pdr_call *call) {
  struct job *job = malloc(sizeof *job);
  (void)state;
  if (!job) return PDR_E_INTERNAL;
  if (!is_for(call, "tool:echo")) return free(job), PDR_E_UNSUPPORTED;
  job->id = call->id;
  job->input = call->input->ptr;
  on_thread(work, job);
  return PDR_OK;
}

PDR_EXPORT int32_t perdure_plugin_1(const pdr_host *host, pdr_plugin *out, pdr_errbuf *err) {
  int32_t code = fill(host, out, err);
  if (code) return code;
  return PDR_OK;
}
