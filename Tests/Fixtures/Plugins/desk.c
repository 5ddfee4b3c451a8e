/* A plugin that does what it is told: each call runs a script of operations out of its input.
 *
 * Beside the operations of the host it knows some of its own:
 *
 *   gate {path}             writes what came of the script so far to the pipe PATH.ready, then reads a
 *                           step from the pipe PATH.go and runs it, if there is one
 *   emit {text}             puts a text out
 *   call                    tells the id of the call
 *   within {call, op}       asks for an operation within another call
 *   cancelled {op, input, path}  asks for an operation and takes it back, in between a gate
 *   flood {op, input, count}     asks for an operation so many times, and waits for none of them
 *   until_cancelled         waits until the call is cancelled
 *   append {path, text}     adds a text to a file
 *   until_file {path}       waits until there is a file of this name
 *   crash {unless}          ends the process, unless there is a file of this name
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "perdure_easy.h"

#ifndef VERSION
#define VERSION "1"
#endif
#ifndef MIGRATES
#define MIGRATES "[]"
#endif
#ifndef PERMISSIONS
#define PERMISSIONS "{}"
#endif
#define OBJECT "{\"type\":\"object\"}"
#define TOOL(name, more)                                              \
  "{\"name\":\"" name "\",\"description\":\"" name "\",\"blocking\":true," more \
  "\"parameters\":" OBJECT "}"

PDR_PLUGIN_NOTE("c");
PDR_MANIFEST(
    "{\"manifest\":1,\"id\":\"test.desk\",\"version\":\"" VERSION ".0.0\",\"runtime\":\"c\","
    "\"interfaces\":{\"required\":[\"perdure.calls/1\",\"perdure.invoke/1\"]},"
    "\"execution\":{\"maxConcurrency\":16,\"graceMs\":500},"
    "\"permissions\":" PERMISSIONS ","
    "\"dynamic\":{\"tools\":\"desk_*\"},"
    "\"settings\":{\"schema\":" OBJECT ",\"default\":{}},"
    "\"tools\":[" TOOL("run", "") "," TOOL("safe", "\"replay\":\"safe\",") ","
    TOOL("inner", "\"callers\":[\"tools\"],\"structuredOutputSchema\":{\"type\":\"object\"},") ","
    "{\"name\":\"prepared\",\"description\":\"p\",\"prepare\":true,\"blocking\":true,"
    "\"parameters\":{\"type\":\"object\",\"required\":[\"n\"],"
    "\"properties\":{\"n\":{\"type\":\"integer\"}}}},"
    TOOL("picture", "") "," TOOL("hidden", "\"deferred\":true,") "],"
    "\"sections\":[{\"key\":\"desk\"}],"
    "\"hooks\":[{\"point\":\"beforeTool\",\"role\":\"observer\",\"tools\":[\"run\"]},"
    "{\"point\":\"conversationCreated\",\"role\":\"observer\"}],"
    "\"tasks\":[{\"type\":\"desk.job\",\"version\":" VERSION ",\"migrates\":" MIGRATES ","
    "\"phases\":[\"first\",\"second\",\"third\"],\"initial\":{\"phase\":\"first\"},"
    "\"inputSchema\":" OBJECT ",\"hooks\":[\"point\"],\"blocking\":true,\"deadlineMs\":60000},"
    "{\"type\":\"desk.asked\",\"version\":1,\"phases\":[\"first\",\"second\"],\"initial\":\"call\"}],"
    "\"documents\":[{\"kind\":\"desk.notes\",\"version\":" VERSION ",\"migrates\":" MIGRATES ","
    "\"scope\":\"conversation\",\"history\":\"rewindable\",\"fork\":\"asOf\",\"keyed\":true,"
    "\"initial\":{\"pages\":[]},\"base\":{\"deltas\":32}},"
    "{\"kind\":\"desk.plan\",\"version\":1,\"scope\":\"session\",\"initial\":{\"n\":0},\"base\":\"always\"},"
    "{\"kind\":\"desk.scratch\",\"version\":1,\"scope\":\"task\",\"base\":\"never\"},"
    "{\"kind\":\"desk.card\",\"version\":1,\"scope\":\"conversation\",\"history\":\"latest\","
    "\"fork\":\"initial\",\"base\":\"always\",\"initial\":{\"fresh\":true},"
    "\"create\":\"withConversation\"}]}");

static const pdr_calls_1 *calls;
static const pdr_invoke_1 *invoke;

static int32_t complete(pdr_id id, const char *media, const void *bytes, size_t length) {
  pdr_blob blob = {sizeof blob, 0, bytes, length, {(const uint8_t *)media, strlen(media)}, NULL, NULL};
  return calls->complete(calls->ctx, id, PDR_OK, &blob, NULL);
}

static int32_t fail(pdr_id id, const char *sentence) {
  pdr_err err = {sizeof err, PDR_E_INTERNAL, PDR_ERR_USER_VISIBLE, 0, pdr_easy_str(sentence), {NULL, 0}};
  return calls->complete(calls->ctx, id, PDR_E_INTERNAL, NULL, &err);
}

/* ------------------------------------------------------------ requests that are waited for */

