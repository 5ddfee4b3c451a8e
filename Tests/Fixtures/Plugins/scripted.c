/* A plugin whose answers are written in its settings, one step for each target:
 *
 *   {"hook:beforeTool": {"answer": {...}}}      completes with this JSON
 *   {"hook:beforeTool": {"text": "..."}}        completes with this text
 *   {"hook:beforeTool": {"fail": "..."}}        completes with this error
 *   {"hook:beforeTool": {"refuse": -10}}        start refuses
 *   {"hook:beforeTool": {"hang": true}}         never completes
 *   {"hook:beforeTool": {"crash": true}}        ends the process
 *   "ops": [{"op": "next", "input": {...}}]     asks for these before, one after another
 *   "parallel": true                            asks for them at the same time
 *   "last": true                                completes with the result of the last one
 *   "leave": true                               completes while the operations are under way
 *   "after": true                               asks for the first one again after the completion
 *
 * Each call is logged with its input, each result of an operation with its status. A manifest stands
 * beside the file; a target without a step is completed with {}.
 */
#include <stdatomic.h>
#include <stdlib.h>

#include "perdure_easy.h"

PDR_PLUGIN_NOTE("c");

static const pdr_calls_1 *calls;
static const pdr_invoke_1 *invoke;
static char script[1 << 16];
static size_t script_length;

struct run {
  pdr_id id;
  pdr_str step;     /* its JSON, in script */
  const uint8_t *at; /* the place in the list of operations */
  const uint8_t *end;
  atomic_int open;
  atomic_int left; /* completed while operations are under way */
  char last[65536];
  size_t last_length;
  int32_t last_status;
};

static void next_step(struct run *run);

static int find(pdr_str object, const char *key, pdr_str *value) {
  return pdr_easy_member(object, key, value);
}

static int flag(pdr_str object, const char *key) {
  pdr_str value;
  return find(object, key, &value) && value.len == 4 && !memcmp(value.ptr, "true", 4);
}

static pdr_blob json(const void *bytes, size_t length) {
  pdr_blob blob;
  memset(&blob, 0, sizeof blob);
  blob.size = sizeof blob;
  blob.ptr = (const uint8_t *)bytes;
  blob.len = length;
  return blob;
}

static void note(const char *text, size_t text_length, const void *fields, size_t length) {
  static const char head[] = "{\"level\":\"info\",\"message\":\"", middle[] = "\",\"fields\":{\"is\":";
  char *line = malloc(text_length + length + 80);
  size_t count = 0;
  pdr_blob blob;
  if (!line) return;
  memcpy(line, head, sizeof head - 1), count += sizeof head - 1;
  memcpy(line + count, text, text_length), count += text_length;
  memcpy(line + count, middle, sizeof middle - 1), count += sizeof middle - 1;
  memcpy(line + count, fields, length), count += length;
  memcpy(line + count, "}}", 2), count += 2;
  blob = json(line, count);
  invoke->start(invoke->ctx, 0, pdr_easy_str("log"), &blob, NULL, NULL, NULL);
  free(line);
}

static void note_result(pdr_str name, int32_t status, const void *bytes, size_t length) {
  char text[128];
  int count = snprintf(text, sizeof text, "%.*s %d", (int)name.len, (const char *)name.ptr, status);
  if (length == 0) bytes = "{}", length = 2;
  note(text, (size_t)count, bytes, length);
}

static void complete(struct run *run) {
  pdr_str value;
  pdr_blob blob;
  if (find(run->step, "fail", &value)) {
    pdr_err err;
    memset(&err, 0, sizeof err);
    err.size = sizeof err;
    err.code = PDR_E_INTERNAL;
    err.flags = PDR_ERR_USER_VISIBLE;
    err.message.ptr = value.ptr + 1, err.message.len = value.len - 2;
    calls->complete(calls->ctx, run->id, PDR_E_INTERNAL, NULL, &err);
  } else if (find(run->step, "text", &value)) {
    blob = json(value.ptr + 1, value.len - 2);
    blob.media_type = pdr_easy_str(PDR_MEDIA_TEXT);
    calls->complete(calls->ctx, run->id, PDR_OK, &blob, NULL);
  } else if (flag(run->step, "last")) {
    blob = json(run->last, run->last_length);
    calls->complete(calls->ctx, run->id, PDR_OK, &blob, NULL);
  } else if (find(run->step, "answer", &value)) {
    blob = json(value.ptr, value.len);
    calls->complete(calls->ctx, run->id, PDR_OK, &blob, NULL);
  } else {
    calls->complete(calls->ctx, run->id, PDR_OK, NULL, NULL);
  }
}

