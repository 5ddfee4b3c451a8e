/* A plugin of which there are many versions. VERSION names one; WRONG says what is wrong with it.
 *
 *   version        answers VERSION, and how often this copy was asked
 *   hold {"fd", "ready"}  writes a byte to ready, and answers with VERSION once fd gives one
 *   remember {"n"} keeps a number, which snapshot hands to the next version
 */
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#include "perdure_easy.h"

#define SELFTEST_FAILS 1
#define RESTORE_FAILS 2
#define ACTIVATE_FAILS 3
#define SNAPSHOT_FAILS 4

#ifndef VERSION
#define VERSION "1.0.0"
#endif
#ifndef ID
#define ID "test.versions"
#endif
#ifndef WRONG
#define WRONG 0
#endif
#ifndef STATE
#define STATE 1
#endif
#ifndef RESTORES
#define RESTORES "[1]"
#endif
#ifndef PREFIX
#define PREFIX ""
#endif
#ifndef MODE
#define MODE "any"
#endif
#ifndef OVERRIDES
#define OVERRIDES "false"
#endif

#define TEXT_(text) #text
#define TEXT(text) TEXT_(text)
#define TOOL(name, members)                                                                        \
  "{\"name\": \"" PREFIX name "\", \"description\": \"\", \"replay\": \"safe\", \"overrides\": "   \
  OVERRIDES ", \"parameters\": {\"type\": \"object\", \"properties\": {" members "}}}"

PDR_PLUGIN_NOTE("c");
PDR_MANIFEST("{\"manifest\": 1, \"id\": \"" ID "\", \"version\": \"" VERSION
             "\", \"runtime\": \"c\", \"state\": {\"version\": " TEXT(STATE)
             ", \"restores\": " RESTORES "}, \"execution\": {\"maxConcurrency\": 64, \"mode\": \"" MODE "\"}, \"tools\": ["
             TOOL("version", "") ", " TOOL("hold", "\"fd\": {\"type\": \"integer\"}, \"ready\": {\"type\": \"integer\"}") ", "
             TOOL("remember", "\"n\": {\"type\": \"integer\"}") "]}");

static const pdr_calls_1 *calls;
static _Atomic long asked, remembered;

typedef struct held {
  pdr_id call;
  int fd;
} held;

static int32_t answer(pdr_id call, const char *type, const char *text) {
  pdr_blob blob;
  memset(&blob, 0, sizeof blob);
  blob.size = (uint32_t)sizeof blob;
  blob.ptr = (const uint8_t *)text;
  blob.len = strlen(text);
  blob.media_type = pdr_easy_str(type);
  return calls->complete(calls->ctx, call, PDR_OK, &blob, NULL);
}

static int32_t fail(pdr_id call, const char *sentence) {
  pdr_err err;
  memset(&err, 0, sizeof err);
  err.size = (uint32_t)sizeof err;
  err.code = PDR_E_INTERNAL;
  err.flags = PDR_ERR_USER_VISIBLE;
  err.message = pdr_easy_str(sentence);
  return calls->complete(calls->ctx, call, PDR_E_INTERNAL, NULL, &err);
}

static void *wait_for_byte(void *argument) {
  held *self = argument;
  char byte;
  while (read(self->fd, &byte, 1) < 0) continue;
  answer(self->call, PDR_MEDIA_TEXT, "held by " VERSION);
  free(self);
  return NULL;
}

static int32_t hold(pdr_easy_call *call) {
  pthread_t thread;
  int64_t fd, ready;
  held *self = malloc(sizeof *self);
  if (!self || !pdr_easy_integer(call, "fd", &fd) ||
      !pdr_easy_integer(call, "ready", &ready)) {
    free(self);
    return pdr_easy_fail(call, "no fd");
  }
  self->call = call->call->id;
  self->fd = (int)fd;
  call->answered = 1;
  while (write((int)ready, "r", 1) < 0) continue;
  if (pthread_create(&thread, NULL, wait_for_byte, self)) return fail(self->call, "no thread");
  pthread_detach(thread);
  return PDR_OK;
}

static int32_t version(pdr_easy_call *call) {
  return pdr_easy_answerf(call, "%s %ld %ld", VERSION, ++asked, (long)remembered);
}

static int32_t keep(pdr_easy_call *call) {
  int64_t number;
  if (!pdr_easy_integer(call, "n", &number)) return pdr_easy_fail(call, "no n");
  remembered = (long)number;
  return pdr_easy_answer(call, "kept");
}

static const pdr_easy_tool tools[] = {
    {PREFIX "version", version}, {PREFIX "hold", hold}, {PREFIX "remember", keep}};

static int is(const pdr_call *call, const char *target) {
  return call->target.len == strlen(target) && !memcmp(call->target.ptr, target, call->target.len);
}

static int32_t start(void *state, const pdr_call *call) {
  pdr_str input = {call->input->ptr, call->input->len}, value;
  (void)state;
  if (is(call, "selftest"))
    return answer(call->id, PDR_MEDIA_JSON,
                  WRONG == SELFTEST_FAILS
                      ? "{\"checks\": [{\"name\": \"lamp\", \"ok\": false, \"message\": \"it is dark\"}]}"
                      : "{\"checks\": [{\"name\": \"lamp\", \"ok\": true}]}");
  if (is(call, "snapshot")) {
    char text[128];
    if (WRONG == SNAPSHOT_FAILS) return fail(call->id, "the drawer is stuck");
    snprintf(text, sizeof text, "{\"version\": %d, \"state\": {\"n\": %ld}}", STATE, (long)remembered);
    return answer(call->id, PDR_MEDIA_JSON, text);
  }
  if (is(call, "restore")) {
    if (WRONG == RESTORE_FAILS) return fail(call->id, "the drawer is full");
    if (pdr_easy_member(input, "state", &value) && pdr_easy_member(value, "n", &value))
      remembered = strtol((const char *)value.ptr, NULL, 10);
    return answer(call->id, PDR_MEDIA_JSON, "{}");
  }
  return pdr_easy_start_(calls, call, tools, sizeof tools / sizeof *tools);
}

static int32_t activate(void *state, pdr_errbuf *err) {
  (void)state;
  if (WRONG == ACTIVATE_FAILS) return pdr_easy_refuse_(err, PDR_E_INTERNAL, "the licence has expired");
  return PDR_OK;
}

PDR_EXPORT int32_t perdure_plugin_1(const pdr_host *host, pdr_plugin *out, pdr_errbuf *err) {
  int32_t code = pdr_easy_enter_(host, &calls, out, err, start);
  out->activate = activate;
  return code;
}