struct wait {
  pthread_mutex_t lock;
  pthread_cond_t news;
  int done;
  int32_t status;
  char *answer;
  size_t length;
};

static void finished(void *argument, pdr_id request, int32_t status, const pdr_blob *value,
                     const pdr_err *err) {
  struct wait *wait = argument;
  const uint8_t *bytes = value ? value->ptr : err ? err->detail.ptr : NULL;
  size_t length = value ? value->len : err ? err->detail.len : 0;
  (void)request;
  pthread_mutex_lock(&wait->lock);
  wait->status = status;
  wait->answer = malloc(length + 1);
  if (bytes) memcpy(wait->answer, bytes, length);
  wait->answer[length] = 0;
  wait->length = length;
  wait->done = 1;
  pthread_cond_signal(&wait->news);
  pthread_mutex_unlock(&wait->lock);
}

static int32_t ask_with(pdr_id within, const char *op, pdr_str input, const char *type,
                        struct wait *wait) {
  pdr_blob blob = {sizeof blob, 0, input.ptr, input.len, pdr_easy_str(type), NULL, NULL};
  pdr_id request = 0;
  int32_t code;
  memset(wait, 0, sizeof *wait);
  pthread_mutex_init(&wait->lock, NULL);
  pthread_cond_init(&wait->news, NULL);
  code = invoke->start(invoke->ctx, within, pdr_easy_str(op), &blob, finished, wait, &request);
  if (code != PDR_OK) return code;
  pthread_mutex_lock(&wait->lock);
  while (!wait->done) pthread_cond_wait(&wait->news, &wait->lock);
  pthread_mutex_unlock(&wait->lock);
  return wait->status;
}

static int32_t ask(pdr_id within, const char *op, pdr_str input, struct wait *wait) {
  return ask_with(within, op, input, "", wait);
}

/* Asks with the bytes FF 00 41 as part 1 of the message. */
static int32_t ask_with_part(pdr_id within, const char *op, pdr_str input, struct wait *wait) {
  size_t json = (input.len + 7) / 8 * 8, whole = 32 + json + 8;
  uint8_t *bytes = calloc(1, whole);
  pdr_str message = {bytes, whole};
  int32_t status;
  memcpy(bytes, "PDRP\1\0\0\0\2\0\0\0\0\0\0\0", 16);
  bytes[16] = (uint8_t)input.len;
  bytes[17] = (uint8_t)(input.len >> 8);
  bytes[24] = 3;
  memcpy(bytes + 32, input.ptr, input.len);
  memcpy(bytes + 32 + json, "\xff\0A", 3);
  status = ask_with(within, op, message, "application/vnd.perdure.parts", wait);
  free(bytes);
  return status;
}

/* ------------------------------------------------------------ scripts */

struct text {
  char *bytes;
  size_t length, room;
};

static void add(struct text *text, const char *bytes, size_t length) {
  if (text->length + length + 1 > text->room) {
    text->room = (text->length + length + 1) * 2;
    text->bytes = realloc(text->bytes, text->room);
  }
  memcpy(text->bytes + text->length, bytes, length);
  text->length += length;
  text->bytes[text->length] = 0;
}

static void add_text(struct text *text, const char *more) { add(text, more, strlen(more)); }

static int string_member(pdr_str object, const char *key, char *buffer, size_t room) {
  pdr_easy_call call;
  memset(&call, 0, sizeof call);
  call.arguments = object;
  return pdr_easy_string(&call, key, buffer, room);
}

