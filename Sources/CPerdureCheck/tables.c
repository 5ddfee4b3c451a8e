/* The tables that the plugin is lent, with every use watched. */
#define _GNU_SOURCE
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"

_Thread_local int check_is_releasing;
_Thread_local int check_is_entering;

static void offend(perdure_check_host *host, const char *format, va_list arguments) {
  char *text = NULL;
  if (host->offence_count >= CHECK_OFFENCES) return;
  if (vasprintf(&text, format, arguments) >= 0) host->offences[host->offence_count++] = text;
}

void check_offend_locked(perdure_check_host *host, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  offend(host, format, arguments);
  va_end(arguments);
}

void check_offend(perdure_check_host *host, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  pthread_mutex_lock(&host->lock);
  offend(host, format, arguments);
  pthread_mutex_unlock(&host->lock);
  va_end(arguments);
}

check_call *check_find(perdure_check_host *host, pdr_id id) {
  size_t slot = (size_t)(id & 0xFFFFFFFFu);
  return slot >= 1 && slot <= host->call_count && host->calls[slot - 1]->id == id
             ? host->calls[slot - 1]
             : NULL;
}

/* What every function does first: 0, or what to answer. */
static int32_t admit(perdure_check_host *host, const char *function) {
  if (check_is_releasing) check_offend(host, "it called %s from a release function", function);
  if (check_is_entering) check_offend(host, "it called %s from its entry function", function);
  if (!host->is_destroyed) return PDR_OK;
  check_offend(host, "it called %s after it was destroyed", function);
  return PDR_E_GONE;
}

static void release(void *argument) {
  pdr_blob *blob = argument;
  check_is_releasing = 1;
  blob->release(blob->owner);
  check_is_releasing = 0;
}

struct handed {
  pdr_blob blob;
  pthread_mutex_t lock;
  pthread_cond_t news;
  int is_done;
};

static void release_there(void *argument) {
  struct handed *handed = argument;
  release(&handed->blob);
  pthread_mutex_lock(&handed->lock);
  handed->is_done = 1;
  pthread_cond_signal(&handed->news);
  pthread_mutex_unlock(&handed->lock);
}

/* Releases a blob that was handed over: once, on a thread that the plugin has never seen. */
static void give_back(pdr_blob blob) {
  struct handed handed = {.blob = blob};
  if (!blob.release) return;
  pthread_mutex_init(&handed.lock, NULL);
  pthread_cond_init(&handed.news, NULL);
  if (check_spawn(release_there, &handed)) {
    pthread_mutex_lock(&handed.lock);
    while (!handed.is_done) pthread_cond_wait(&handed.news, &handed.lock);
    pthread_mutex_unlock(&handed.lock);
  } else {
    release(&blob);
  }
}

/* Takes over what of a blob is there; whether it is fit to be read. */
static int take(perdure_check_host *host, const pdr_blob *from, const char *what, pdr_blob *into) {
  memset(into, 0, sizeof *into);
  if (!from) return 1;
  if (from->size < offsetof(pdr_blob, media_type)) {
    check_offend(host, "it passed %s whose size says %u", what, from->size);
    return 0;
  }
  memcpy(into, from, from->size < sizeof *into ? from->size : sizeof *into);
  if (into->flags & PDR_MUST_UNDERSTAND) {
    check_offend(host, "it passed %s with flags that no host knows", what);
    return 0;
  }
  if (into->len == PDR_ABSENT) into->len = 0;
  if (into->len > 0 && !into->ptr) {
    check_offend(host, "it passed %s of %zu bytes at a null pointer", what, into->len);
    return 0;
  }
  if (into->len > (256u << 20)) {
    check_offend(host, "it passed %s of %zu bytes, more than any host takes", what, into->len);
    return 0;
  }
  return 1;
}

static void copy_text(char *into, size_t capacity, pdr_str from) {
  size_t length = from.len == PDR_ABSENT || !from.ptr ? 0 : from.len;
  if (length >= capacity) length = capacity - 1;
  if (length) memcpy(into, from.ptr, length);
  into[length] = 0;
}

/* Whether the bytes are UTF-8: no overlong forms, no surrogates, nothing beyond U+10FFFF. */
static int is_utf8(const uint8_t *at, size_t length) {
  const uint8_t *end = at + length;
  while (at < end) {
    size_t more, i;
    uint32_t code;
    if (*at < 0x80) {
      at++;
      continue;
    }
    more = *at >= 0xF0 ? 3 : *at >= 0xE0 ? 2 : 1;
    if (*at < 0xC2 || *at > 0xF4 || (size_t)(end - at) <= more) return 0;
    code = *at & (0x3Fu >> more);
    for (i = 1; i <= more; i++) {
      if ((at[i] & 0xC0) != 0x80) return 0;
      code = code << 6 | (at[i] & 0x3Fu);
    }
    if (code < (more == 1 ? 0x80u : more == 2 ? 0x800u : 0x10000u) || code > 0x10FFFF ||
        (code >= 0xD800 && code <= 0xDFFF))
      return 0;
    at += more + 1;
  }
  return 1;
}

