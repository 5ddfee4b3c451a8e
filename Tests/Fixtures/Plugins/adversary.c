/* A plugin that breaks each promise of the contract in a tool of its own, and a few that keep them. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "perdure_easy.h"

#define TOOL(name, more)                                           \
  "{\"name\":\"" name "\",\"description\":\"" name "\"," more      \
  "\"parameters\":{\"type\":\"object\"}}"
#define BLOCKING "\"blocking\":true,"

PDR_PLUGIN_NOTE("c");
PDR_MANIFEST(
    "{\"manifest\":1,\"id\":\"test.adversary\",\"version\":\"1.0.0\",\"runtime\":\"c\","
    "\"interfaces\":{\"required\":[\"perdure.calls/1\",\"perdure.invoke/1\"]},"
    "\"execution\":{\"maxConcurrency\":32,\"graceMs\":1000},"
    "\"settings\":{\"schema\":{\"type\":\"object\"},\"default\":{\"colour\":\"red\"}},"
    "\"tools\":[" TOOL("echo", "\"replay\":\"safe\",") "," TOOL("twice", "") "," TOOL("keep", "")
    "," TOOL("complete_kept", "") "," TOOL("never", "") "," TOOL("from_thread", "")
    "," TOOL("after_cancel", "") "," TOOL("poll", BLOCKING) "," TOOL("junk", "")
    "," TOOL("fail", "") "," TOOL("flood", BLOCKING) "," TOOL("emit_junk", "")
    "," TOOL("frames", "") "," TOOL("op", BLOCKING) "," TOOL("one_way", "") "," TOOL("blob", "")
    "," TOOL("busy", "") "," TOOL("refuse", "") "," TOOL("refuse_after", "")
    "," TOOL("slow", "\"replay\":\"safe\"," BLOCKING) "," TOOL("slow_unsafe", BLOCKING)
    "," TOOL("threads", "") "," TOOL("stale", "") "," TOOL("codes", "") "," TOOL("single", "\"maxConcurrency\":1,")
    "," TOOL("open_request", "") "," TOOL("watch_gone", "") "," TOOL("raw", "")
    "," TOOL("linger", "")
    "]}");

static const pdr_calls_1 *calls;
static const pdr_invoke_1 *invoke;
static _Atomic pdr_id kept;
static atomic_int releases, busy_attempts, dones, inside, most_inside;
static char codes[256];
/* Set while codes is being written, so that the tool codes does not read too early. */
static atomic_int writing_codes;

static int32_t text(pdr_id id, const char *answer) {
  pdr_blob blob = {sizeof blob, 0, (const uint8_t *)answer, strlen(answer),
                   {(const uint8_t *)PDR_MEDIA_TEXT, strlen(PDR_MEDIA_TEXT)}, NULL, NULL};
  return calls->complete(calls->ctx, id, PDR_OK, &blob, NULL);
}

static int32_t raw(pdr_id id, const char *media, const void *bytes, size_t length) {
  pdr_blob blob = {sizeof blob, 0, bytes, length, {(const uint8_t *)media, strlen(media)}, NULL, NULL};
  return calls->complete(calls->ctx, id, PDR_OK, &blob, NULL);
}

static int32_t emit(pdr_id id, const char *media, const void *bytes, size_t length) {
  pdr_blob blob = {sizeof blob, 0, bytes, length, {(const uint8_t *)media, strlen(media)}, NULL, NULL};
  return calls->emit(calls->ctx, id, &blob);
}

/* Tells the test that the plugin has the call. */
static int32_t ready(pdr_id id) { return emit(id, PDR_MEDIA_TEXT, "ready", 5); }

static void pause_ms(long ms) {
  struct timespec time = {ms / 1000, ms % 1000 * 1000000};
  nanosleep(&time, NULL);
}

static void run_thread(void *(*body)(void *), void *argument) {
  pthread_t thread;
  if (pthread_create(&thread, NULL, body, argument) == 0) pthread_detach(thread);
}

/* ------------------------------------------------------------ requests that are waited for */

struct wait {
  pthread_mutex_t lock;
  pthread_cond_t news;
  int done;
  int32_t status;
  char answer[131072];
  size_t length;
};