static void done(void *argument, pdr_id request, int32_t status, const pdr_blob *value,
                 const pdr_err *err) {
  struct run *run = argument;
  pdr_str name = pdr_easy_str("result");
  (void)request;
  run->last_status = status;
  if (value && value->len < sizeof run->last) {
    memcpy(run->last, value->ptr, value->len);
    run->last_length = value->len;
    note_result(name, status, value->ptr, value->len);
  } else if (err) {
    note_result(name, status, err->detail.ptr, err->detail.len);
  }
  if (atomic_fetch_sub(&run->open, 1) == 1) next_step(run);
}

/* Takes the next element of the list of operations; 0 at its end. */
static int element(struct run *run, pdr_str *value) {
  const uint8_t *at = run->at ? pdr_easy_space_(run->at, run->end) : NULL;
  if (!at || at >= run->end || *at == ']') return 0;
  if (*at == '[' || *at == ',') at = pdr_easy_space_(at + 1, run->end);
  if (at >= run->end || *at == ']') return 0;
  value->ptr = at;
  at = pdr_easy_after_value_(at, run->end);
  if (!at) return 0;
  value->len = (size_t)(at - value->ptr);
  run->at = at;
  return 1;
}

static void ask(struct run *run, pdr_str operation) {
  pdr_str name = pdr_easy_str(""), input = pdr_easy_str("{}");
  pdr_blob blob;
  pdr_id request;
  int32_t code;
  if (find(operation, "op", &name)) name.ptr++, name.len -= 2;
  find(operation, "input", &input);
  blob = json(input.ptr, input.len);
  run->open++;
  code = invoke->start(invoke->ctx, run->id, name, &blob, done, run, &request);
  if (code == PDR_OK) return;
  run->open--;
  note_result(name, code, "{}", 2);
}

static void next_step(struct run *run) {
  pdr_str operation;
  if (run->left) return;
  if (flag(run->step, "parallel")) {
    run->open++; /* no answer may go on before all have been asked */
    while (element(run, &operation)) ask(run, operation);
    if (atomic_fetch_sub(&run->open, 1) != 1) return;
  } else if (element(run, &operation)) {
    int leaves = flag(run->step, "leave");
    if (leaves) run->left = 1;
    ask(run, operation);
    if (leaves) complete(run);
    return;
  }
  complete(run);
  if (flag(run->step, "after")) {
    pdr_blob blob = json("{}", 2);
    pdr_id request;
    int32_t code = invoke->start(invoke->ctx, run->id, pdr_easy_str("next"), &blob, done, run,
                                 &request);
    note_result(pdr_easy_str("after"), code, "{}", 2);
  }
}

static int32_t start(void *state, const pdr_call *call) {
  char target[160];
  pdr_str whole, value, input;
  struct run *run;
  (void)state;
  input.ptr = call->input->ptr, input.len = call->input->len;
  if (call->target.len >= sizeof target) return PDR_E_UNSUPPORTED;
  memcpy(target, call->target.ptr, call->target.len);
  target[call->target.len] = 0;
  if (!strcmp(target, "settings.changed") && find(input, "settings", &value) &&
      value.len <= sizeof script) {
    memcpy(script, value.ptr, value.len);
    script_length = value.len;
    return calls->complete(calls->ctx, call->id, PDR_OK, NULL, NULL);
  }
  note(target, call->target.len, input.ptr, input.len);
  whole.ptr = (const uint8_t *)script, whole.len = script_length;
  run = calloc(1, sizeof *run); /* kept: answers may come when the call is long over */
  if (!run) return PDR_E_BUSY;
  run->id = call->id;
  if (!find(whole, target, &run->step)) run->step = pdr_easy_str("{}");
  if (find(run->step, "refuse", &value)) return (int32_t)strtol((const char *)value.ptr, NULL, 10);
  if (flag(run->step, "hang")) return PDR_OK;
  if (flag(run->step, "crash")) abort();
  if (find(run->step, "ops", &value)) run->at = value.ptr, run->end = value.ptr + value.len;
  next_step(run);
  return PDR_OK;
}

PDR_EXPORT int32_t perdure_plugin_1(const pdr_host *host, pdr_plugin *out, pdr_errbuf *err) {
  (void)err;
  calls = host->query(host->ctx, pdr_easy_str(PDR_CALLS_1), sizeof *calls);
  invoke = host->query(host->ctx, pdr_easy_str(PDR_INVOKE_1), sizeof *invoke);
  if (!calls || !invoke) return PDR_E_UNSUPPORTED;
  out->start = start;
  return PDR_OK;
}