/* ------------------------------------------------------------ operations of its own */

static int open_pipe(pdr_str input, const char *ending, int flags) {
  char path[512];
  if (!string_member(input, "path", path, sizeof path - 8)) return -1;
  strcat(path, ending);
  return open(path, flags | O_CLOEXEC, 0600);
}

static void run_one(pdr_id within, pdr_str step, struct text *out);

static void gate(pdr_id within, pdr_str input, struct text *out) {
  struct text step = {0};
  pdr_str next;
  char bytes[4096];
  ssize_t count;
  int ready = open_pipe(input, ".ready", O_WRONLY), go;
  if (ready < 0) return;
  if (write(ready, out->bytes, out->length) < 0) abort();
  close(ready);
  go = open_pipe(input, ".go", O_RDONLY);
  while (go >= 0 && (count = read(go, bytes, sizeof bytes)) > 0) add(&step, bytes, (size_t)count);
  close(go);
  next.ptr = (const uint8_t *)step.bytes, next.len = step.length;
  if (step.length > 1) run_one(within, next, out);
  free(step.bytes);
}

static void note(struct text *out, const char *op, int32_t status, const char *answer) {
  char head[160];
  if (out->length > 1) add_text(out, ",");
  snprintf(head, sizeof head, "{\"op\":\"%s\",\"status\":%d,\"answer\":", op, status);
  add_text(out, head);
  add_text(out, answer);
  add_text(out, "}");
}

static void emit(pdr_id id, pdr_str input, struct text *out) {
  char bytes[1024];
  pdr_blob blob = {sizeof blob, 0, (uint8_t *)bytes, 0, pdr_easy_str(PDR_MEDIA_TEXT), NULL, NULL};
  if (!string_member(input, "text", bytes, sizeof bytes)) return;
  blob.len = strlen(bytes);
  note(out, "emit", calls->emit(calls->ctx, id, &blob), "null");
}

static pdr_blob input_of(pdr_str input) {
  pdr_str inner = pdr_easy_str("{}");
  pdr_blob blob = {sizeof blob, 0, NULL, 0, {NULL, 0}, NULL, NULL};
  pdr_easy_member(input, "input", &inner);
  blob.ptr = inner.ptr, blob.len = inner.len;
  return blob;
}

static void within_another(pdr_str input, struct text *out) {
  char call[32], op[64];
  pdr_blob blob = input_of(input);
  if (!string_member(input, "call", call, sizeof call)) return;
  if (!string_member(input, "op", op, sizeof op)) return;
  note(out, op, invoke->start(invoke->ctx, strtoull(call, NULL, 10), pdr_easy_str(op), &blob, NULL,
                              NULL, NULL), "null");
}

static void taken_back(pdr_id within, pdr_str input, struct text *out) {
  char op[64], text[32];
  pdr_blob blob = input_of(input);
  struct wait wait;
  pdr_id request = 0;
  if (!string_member(input, "op", op, sizeof op)) return;
  memset(&wait, 0, sizeof wait);
  pthread_mutex_init(&wait.lock, NULL);
  pthread_cond_init(&wait.news, NULL);
  if (invoke->start(invoke->ctx, within, pdr_easy_str(op), &blob, finished, &wait, &request)) return;
  gate(within, input, out);
  snprintf(text, sizeof text, "%d", invoke->cancel(invoke->ctx, request));
  gate(within, input, out);
  pthread_mutex_lock(&wait.lock);
  while (!wait.done) pthread_cond_wait(&wait.news, &wait.lock);
  pthread_mutex_unlock(&wait.lock);
  note(out, op, wait.status, text);
  free(wait.answer);
}

static void ignored(void *argument, pdr_id request, int32_t status, const pdr_blob *value,
                    const pdr_err *err) {
  (void)argument, (void)request, (void)status, (void)value, (void)err;
}