static void finished(void *argument, pdr_id request, int32_t status, const pdr_blob *value,
                     const pdr_err *err) {
  struct wait *wait = argument;
  (void)request;
  pthread_mutex_lock(&wait->lock);
  wait->status = status;
  wait->done++;
  if (value && value->len < sizeof wait->answer) {
    memcpy(wait->answer, value->ptr, value->len);
    wait->length = value->len;
  } else if (err && err->detail.len < sizeof wait->answer) {
    memcpy(wait->answer, err->detail.ptr, err->detail.len);
    wait->length = err->detail.len;
  }
  pthread_cond_signal(&wait->news);
  pthread_mutex_unlock(&wait->lock);
}

static int32_t ask(pdr_id within, const char *op, pdr_str input, struct wait *wait) {
  pdr_blob blob = {sizeof blob, 0, input.ptr, input.len, {NULL, 0}, NULL, NULL};
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

/* ------------------------------------------------------------ misbehaviour */

static void *complete_from_thread(void *argument) {
  pdr_id id = (pdr_id)(uintptr_t)argument;
  text(id, "from a thread");
  return NULL;
}

static void cancelled_callback(void *argument, pdr_id id, uint32_t reason) {
  (void)argument;
  (void)reason;
  run_thread(complete_from_thread, (void *)(uintptr_t)id);
}

static int32_t junk(pdr_easy_call *easy, pdr_id id) {
  char kind[32];
  static char deep[200002];
  if (!pdr_easy_string(easy, "kind", kind, sizeof kind)) return PDR_E_INVALID;
  if (!strcmp(kind, "text_utf8")) return raw(id, PDR_MEDIA_TEXT, "\xff\xfe", 2);
  if (!strcmp(kind, "utf8")) return raw(id, "", "{\"output\":\"\xc3\x28\"}", 15);
  if (!strcmp(kind, "json")) return raw(id, "", "{\"output\": [", 12);
  if (!strcmp(kind, "keys")) return raw(id, "", "{\"a\":1,\"a\":2}", 13);
  if (!strcmp(kind, "deep")) {
    memset(deep, '[', sizeof deep - 1);
    return raw(id, "", deep, sizeof deep - 1);
  }
  if (!strcmp(kind, "array")) return raw(id, "", "[1]", 3);
  if (!strcmp(kind, "shape")) return raw(id, "", "{\"output\":[{\"type\":\"video\"}]}", 29);
  if (!strcmp(kind, "error_type")) return raw(id, "", "{\"isError\":\"yes\"}", 17);
  if (!strcmp(kind, "must")) return raw(id, "", "{\"must\":[\"future\"],\"future\":1}", 30);
  if (!strcmp(kind, "null")) return raw(id, "", NULL, 100);
  if (!strcmp(kind, "huge")) return raw(id, "", "{}", (size_t)1 << 60);
  if (!strcmp(kind, "limit")) return raw(id, "", "{}", ((size_t)16 << 20) + 1);
  if (!strcmp(kind, "media")) return raw(id, "application/cbor", "x", 1);
  if (!strcmp(kind, "bytes")) return raw(id, PDR_MEDIA_BYTES, "x", 1);
  if (!strcmp(kind, "parts")) return raw(id, PDR_MEDIA_PARTS, "PDRP", 4);
  if (!strcmp(kind, "positive")) return calls->complete(calls->ctx, id, 5, NULL, NULL);
  if (!strcmp(kind, "flags")) {
    pdr_blob blob = {sizeof blob, 0x10000, NULL, 0, {NULL, 0}, NULL, NULL};
    return calls->complete(calls->ctx, id, PDR_OK, &blob, NULL);
  }
  if (!strcmp(kind, "error_utf8")) {
    pdr_err err = {sizeof err, PDR_E_INTERNAL, 0, 0, {(const uint8_t *)"\xff", 1}, {NULL, 0}};
    return calls->complete(calls->ctx, id, PDR_E_INTERNAL, NULL, &err);
  }
  if (!strcmp(kind, "nothing")) return calls->complete(calls->ctx, id, PDR_OK, NULL, NULL);
  if (!strcmp(kind, "small_struct")) {
    pdr_blob blob = {24, 0, (const uint8_t *)"{\"isError\":true}", 16, {(const uint8_t *)1, 5}, NULL,
                     (void (*)(void *))1};
    return calls->complete(calls->ctx, id, PDR_OK, &blob, NULL);
  }
  return PDR_E_INVALID;
}

static int32_t fail(pdr_easy_call *easy, pdr_id id) {
  int64_t flags = 0, code = PDR_E_INTERNAL;
  pdr_easy_integer(easy, "flags", &flags);
  pdr_easy_integer(easy, "code", &code);
  pdr_err err = {sizeof err, (int32_t)code, (uint32_t)flags, 0,
                 pdr_easy_str("the disk is full"), pdr_easy_str("{\"reason\":\"tool_error\"}")};
  return calls->complete(calls->ctx, id, (int32_t)code, NULL, &err);
}

static int32_t flood(pdr_easy_call *easy, pdr_id id) {
  static char chunk[65536];
  static struct wait wait;
  int64_t mib = 1, left;
  long blocked = 0, sent = 0;
  int ignore = 0;
  char answer[128];
  pdr_easy_integer(easy, "mib", &mib);
  pdr_easy_boolean(easy, "ignoreCredit", &ignore);
  memset(chunk, 'x', sizeof chunk);
  chunk[sizeof chunk - 1] = '\n';
  for (left = mib * 16; left > 0;) {
    int32_t code = emit(id, PDR_MEDIA_TEXT, chunk, sizeof chunk);
    if (code == PDR_OK) {
      sent++;
      left--;
    } else if (code == PDR_E_WOULD_BLOCK) {
      blocked++;
      if (ignore)
        left--;
      else if (ask(id, "output.flush", pdr_easy_str("{}"), &wait) != PDR_OK)
        break;
    } else {
      break;
    }
  }
  snprintf(answer, sizeof answer, "{\"structuredOutput\":{\"sent\":%ld,\"blocked\":%ld}}", sent, blocked);
  return raw(id, "", answer, strlen(answer));
}

static int32_t emit_junk(pdr_id id) {
  static char large[(1 << 20) + 1];
  int32_t a = emit(id, PDR_MEDIA_TEXT, "\xff", 1);
  int32_t b = emit(id, PDR_MEDIA_TEXT, large, (256 << 10) + 1);
  int32_t c = emit(id, PDR_MEDIA_TEXT, large, sizeof large);
  int32_t d = emit(id, PDR_MEDIA_TEXT, NULL, 5);
  int32_t e = emit(id, "", "{\"details\":1,\"diagnostic\":2}", 28);
  int32_t f = emit(id, PDR_MEDIA_PNG, "x", 1);
  int32_t g = calls->emit(calls->ctx, id, NULL);
  int32_t h = emit(id, PDR_MEDIA_TEXT, "ok", 2);
  char answer[128];
  snprintf(answer, sizeof answer, "%d %d %d %d %d %d %d %d", a, b, c, d, e, f, g, h);
  return text(id, answer);
}

static int32_t frames(pdr_id id) {
  static const char details[] = "{\"details\":{\"step\":1}}";
  static const char diagnostic[] = "{\"diagnostic\":{\"severity\":\"warn\",\"message\":\"careful\",\"code\":\"c\"}}";
  static const char skipped[] = "{\"skipped\":{\"bytes\":10,\"newlines\":2,\"endsWithNewline\":true}}";
  emit(id, PDR_MEDIA_TEXT, "one ", 4);
  emit(id, PDR_MEDIA_TEXT, "two\n", 4);
  emit(id, "", details, sizeof details - 1);
  emit(id, "", diagnostic, sizeof diagnostic - 1);
  emit(id, "", skipped, sizeof skipped - 1);
  emit(id, PDR_MEDIA_BYTES, "three", 5);
  return raw(id, "", "{}", 2);
}

static int32_t run_op(pdr_easy_call *easy, pdr_id id) {
  struct wait *wait = calloc(1, sizeof *wait);
  char op[600];
  int outside = 0;
  pdr_str input = pdr_easy_str("{}");
  char *answer = malloc(sizeof wait->answer + 64);
  int32_t status;
  if (!pdr_easy_string(easy, "op", op, sizeof op)) op[0] = 0;
  pdr_easy_boolean(easy, "outside", &outside);
  pdr_easy_member(easy->arguments, "input", &input);
  status = ask(outside ? 0 : id, op, input, wait);
  snprintf(answer, sizeof wait->answer + 64, "{\"structuredOutput\":{\"status\":%d,\"answer\":%.*s}}", status,
           wait->length && wait->answer[0] == '{' ? (int)wait->length : 4,
           wait->length && wait->answer[0] == '{' ? wait->answer : "null");
  if (wait->length && wait->answer[0] != '{')
    snprintf(answer, 128, "{\"structuredOutput\":{\"status\":%d,\"bytes\":%zu}}", status, wait->length);
  status = raw(id, "", answer, strlen(answer));
  free(answer);
  free(wait);
  return status;
}

static int32_t one_way(pdr_id id) {
  pdr_str log = pdr_easy_str("{\"level\":\"info\",\"message\":\"hello\",\"fields\":{\"n\":1}}");
  pdr_blob blob = {sizeof blob, 0, log.ptr, log.len, {NULL, 0}, NULL, NULL};
  pdr_id request = 77;
  int32_t a = invoke->start(invoke->ctx, id, pdr_easy_str("log"), &blob, NULL, NULL, &request);
  int32_t b = invoke->start(invoke->ctx, id, pdr_easy_str("barrier"), NULL, NULL, NULL, NULL);
  int32_t c = invoke->start(invoke->ctx, id, pdr_easy_str("\xff"), NULL, finished, NULL, NULL);
  pdr_blob bad = {sizeof bad, 0, NULL, 9, {NULL, 0}, NULL, NULL};
  int32_t d = invoke->start(invoke->ctx, id, pdr_easy_str("clock"), &bad, finished, NULL, NULL);
  int32_t e = invoke->start(invoke->ctx, id + 12345, pdr_easy_str("clock"), NULL, finished, NULL, NULL);
  int32_t f = invoke->cancel(invoke->ctx, 424242);
  char answer[128];
  snprintf(answer, sizeof answer, "%d %d %d %d %d %d %d", a, (int)request, b, c, d, e, f);
  return text(id, answer);
}

static void release(void *owner) {
  free(owner);
  atomic_fetch_add(&releases, 1);
}

static int32_t blob(pdr_easy_call *easy, pdr_id id) {
  int again = 0, i;
  char answer[32];
  pdr_easy_boolean(easy, "again", &again);
  if (again) {
    while (atomic_load(&writing_codes)) sched_yield();
    snprintf(answer, sizeof answer, "%d", atomic_load(&releases));
    return text(id, answer);
  }
  atomic_store(&writing_codes, 1);
  for (i = 0; i < 3; i++) { /* taken; stale; emitted too late */
    char *bytes = malloc(4);
    memcpy(bytes, "blob", 4);
    pdr_blob blob = {sizeof blob, 0, (uint8_t *)bytes, 4, pdr_easy_str(PDR_MEDIA_TEXT), bytes, release};
    if (i < 2)
      calls->complete(calls->ctx, id, PDR_OK, &blob, NULL);
    else
      calls->emit(calls->ctx, id, &blob);
  }
  atomic_store(&writing_codes, 0);
  return PDR_OK;
}

static int32_t slow(pdr_easy_call *easy, pdr_id id) {
  char path[1024];
  int64_t ms = 0;
  FILE *file;
  if (!pdr_easy_string(easy, "path", path, sizeof path)) return text(id, "no path");
  pdr_easy_integer(easy, "ms", &ms);
  file = fopen(path, "a");
  if (file) {
    fputs("ran\n", file);
    fclose(file);
  }
  while (ms > 0 && !calls->cancelled(calls->ctx, id)) {
    pause_ms(ms < 5 ? (long)ms : 5);
    ms -= 5;
  }
  return text(id, "slept");
}

static _Atomic int threads_left;

static void *emit_from_thread(void *argument) {
  pdr_id id = (pdr_id)(uintptr_t)argument;
  int i;
  for (i = 0; i < 100; i++)
    while (emit(id, PDR_MEDIA_TEXT, "line\n", 5) == PDR_E_WOULD_BLOCK) sched_yield();
  if (atomic_fetch_sub(&threads_left, 1) == 1) raw(id, "", "{}", 2);
  return NULL;
}

static int32_t stale(pdr_id id) {
  uint64_t left = 99;
  atomic_store(&writing_codes, 1);
  text(id, "first");
  snprintf(codes, sizeof codes, "%d %d %d %u %d %d", text(id, "second"),
           emit(id, PDR_MEDIA_TEXT, "x", 1), calls->credit(calls->ctx, id, &left),
           calls->cancelled(calls->ctx, id), calls->on_cancel(calls->ctx, id, cancelled_callback, NULL),
           invoke->start(invoke->ctx, id, pdr_easy_str("clock"), NULL, finished, NULL, NULL));
  atomic_store(&writing_codes, 0);
  return PDR_OK;
}

static void count_done(void *argument, pdr_id request, int32_t status, const pdr_blob *value,
                       const pdr_err *err) {
  (void)argument, (void)request, (void)value, (void)err;
  if (status == PDR_E_CANCELLED) atomic_fetch_add(&dones, 1);
}

static int32_t open_request(pdr_easy_call *easy, pdr_id id) {
  pdr_str input = pdr_easy_str("{\"ms\":3600000}");
  pdr_blob blob = {sizeof blob, 0, input.ptr, input.len, {NULL, 0}, NULL, NULL};
  int ask_count = 0, keep = 0, twice = 0;
  char answer[32];
  pdr_id request = 0;
  pdr_easy_boolean(easy, "count", &ask_count);
  pdr_easy_boolean(easy, "keep", &keep);
  pdr_easy_boolean(easy, "cancel", &twice);
  if (ask_count) {
    snprintf(answer, sizeof answer, "%d", atomic_load(&dones));
    return text(id, answer);
  }
  invoke->start(invoke->ctx, id, pdr_easy_str("timer.wait"), &blob, count_done, NULL, &request);
  if (twice) {
    int32_t a = invoke->cancel(invoke->ctx, request);
    int32_t b = invoke->cancel(invoke->ctx, request);
    snprintf(answer, sizeof answer, "%d %d", a, b);
    return text(id, answer);
  }
  return keep ? ready(id) : text(id, "left one open");
}

static void *watch(void *argument) {
  int fd = (int)(intptr_t)argument;
  char line[128];
  uint64_t left = 0;
  int count;
  int32_t a, b, c, d, e, f;
  while (calls->cancelled(calls->ctx, 1) != PDR_CANCEL_DRAIN) pause_ms(1);
  a = text(1, "x");
  b = emit(1, PDR_MEDIA_TEXT, "x", 1);
  c = calls->credit(calls->ctx, 1, &left);
  d = calls->on_cancel(calls->ctx, 1, cancelled_callback, NULL);
  e = invoke->start(invoke->ctx, 0, pdr_easy_str("clock"), NULL, finished, NULL, NULL);
  f = invoke->cancel(invoke->ctx, 1);
  count = snprintf(line, sizeof line, "%d %d %d %d %d %d\n", a, b, c, d, e, f);
  if (write(fd, line, (size_t)count) < 0) abort();
  close(fd);
  return NULL;
}

static int32_t single(pdr_easy_call *easy, pdr_id id) {
  int now = atomic_fetch_add(&inside, 1) + 1;
  char answer[32];
  (void)easy;
  if (now > atomic_load(&most_inside)) atomic_store(&most_inside, now);
  pause_ms(2);
  snprintf(answer, sizeof answer, "%d", atomic_load(&most_inside));
  atomic_fetch_sub(&inside, 1);
  return text(id, answer);
}

/* ------------------------------------------------------------ the plugin */

static int is(const pdr_call *call, const char *name) {
  size_t length = strlen(name);
  return call->target.len == length + 5 && !memcmp(call->target.ptr + 5, name, length);
}

static int32_t start(void *state, const pdr_call *call) {
  pdr_easy_call easy = {calls, call, {NULL, 0}, 0};
  pdr_str input = {call->input->ptr, call->input->len};
  pdr_id id = call->id;
  (void)state;
  if (call->target.len == 16 && !memcmp(call->target.ptr, "settings.changed", 16))
    return raw(id, "", "{}", 2);
  if (is(call, "raw")) return raw(id, PDR_MEDIA_BYTES, input.ptr, input.len);
  if (!pdr_easy_member(input, "arguments", &easy.arguments)) return PDR_E_INVALID;
  if (is(call, "echo")) {
    char buffer[4096];
    if (!pdr_easy_string(&easy, "text", buffer, sizeof buffer))
      return raw(id, PDR_MEDIA_TEXT, input.ptr, input.len), PDR_OK;
    return text(id, buffer);
  }
  if (is(call, "twice")) {
    atomic_store(&writing_codes, 1);
    int32_t first = text(id, "first"), second = text(id, "second");
    snprintf(codes, sizeof codes, "%d %d", first, second);
    atomic_store(&writing_codes, 0);
    return PDR_OK;
  }
  if (is(call, "keep")) return atomic_store(&kept, id), ready(id);
  if (is(call, "complete_kept")) {
    char answer[32];
    snprintf(answer, sizeof answer, "%d", text(atomic_load(&kept), "late"));
    return text(id, answer);
  }
  if (is(call, "never")) return ready(id);
  if (is(call, "from_thread")) return run_thread(complete_from_thread, (void *)(uintptr_t)id), PDR_OK;
  if (is(call, "after_cancel"))
    return calls->on_cancel(calls->ctx, id, cancelled_callback, NULL), ready(id);
  if (is(call, "poll") || is(call, "linger")) {
    char answer[32];
    ready(id);
    while (!calls->cancelled(calls->ctx, id)) pause_ms(1);
    snprintf(answer, sizeof answer, "%u", calls->cancelled(calls->ctx, id));
    return text(id, answer);
  }
  if (is(call, "junk")) {
    atomic_store(&writing_codes, 1);
    snprintf(codes, sizeof codes, "%d", junk(&easy, id));
    atomic_store(&writing_codes, 0);
    return PDR_OK;
  }
  if (is(call, "fail")) return fail(&easy, id);
  if (is(call, "flood")) return flood(&easy, id);
  if (is(call, "emit_junk")) return emit_junk(id);
  if (is(call, "frames")) return frames(id);
  if (is(call, "op")) return run_op(&easy, id);
  if (is(call, "one_way")) return one_way(id);
  if (is(call, "blob")) return blob(&easy, id);
  if (is(call, "busy")) {
    char answer[32];
    if (atomic_fetch_add(&busy_attempts, 1) < 2) return PDR_E_BUSY;
    snprintf(answer, sizeof answer, "%d", atomic_load(&busy_attempts));
    return text(id, answer);
  }
  if (is(call, "refuse")) return PDR_E_DENIED;
  if (is(call, "refuse_after")) return text(id, "done"), PDR_E_INVALID;
  if (is(call, "slow") || is(call, "slow_unsafe")) return slow(&easy, id);
  if (is(call, "threads")) {
    int i;
    atomic_store(&threads_left, 8);
    for (i = 0; i < 8; i++) run_thread(emit_from_thread, (void *)(uintptr_t)id);
    return PDR_OK;
  }
  if (is(call, "stale")) return stale(id);
  if (is(call, "codes")) {
    while (atomic_load(&writing_codes)) sched_yield();
    return text(id, codes);
  }
  if (is(call, "single")) return single(&easy, id);
  if (is(call, "open_request")) return open_request(&easy, id);
  if (is(call, "watch_gone")) {
    int64_t fd = -1;
    pdr_easy_integer(&easy, "fd", &fd);
    run_thread(watch, (void *)(intptr_t)fd);
    return text(id, "watching");
  }
  return PDR_E_UNSUPPORTED;
}

static void *stop(void *argument) {
  char input[64];
  pdr_id ticket = *(pdr_id *)argument;
  int count = snprintf(input, sizeof input, "{\"ticket\":\"%llu\"}", (unsigned long long)ticket);
  pdr_blob blob = {sizeof blob, 0, (const uint8_t *)input, (size_t)count, {NULL, 0}, NULL, NULL};
  free(argument);
  invoke->start(invoke->ctx, 0, pdr_easy_str("lifecycle.stopped"), &blob, NULL, NULL, NULL);
  return NULL;
}

static int32_t deactivate(void *state, pdr_id ticket, uint64_t deadline) {
  pdr_id *copy = malloc(sizeof *copy);
  (void)state, (void)deadline;
  *copy = ticket;
  run_thread(stop, copy);
  return PDR_OK;
}

PDR_EXPORT int32_t perdure_plugin_1(const pdr_host *host, pdr_plugin *out, pdr_errbuf *err) {
  (void)err;
  if (host->query(host->ctx, pdr_easy_str("perdure.nothing/1"), 0) ||
      host->query(host->ctx, pdr_easy_str(PDR_CALLS_1), 4096))
    return PDR_E_INTERNAL;
  calls = host->query(host->ctx, pdr_easy_str(PDR_CALLS_1), sizeof *calls);
  invoke = host->query(host->ctx, pdr_easy_str(PDR_INVOKE_1), sizeof *invoke);
  out->start = start;
  out->deactivate = deactivate;
  return calls && invoke ? PDR_OK : PDR_E_UNSUPPORTED;
}