static int32_t complete(void *ctx, pdr_id id, int32_t status, const pdr_blob *value,
                        const pdr_err *err) {
  perdure_check_host *host = ctx;
  int32_t answer = admit(host, "calls.complete");
  pdr_blob blob;
  check_call *call;
  int fits = take(host, value, "a value", &blob);
  pthread_mutex_lock(&host->lock);
  call = check_find(host, id);
  if (answer) {
  } else if (!call) {
    check_offend_locked(host, "it completed the call %llu, which was never made",
                        (unsigned long long)id);
    answer = PDR_E_STALE;
  } else if (call->is_over) {
    call->seen.completions++;
    check_offend_locked(host,
                        call->seen.completions > 1 ? "it completed %s more than once"
                                                   : "it completed %s, which it had refused",
                        call->target);
    answer = PDR_E_STALE;
  } else if (host->is_stopped) {
    check_offend_locked(host, "it completed %s after it had said that it was stopped", call->target);
  }
  if (call && !call->is_over && !host->is_destroyed) {
    call->is_over = 1;
    call->seen.completions = 1;
    call->seen.status = status;
    call->seen.ended_us = check_now_us() - call->began_us;
    if (status > 0) check_offend_locked(host, "it completed %s with the status %d", call->target, status);
    if (fits && blob.len) {
      call->value = malloc(blob.len);
      if (call->value) memcpy(call->value, blob.ptr, blob.len), call->length = blob.len;
    }
    copy_text(call->media_type, sizeof call->media_type, blob.media_type);
    if (err) {
      pdr_err known;
      memset(&known, 0, sizeof known);
      if (err->size < offsetof(pdr_err, message))
        check_offend_locked(host, "it passed an error whose size says %u", err->size);
      else
        memcpy(&known, err, err->size < sizeof known ? err->size : sizeof known);
      copy_text(call->error, sizeof call->error, known.message);
      if (known.message.ptr && known.message.len != PDR_ABSENT &&
          !is_utf8(known.message.ptr, known.message.len))
        check_offend_locked(host, "its error of %s is no UTF-8", call->target);
      copy_text(call->detail, sizeof call->detail, known.detail);
    }
    check_end_requests(host, id);
    pthread_cond_broadcast(&host->news);
  }
  pthread_mutex_unlock(&host->lock);
  give_back(blob);
  return answer;
}

static int is_bytes(pdr_str media_type) {
  static const char name[] = PDR_MEDIA_BYTES;
  return media_type.len == sizeof name - 1 && media_type.ptr && !memcmp(media_type.ptr, name, sizeof name - 1);
}

static int takes_output(const check_call *call) {
  return !strncmp(call->target, "tool:", 5) || !strncmp(call->target, "wrap:tool:", 10);
}

static int32_t emit(void *ctx, pdr_id id, const pdr_blob *chunk) {
  perdure_check_host *host = ctx;
  int32_t answer = admit(host, "calls.emit");
  pdr_blob blob;
  check_call *call;
  int fits = take(host, chunk, "a frame", &blob);
  pthread_mutex_lock(&host->lock);
  call = check_find(host, id);
  if (answer) {
  } else if (!call || call->is_over) {
    answer = PDR_E_STALE;
  } else if (!takes_output(call)) {
    check_offend_locked(host, "it emitted output for %s, which has none", call->target);
    answer = PDR_E_INVALID;
  } else if (!fits || blob.len > CHECK_CREDIT) {
    answer = fits ? PDR_E_INVALID : PDR_E_ENCODING;
  } else if (!is_bytes(blob.media_type) && !is_utf8(blob.ptr, blob.len)) {
    check_offend_locked(host, "it emitted for %s text that is no UTF-8", call->target);
    answer = PDR_E_ENCODING;
  } else if (blob.len > call->credit) {
    if (++call->blocked == 2000)
      check_offend_locked(host, "it went on to emit for %s 2000 times without credit", call->target);
    answer = PDR_E_WOULD_BLOCK;
  } else {
    call->seen.output += blob.len;
    if (host->options.starves) call->credit -= blob.len;
    pthread_cond_broadcast(&host->news);
  }
  pthread_mutex_unlock(&host->lock);
  give_back(blob);
  return answer;
}