static void flood(pdr_id within, pdr_str input, struct text *out) {
  char op[64], text[96];
  int64_t count = 0, accepted = 0, busy = 0;
  pdr_blob blob = input_of(input);
  pdr_easy_call easy;
  memset(&easy, 0, sizeof easy);
  easy.arguments = input;
  if (!string_member(input, "op", op, sizeof op)) return;
  pdr_easy_integer(&easy, "count", &count);
  for (int64_t i = 0; i < count; i++) {
    pdr_id request;
    int32_t code = invoke->start(invoke->ctx, within, pdr_easy_str(op), &blob, ignored, NULL, &request);
    if (code == PDR_OK) accepted++;
    if (code == PDR_E_BUSY) busy++;
  }
  snprintf(text, sizeof text, "{\"accepted\":%lld,\"busy\":%lld}", (long long)accepted, (long long)busy);
  note(out, "flood", 0, text);
}

/* Runs an operation of this plugin itself; 0 if it is one of the host. */
static int run_own(const char *op, pdr_id within, pdr_str input, struct text *out) {
  char text[32];
  if (!strcmp(op, "gate")) return gate(within, input, out), 1;
  if (!strcmp(op, "emit")) return emit(within, input, out), 1;
  if (!strcmp(op, "within")) return within_another(input, out), 1;
  if (!strcmp(op, "cancelled")) return taken_back(within, input, out), 1;
  if (!strcmp(op, "flood")) return flood(within, input, out), 1;
  if (!strcmp(op, "append")) {
    char line[64] = "";
    int file = open_pipe(input, "", O_WRONLY | O_CREAT | O_APPEND);
    string_member(input, "text", line, sizeof line);
    if (file < 0 || write(file, line, strlen(line)) < 0) abort();
    return close(file), 1;
  }
  if (!strcmp(op, "until_file")) {
    const struct timespec time = {0, 1000000};
    char path[512] = "";
    string_member(input, "path", path, sizeof path);
    while (access(path, F_OK) != 0) nanosleep(&time, NULL);
    return 1;
  }
  if (!strcmp(op, "crash")) {
    char path[512] = "";
    string_member(input, "unless", path, sizeof path);
    if (access(path, F_OK) != 0) abort();
    return 1;
  }
  if (!strcmp(op, "until_cancelled")) {
    const struct timespec time = {0, 1000000};
    while (!calls->cancelled(calls->ctx, within)) nanosleep(&time, NULL);
    return 1;
  }
  if (strcmp(op, "call")) return 0;
  snprintf(text, sizeof text, "\"%llu\"", (unsigned long long)within);
  note(out, op, 0, text);
  return 1;
}

static void run_one(pdr_id within, pdr_str step, struct text *out) {
  char op[64], head[96];
  pdr_str input = pdr_easy_str("{}"), part;
  struct wait wait;
  int32_t status;
  if (!string_member(step, "op", op, sizeof op)) return;
  if (!strcmp(op, "pause")) {
    struct timespec time = {0, 50000000};
    nanosleep(&time, NULL);
    return;
  }
  pdr_easy_member(step, "input", &input);
  if (run_own(op, within, input, out)) return;
  status = pdr_easy_member(step, "part", &part) ? ask_with_part(within, op, input, &wait)
                                                 : ask(within, op, input, &wait);
  if (out->length > 1) add_text(out, ",");
  snprintf(head, sizeof head, "{\"op\":\"%s\",\"status\":%d,\"answer\":", op, status);
  add_text(out, head);
  if (wait.answer && (wait.answer[0] == '{' || wait.answer[0] == '['))
    add(out, wait.answer, wait.length);
  else if (wait.answer) {
    snprintf(head, sizeof head, "{\"bytes\":%zu}", wait.length);
    add_text(out, head);
  } else
    add_text(out, "null");
  add_text(out, "}");
  free(wait.answer);
}

/* Runs the steps of {"ops":[…]} and appends an array of what they came to. */
static void run_script(pdr_id within, pdr_str script, struct text *out) {
  pdr_str ops;
  const uint8_t *at, *end;
  add_text(out, "[");
  if (pdr_easy_member(script, "ops", &ops) && ops.len > 1) {
    at = ops.ptr + 1;
    end = ops.ptr + ops.len;
    for (;;) {
      pdr_str step;
      at = pdr_easy_space_(at, end);
      if (at >= end || *at == ']') break;
      step.ptr = at;
      at = pdr_easy_after_value_(at, end);
      if (!at) break;
      step.len = (size_t)(at - step.ptr);
      run_one(within, step, out);
      at = pdr_easy_space_(at, end);
      if (at >= end || *at != ',') break;
      at++;
    }
  }
  add_text(out, "]");
}

