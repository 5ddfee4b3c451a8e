/* What the broken plugins have in common: a tool "echo" that answers with a text, written without
 * perdure_easy.h so that each file can break one promise. A file defines hooks before it includes
 * this:
 *
 *   EXTRA      members of the manifest, each with a comma before it
 *   TOOL       members of the tool, each with a comma before it
 *   START      what a call does instead of answering, a function like pdr_plugin.start
 *   ACTIVATE   pdr_plugin.activate, DEACTIVATE  pdr_plugin.deactivate, DESTROY  pdr_plugin.destroy
 *   ENTRY      what the entry function does first, with host, out and err; not 0 = refuse
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "perdure.h"

#ifndef EXTRA
#define EXTRA ""
#endif
#ifndef TOOL
#define TOOL ""
#endif
#ifndef DESCRIPTION
#define DESCRIPTION "Answers with a text."
#endif
#ifndef SCHEMA
#define SCHEMA ""
#endif
#ifndef RUNTIME
#define RUNTIME "c"
#endif
#ifndef NO_NOTE
PDR_PLUGIN_NOTE("c");
#endif
#ifndef NO_MANIFEST
PDR_MANIFEST("{\"manifest\":1,\"id\":\"test.broken\",\"version\":\"1.0.0\",\"runtime\":\"" RUNTIME "\","
             "\"description\":\"Breaks a promise.\",\"execution\":{\"graceMs\":300}" EXTRA ","
             "\"tools\":[{\"name\":\"echo\",\"description\":\"" DESCRIPTION "\"" TOOL ","
             "\"parameters\":{\"type\":\"object\",\"required\":[\"text\"],\"properties\":"
             "{\"text\":{\"type\":\"string\",\"minLength\":1}}" SCHEMA "}}]}");
#endif

static const pdr_calls_1 *calls;
static const pdr_invoke_1 *invoke;

static inline pdr_str str(const char *text) {
  pdr_str made = {(const uint8_t *)text, strlen(text)};
  return made;
}

static inline pdr_blob blob(const char *text, const char *media_type) {
  pdr_blob made;
  memset(&made, 0, sizeof made);
  made.size = sizeof made;
  made.ptr = (const uint8_t *)text;
  made.len = strlen(text);
  made.media_type = str(media_type);
  return made;
}

/* Completes a call with a text. */
static inline int32_t answer(pdr_id id, const char *text) {
  pdr_blob value = blob(text, PDR_MEDIA_TEXT);
  return calls->complete(calls->ctx, id, PDR_OK, &value, NULL);
}

/* Completes a call with an error. */
static inline int32_t fail(pdr_id id, int32_t code, const char *message) {
  pdr_err err;
  memset(&err, 0, sizeof err);
  err.size = sizeof err;
  err.code = code;
  err.message = str(message);
  return calls->complete(calls->ctx, id, code, NULL, &err);
}

static inline int is_for(const pdr_call *call, const char *target) {
  return call->target.len == strlen(target) && !memcmp(call->target.ptr, target, call->target.len);
}

static inline int holds(const pdr_call *call, const char *word) {
  return memmem(call->input->ptr, call->input->len, word, strlen(word)) != NULL;
}

/* Runs body on a thread that nobody joins. */
static inline void on_thread(void *(*body)(void *), void *argument) {
  pthread_t thread;
  if (!pthread_create(&thread, NULL, body, argument)) pthread_detach(thread);
}

static inline void nap(int ms) {
  struct timespec pause = {ms / 1000, ms % 1000 * 1000000L};
  while (nanosleep(&pause, &pause) && errno == EINTR) {
  }
}

/* Tells the host that all is stopped. */
static inline void say_stopped(pdr_id ticket) {
  char text[64], digits[24];
  int at = 0, to = 0;
  pdr_blob input;
  do digits[at++] = (char)('0' + ticket % 10);
  while (ticket /= 10);
  memcpy(text, "{\"ticket\":\"", 11), to = 11;
  while (at > 0) text[to++] = digits[--at];
  memcpy(text + to, "\"}", 3);
  input = blob(text, PDR_MEDIA_JSON);
  invoke->start(invoke->ctx, 0, str("lifecycle.stopped"), &input, NULL, NULL, NULL);
}

static int32_t start_call(void *state, const pdr_call *call);

/* What a call does where nothing is broken. */
static inline int32_t ordinary(const pdr_call *call) {
  if (!is_for(call, "tool:echo")) return PDR_E_UNSUPPORTED;
  answer(call->id, "echo");
  return PDR_OK;
}

static inline int32_t fill(const pdr_host *host, pdr_plugin *out, pdr_errbuf *err) {
  static const char sentence[] = "this host is too small";
  if (out->size < sizeof *out || host->size < sizeof *host) goto refused;
  calls = (const pdr_calls_1 *)host->query(host->ctx, str(PDR_CALLS_1), sizeof *calls);
  invoke = (const pdr_invoke_1 *)host->query(host->ctx, str(PDR_INVOKE_1), sizeof *invoke);
  if (!calls || !invoke) goto refused;
  out->start = start_call;
  return PDR_OK;
refused:
  if (err && err->cap >= sizeof sentence)
    memcpy(err->buf, sentence, sizeof sentence), err->len = sizeof sentence - 1;
  return PDR_E_UNSUPPORTED;
}