static int32_t credit(void *ctx, pdr_id id, uint64_t *left) {
  perdure_check_host *host = ctx;
  int32_t answer = admit(host, "calls.credit");
  check_call *call;
  if (answer) return answer;
  pthread_mutex_lock(&host->lock);
  call = check_find(host, id);
  if (!call || call->is_over) answer = PDR_E_STALE;
  else if (left) *left = call->credit;
  pthread_mutex_unlock(&host->lock);
  return answer;
}

static uint32_t cancelled(void *ctx, pdr_id id) {
  perdure_check_host *host = ctx;
  check_call *call;
  uint32_t reason;
  if (admit(host, "calls.cancelled")) return PDR_CANCEL_DRAIN;
  pthread_mutex_lock(&host->lock);
  call = check_find(host, id);
  reason = !call || call->is_over ? PDR_CANCEL_OBSOLETE : call->cancelled;
  pthread_mutex_unlock(&host->lock);
  return reason;
}

struct told {
  perdure_check_host *host;
  pdr_id call;
};

static void tell_cancelled(void *argument) {
  struct told *told = argument;
  pdr_cancel_fn callback = NULL;
  void *callback_arg = NULL;
  uint32_t reason = 0;
  check_call *call;
  pthread_mutex_lock(&told->host->lock);
  call = check_find(told->host, told->call);
  if (call && !call->is_over) {
    callback = call->on_cancel, callback_arg = call->on_cancel_arg, reason = call->cancelled;
    call->on_cancel = NULL;
  }
  pthread_mutex_unlock(&told->host->lock);
  if (callback) {
    check_enter_code("on_cancel");
    callback(callback_arg, told->call, reason);
  }
  free(told);
}

static void tell(perdure_check_host *host, pdr_id id) {
  struct told *told = malloc(sizeof *told);
  if (!told) return;
  told->host = host, told->call = id;
  if (!check_spawn(tell_cancelled, told)) free(told);
}

static int32_t on_cancel(void *ctx, pdr_id id, pdr_cancel_fn fn, void *arg) {
  perdure_check_host *host = ctx;
  int32_t answer = admit(host, "calls.on_cancel");
  check_call *call;
  int follows = 0;
  if (answer) return answer;
  pthread_mutex_lock(&host->lock);
  call = check_find(host, id);
  if (!call || call->is_over) {
    answer = PDR_E_STALE;
  } else {
    call->on_cancel = fn, call->on_cancel_arg = arg;
    follows = fn && call->cancelled;
  }
  pthread_mutex_unlock(&host->lock);
  if (follows) tell(host, id);
  return answer;
}

void perdure_check_cancel(perdure_check_host *host, uint64_t id, uint32_t reason) {
  check_call *call;
  int follows = 0;
  pthread_mutex_lock(&host->lock);
  call = check_find(host, id);
  if (call && !call->is_over && !call->cancelled) {
    call->cancelled = reason;
    check_end_requests(host, id);
    follows = 1;
  }
  pthread_mutex_unlock(&host->lock);
  if (follows) tell(host, id);
}

/* The number of milliseconds that timer.wait asks for. */
static int64_t delay(pdr_blob input) {
  char text[256];
  const char *at;
  copy_text(text, sizeof text, (pdr_str){input.ptr, input.len});
  at = strstr(text, "\"ms\"");
  if (!at) return 0;
  at += 4;
  while (*at == ' ' || *at == ':') at++;
  return strtoll(at, NULL, 10);
}

static int is_stopped(perdure_check_host *host, pdr_blob input) {
  char text[256], number[32];
  copy_text(text, sizeof text, (pdr_str){input.ptr, input.len});
  snprintf(number, sizeof number, "\"%llu\"", (unsigned long long)host->ticket);
  return host->ticket && strstr(text, number) != NULL;
}

static int32_t prepare(perdure_check_host *host, check_request *request, pdr_blob input,
                       check_call *call) {
  if (!strcmp(request->op, "lifecycle.stopped")) {
    if (!is_stopped(host, input)) {
      check_offend_locked(host, "it answered lifecycle.stopped with a ticket that it was not given");
    } else if (host->is_stopped) {
      check_offend_locked(host, "it said twice that it was stopped");
    } else {
      host->is_stopped = 1;
      pthread_cond_broadcast(&host->news);
    }
    return PDR_OK;
  }
  if (host->options.operations == 2) return PDR_E_BUSY;
  if (host->options.operations == 1) request->status = PDR_E_INTERNAL;
  if (!strcmp(request->op, "timer.wait") && !request->status)
    request->due_ms += delay(input);
  if (!strcmp(request->op, "output.flush") && call) call->credit = CHECK_CREDIT, call->blocked = 0;
  return PDR_OK;
}