/* Tells the test, in a line of the log, what a script came to. */
static void tell(pdr_id within, const char *what, const struct text *text) {
  struct text line = {0};
  struct wait wait;
  pdr_str input;
  add_text(&line, "{\"level\":\"info\",\"message\":\"");
  add_text(&line, what);
  add_text(&line, "\",\"fields\":{\"answers\":");
  add(&line, text->bytes, text->length);
  add_text(&line, "}}");
  input.ptr = (const uint8_t *)line.bytes;
  input.len = line.length;
  ask(within, "log", input, &wait);
  free(wait.answer);
  free(line.bytes);
}

/* ------------------------------------------------------------ calls */

static int32_t tool(pdr_id id, pdr_str input) {
  struct text out = {0};
  pdr_str arguments = pdr_easy_str("{}"), completion;
  int32_t code;
  pdr_easy_member(input, "arguments", &arguments);
  run_script(id, arguments, &out);
  if (pdr_easy_member(arguments, "tell", &completion)) tell(id, "tool", &out);
  if (pdr_easy_member(arguments, "complete", &completion))
    code = complete(id, "", completion.ptr, completion.len);
  else if (pdr_easy_member(arguments, "echo", &completion))
    code = complete(id, PDR_MEDIA_TEXT, input.ptr, input.len);
  else
    code = complete(id, PDR_MEDIA_TEXT, out.bytes, out.length);
  free(out.bytes);
  return code;
}

static int32_t task(pdr_id id, pdr_str input, const char *phase) {
  struct text out = {0};
  pdr_str record, body, script, part, completion;
  int32_t code;
  if (!pdr_easy_member(input, "task", &record) || !pdr_easy_member(record, "input", &body) ||
      !pdr_easy_member(body, "script", &script) || !pdr_easy_member(script, phase, &part))
    return complete(id, "", "{}", 2);
  run_script(id, part, &out);
  tell(id, phase, &out);
  free(out.bytes);
  if (pdr_easy_member(part, "fail", &completion)) return fail(id, "the phase failed on purpose");
  if (!pdr_easy_member(part, "complete", &completion)) completion = pdr_easy_str("{}");
  code = complete(id, "", completion.ptr, completion.len);
  return code;
}

static int32_t answer(pdr_id id, const char *before, pdr_str value, const char *after) {
  struct text out = {0};
  int32_t code;
  add_text(&out, before);
  add(&out, (const char *)value.ptr, value.len);
  add_text(&out, after);
  code = complete(id, "", out.bytes, out.length);
  free(out.bytes);
  return code;
}

/* Ends the process if the script says "crash" and there is no file of that name yet. */
static void crash_once(pdr_str body) {
  pdr_str name;
  char path[512];
  if (!pdr_easy_find(body, "script.crash", &name) || !pdr_easy_text(name, path, sizeof path)) return;
  if (access(path, F_OK) == 0) return;
  close(open(path, O_WRONLY | O_CREAT, 0600));
  abort();
}

static int32_t migrate_task(pdr_id id, pdr_str input) {
  pdr_str body, refuse;
  if (!pdr_easy_member(input, "input", &body)) return PDR_E_INVALID;
  crash_once(body);
  if (pdr_easy_member(body, "refuse", &refuse)) return fail(id, "this task cannot be migrated");
  return answer(id, "{\"input\":", body, ",\"checkpoint\":{\"phase\":\"third\",\"migrated\":true}}");
}

static int32_t initial(pdr_id id, pdr_str input) {
  pdr_str body, refuse;
  if (!pdr_easy_member(input, "input", &body)) return PDR_E_INVALID;
  if (pdr_easy_member(body, "refuse", &refuse)) return fail(id, "this input has no beginning");
  return answer(id, "{\"checkpoint\":{\"phase\":\"second\",\"from\":", body, "}}");
}

static int32_t prepare(pdr_id id, pdr_str input) {
  pdr_str arguments, word;
  if (!pdr_easy_member(input, "arguments", &arguments)) return PDR_E_INVALID;
  if (pdr_easy_member(arguments, "refuse", &word)) return fail(id, "these arguments are beyond repair");
  if (pdr_easy_member(arguments, "number", &word))
    return answer(id, "{\"arguments\":{\"n\":", word, "}}");
  return answer(id, "{\"arguments\":", arguments, "}");
}

/* Completes with an image as a part. */
static int32_t picture(pdr_id id) {
  static const char json[] =
      "{\"output\":[{\"type\":\"text\",\"text\":\"see\"},"
      "{\"type\":\"image\",\"mimeType\":\"image/png\",\"part\":1}]}";
  uint8_t bytes[512];
  size_t first = sizeof json - 1, at = 32;
  memset(bytes, 0, sizeof bytes);
  memcpy(bytes, "PDRP\1\0\0\0\2\0\0\0\0\0\0\0", 16);
  bytes[16] = (uint8_t)first;
  bytes[24] = 5;
  memcpy(bytes + at, json, first);
  at += (first + 7) / 8 * 8;
  memcpy(bytes + at, "\x89PNG!", 5);
  return complete(id, "application/vnd.perdure.parts", bytes, at + 8);
}

static int32_t script_of(pdr_id id, pdr_str input, const char *object, const char *key,
                         const char *what) {
  struct text out = {0};
  pdr_str holder = input, script;
  if (object && !pdr_easy_member(input, object, &holder)) return complete(id, "", "{}", 2);
  if (object && pdr_easy_member(holder, "arguments", &script)) holder = script;
  if (!pdr_easy_member(holder, key, &script)) return complete(id, "", "{}", 2);
  run_script(id, script, &out);
  tell(id, what, &out);
  free(out.bytes);
  return complete(id, "", "{}", 2);
}

static int is(const pdr_call *call, const char *target) {
  return call->target.len == strlen(target) && !memcmp(call->target.ptr, target, call->target.len);
}

static int begins(const pdr_call *call, const char *target) {
  size_t length = strlen(target);
  return call->target.len >= length && !memcmp(call->target.ptr, target, length);
}

static int32_t start(void *state, const pdr_call *call) {
  pdr_str input;
  pdr_id id = call->id;
  char phase[64];
  (void)state;
  input.ptr = call->input->ptr;
  input.len = call->input->len;
  if (is(call, "tool:picture")) return picture(id);
  if (begins(call, "tool:")) return tool(id, input);
  if (begins(call, "tool.prepare:")) return prepare(id, input);
  if (begins(call, "task:")) {
    if (!string_member(input, "phase", phase, sizeof phase)) return PDR_E_INVALID;
    return task(id, input, phase);
  }
  if (begins(call, "task.abort:")) return task(id, input, "abort");
  if (begins(call, "task.migrate:")) return migrate_task(id, input);
  if (begins(call, "task.initial:")) return initial(id, input);
  if (begins(call, "document.migrate:"))
    return answer(id, "{\"value\":{\"pages\":[", pdr_easy_str("\"migrated\""), "]}}");
  if (is(call, "hook:beforeTool")) return script_of(id, input, "call", "hook", "hook");
  if (is(call, "hook:conversationCreated")) {
    struct text out = {0};
    run_script(id, pdr_easy_str("{\"ops\":[{\"op\":\"agent.get\"}]}"), &out);
    tell(id, "created", &out);
    free(out.bytes);
    return complete(id, "", "{}", 2);
  }
  if (is(call, "section:desk")) {
    struct text out = {0};
    run_script(id,
               pdr_easy_str("{\"ops\":[{\"op\":\"agent.get\"},{\"op\":\"tools.list\",\"input\":{\"set\":\"all\"}},"
                            "{\"op\":\"commit\",\"input\":{\"steps\":[]}}]}"),
               &out);
    tell(id, "section", &out);
    free(out.bytes);
    return complete(id, "", "{}", 2);
  }
  if (is(call, "settings.changed")) return complete(id, "", "{}", 2);
  return PDR_E_UNSUPPORTED;
}

PDR_EXPORT int32_t perdure_plugin_1(const pdr_host *host, pdr_plugin *out, pdr_errbuf *err) {
  (void)err;
  calls = host->query(host->ctx, pdr_easy_str(PDR_CALLS_1), sizeof *calls);
  invoke = host->query(host->ctx, pdr_easy_str(PDR_INVOKE_1), sizeof *invoke);
  out->start = start;
  return calls && invoke ? PDR_OK : PDR_E_UNSUPPORTED;
}