static int32_t start(void *ctx, pdr_id within, pdr_str op, const pdr_blob *input, pdr_done done,
                     void *arg, pdr_id *out) {
  perdure_check_host *host = ctx;
  int32_t answer = admit(host, "invoke.start");
  check_request *request;
  check_call *call = NULL;
  pdr_blob blob;
  char name[64];
  int fits = take(host, input, "an input of an operation", &blob);
  if (!answer && !fits) answer = PDR_E_ENCODING;
  copy_text(name, sizeof name, op);
  if (!answer && !done && strcmp(name, "log") && strcmp(name, "report") &&
      strcmp(name, "lifecycle.stopped"))
    answer = PDR_E_INVALID;
  pthread_mutex_lock(&host->lock);
  if (!answer && within) {
    call = check_find(host, within);
    if (!call || call->is_over) answer = PDR_E_STALE;
    else call->seen.operations++;
  }
  if (!answer && host->request_count >= CHECK_REQUESTS) answer = PDR_E_BUSY;
  if (!answer) {
    request = &host->requests[host->request_count];
    memset(request, 0, sizeof *request);
    snprintf(request->op, sizeof request->op, "%s", name);
    request->due_ms = perdure_check_now_ms();
    answer = prepare(host, request, blob, call);
    if (!answer) {
      request->id = ((pdr_id)1 << 40) | ++host->request_count;
      request->call = within, request->done = done, request->arg = arg;
      request->is_open = done != NULL;
      if (call && call->cancelled) request->status = PDR_E_CANCELLED, request->due_ms = 0;
      if (out) *out = request->id;
      check_dispatch(host);
      pthread_cond_broadcast(&host->news);
    }
  }
  pthread_mutex_unlock(&host->lock);
  give_back(blob);
  return answer;
}

static int32_t cancel(void *ctx, pdr_id id) {
  perdure_check_host *host = ctx;
  int32_t answer = admit(host, "invoke.cancel");
  size_t index = (size_t)(id & 0xFFFFFFFFu) - 1;
  if (answer) return answer;
  pthread_mutex_lock(&host->lock);
  if (id >> 40 != 1 || index >= host->request_count || !host->requests[index].is_open) {
    answer = PDR_E_STALE;
  } else {
    host->requests[index].status = PDR_E_CANCELLED;
    host->requests[index].due_ms = 0;
    pthread_cond_broadcast(&host->news);
  }
  pthread_mutex_unlock(&host->lock);
  return answer;
}

void check_end_requests(perdure_check_host *host, pdr_id call) {
  size_t index;
  for (index = 0; index < host->request_count; index++) {
    check_request *request = &host->requests[index];
    if (!request->is_open || request->call != call) continue;
    request->status = PDR_E_CANCELLED;
    request->due_ms = 0;
  }
  pthread_cond_broadcast(&host->news);
}

static const void *query(void *ctx, pdr_str name, uint32_t least) {
  perdure_check_host *host = ctx;
  char text[64];
  if (host->is_destroyed) check_offend(host, "it called host.query after it was destroyed");
  copy_text(text, sizeof text, name);
  if (!strcmp(text, PDR_CALLS_1) && !host->options.hides_calls)
    return least <= host->calls_table->size ? host->calls_table : NULL;
  if (!strcmp(text, PDR_INVOKE_1) && !host->options.hides_invoke)
    return least <= host->invoke_table->size ? host->invoke_table : NULL;
  return NULL;
}

/* Tables are longer than this version knows when the host is a later one; the rest of them is junk
 * that nobody may call. */
void check_lend_tables(perdure_check_host *host) {
  size_t more = host->options.later_version ? 64 : 0;
  host->lent = calloc(1, sizeof *host->lent + more);
  host->calls_table = calloc(1, sizeof *host->calls_table + more);
  host->invoke_table = calloc(1, sizeof *host->invoke_table + more);
  if (!host->lent || !host->calls_table || !host->invoke_table) abort();
  *host->lent = (pdr_host){(uint32_t)(sizeof *host->lent + more), more ? 7u : PDR_ABI_MINOR, host, query};
  *host->calls_table = (pdr_calls_1){(uint32_t)(sizeof *host->calls_table + more), 0, host, complete,
                                     emit, credit, cancelled, on_cancel};
  *host->invoke_table =
      (pdr_invoke_1){(uint32_t)(sizeof *host->invoke_table + more), 0, host, start, cancel};
  if (more) {
    memset((uint8_t *)host->lent + sizeof *host->lent, 0x5A, more);
    memset((uint8_t *)host->calls_table + sizeof *host->calls_table, 0x5A, more);
    memset((uint8_t *)host->invoke_table + sizeof *host->invoke_table, 0x5A, more);
  }
}
