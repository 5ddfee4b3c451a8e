/* Loading, the life of the plugin, and its calls. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "internal.h"

_Atomic int64_t check_own_threads;

int64_t check_now_us(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

int64_t perdure_check_now_ms(void) { return check_now_us() / 1000; }

/* Waits for news under the lock, until then at most. */
void check_wait_news(perdure_check_host *host, int64_t until_us) {
  struct timespec until = {until_us / 1000000, until_us % 1000000 * 1000};
  pthread_cond_timedwait(&host->news, &host->lock, &until);
}

struct body {
  void (*run)(void *);
  void *argument;
};

static void *run_body(void *argument) {
  static _Thread_local char stack[16384];
  stack_t other = {.ss_sp = stack, .ss_size = sizeof stack};
  struct body body = *(struct body *)argument;
  free(argument);
  sigaltstack(&other, NULL);
  body.run(body.argument);
  check_own_threads--;
  return NULL;
}

int check_spawn(void (*run)(void *), void *argument) {
  struct body *body = malloc(sizeof *body);
  pthread_t thread;
  if (!body) return 0;
  body->run = run, body->argument = argument;
  check_own_threads++;
  if (pthread_create(&thread, NULL, run_body, body)) {
    check_own_threads--;
    free(body);
    return 0;
  }
  pthread_detach(thread);
  return 1;
}

/* ------------------------------------------------------------ loading */

perdure_check_host *perdure_check_open(const char *path, const perdure_check_options *options,
                                       char *message, size_t capacity) {
  perdure_check_host *host;
  pthread_condattr_t attributes;
  void *library;
  check_enter_code("load");
  library = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (!library) {
    snprintf(message, capacity, "%s", dlerror());
    return NULL;
  }
  host = calloc(1, sizeof *host);
  if (!host) abort();
  host->options = *options;
  host->entry = (int32_t(*)(const pdr_host *, pdr_plugin *, pdr_errbuf *))dlsym(library, PDR_ENTRY_SYMBOL);
  if (!host->entry) {
    snprintf(message, capacity, "it does not export " PDR_ENTRY_SYMBOL);
    free(host);
    return NULL;
  }
  pthread_mutex_init(&host->lock, NULL);
  pthread_condattr_init(&attributes);
  pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
  pthread_cond_init(&host->news, &attributes);
  host->requests = calloc(CHECK_REQUESTS, sizeof *host->requests);
  if (!host->requests) abort();
  check_lend_tables(host);
  return host;
}

/* One function of the plugin's life, on a thread of its own. */
struct step {
  perdure_check_host *host;
  int kind; /* 0 entry, 1 activate, 2 deactivate, 3 destroy, 4 query */
  const char *name;
  uint32_t least;
  int32_t result;
  pdr_errbuf err;
  int is_done;
};

static void run_step(void *argument) {
  static const char *const names[] = {"entry", "activate", "deactivate", "destroy", "query"};
  struct step *step = argument;
  perdure_check_host *host = step->host;
  int32_t result = 0;
  check_enter_code(names[step->kind]);
  switch (step->kind) {
  case 0:
    check_is_entering = 1;
    result = host->entry(host->lent, host->plugin, &step->err);
    check_is_entering = 0;
    break;
  case 1: result = host->code.activate(host->code.state, &step->err); break;
  case 2:
    result = host->code.deactivate(host->code.state, host->ticket,
                                   (uint64_t)(check_now_us() + 5000000) * 1000);
    break;
  case 3: host->code.destroy(host->code.state); break;
  default: {
    pdr_str name = {(const uint8_t *)step->name, strlen(step->name)};
    result = host->code.query(host->code.state, name, step->least) != NULL;
  }
  }
  pthread_mutex_lock(&host->lock);
  step->result = result;
  step->is_done = 1;
  pthread_cond_broadcast(&host->news);
  pthread_mutex_unlock(&host->lock);
}

static struct step *new_step(perdure_check_host *host, int kind) {
  struct step *step = calloc(1, sizeof *step);
  if (!step) abort();
  step->host = host, step->kind = kind;
  return step;
}

/* Runs the step; frees it if it came to an end. */
static int32_t take(perdure_check_host *host, struct step *step, int64_t limit_ms, char *message,
                    size_t capacity) {
  static const char zeros[512];
  int64_t until = check_now_us() + limit_ms * 1000;
  check_loan text = check_lend(zeros, sizeof zeros, 1, "the buffer for an error");
  int32_t result;
  if (text.pages) mprotect(text.pages, text.size, PROT_READ | PROT_WRITE);
  step->err = (pdr_errbuf){sizeof step->err, 0, (uint8_t *)text.bytes, sizeof zeros, 0};
  if (!check_spawn(run_step, step)) abort();
  pthread_mutex_lock(&host->lock);
  while (!step->is_done && check_now_us() < until) check_wait_news(host, until);
  result = step->is_done ? step->result : PERDURE_CHECK_HUNG;
  pthread_mutex_unlock(&host->lock);
  if (result == PERDURE_CHECK_HUNG) return result; /* what it may still use stays */
  if (message && capacity) {
    size_t length = step->err.len < sizeof zeros ? step->err.len : sizeof zeros;
    if (step->err.len > sizeof zeros)
      check_offend(host, "it says that it wrote %zu bytes of an error to %zu", step->err.len, sizeof zeros);
    if (length >= capacity) length = capacity - 1;
    memcpy(message, text.bytes, length);
    message[length] = 0;
  }
  check_take_back(&text);
  free(step);
  return result;
}

static int32_t take_step(perdure_check_host *host, int kind, int64_t limit_ms, char *message,
                         size_t capacity) {
  return take(host, new_step(host, kind), limit_ms, message, capacity);
}

int32_t perdure_check_query(perdure_check_host *host, const char *name, uint32_t least,
                            int64_t limit_ms) {
  struct step *step;
  if (!host->code.query) return 0;
  step = new_step(host, 4);
  step->name = name, step->least = least;
  return take(host, step, limit_ms, NULL, 0);
}

int32_t perdure_check_enter(perdure_check_host *host, int64_t limit_ms, char *message, size_t capacity) {
  static const uint8_t zeros[256];
  size_t size = host->options.plugin_size ? host->options.plugin_size
                                          : sizeof(pdr_plugin) + (host->options.later_version ? 64 : 0);
  check_loan loan = check_lend(zeros, size, 1, "pdr_plugin");
  size_t known, at;
  uint32_t stated = (uint32_t)size;
  int32_t result;
  if (loan.pages) mprotect(loan.pages, loan.size, PROT_READ | PROT_WRITE);
  host->plugin = (pdr_plugin *)loan.bytes;
  memcpy(host->plugin, &stated, sizeof stated);
  result = take_step(host, 0, limit_ms, message, capacity);
  if (result == PERDURE_CHECK_HUNG) return result;
  known = size < sizeof host->code ? size : sizeof host->code;
  memset(&host->code, 0, sizeof host->code);
  memcpy(&host->code, host->plugin, known);
  for (at = sizeof host->code; at < size; at++)
    if (loan.bytes[at]) {
      check_offend(host, "it filled in members of pdr_plugin that version 1.0 does not have");
      break;
    }
  if (result == PDR_OK && host->code.size > size)
    check_offend(host, "it raised pdr_plugin.size, which the host owns");
  if (result == PDR_OK && (host->code.flags & PDR_MUST_UNDERSTAND))
    check_offend(host, "it set flags of pdr_plugin that no host knows");
  if (result == PDR_OK && known >= offsetof(pdr_plugin, deactivate) && !host->code.start)
    check_offend(host, "it has no start function");
  return result;
}

int32_t perdure_check_activate(perdure_check_host *host, int64_t limit_ms, char *message,
                               size_t capacity) {
  if (capacity) message[0] = 0;
  return host->code.activate ? take_step(host, 1, limit_ms, message, capacity) : PDR_OK;
}

int32_t perdure_check_deactivate(perdure_check_host *host, int64_t limit_ms) {
  if (!host->code.deactivate) return 1;
  pthread_mutex_lock(&host->lock);
  host->ticket = 0x1122334400000000u + (uint64_t)(check_now_us() & 0xFFFFFFFF);
  pthread_mutex_unlock(&host->lock);
  return take_step(host, 2, limit_ms, NULL, 0);
}

int32_t perdure_check_stopped(perdure_check_host *host, int64_t limit_ms) {
  int64_t until = check_now_us() + limit_ms * 1000;
  int32_t is_stopped;
  pthread_mutex_lock(&host->lock);
  while (!host->is_stopped && check_now_us() < until) check_wait_news(host, until);
  is_stopped = host->is_stopped;
  pthread_mutex_unlock(&host->lock);
  return is_stopped;
}

int32_t perdure_check_destroy(perdure_check_host *host, int64_t limit_ms) {
  int32_t result = host->code.destroy ? take_step(host, 3, limit_ms, NULL, 0) : PDR_OK;
  pthread_mutex_lock(&host->lock);
  host->is_destroyed = 1;
  pthread_cond_broadcast(&host->news);
  pthread_mutex_unlock(&host->lock);
  return result;
}

/* ------------------------------------------------------------ calls */

static void run_call(void *argument) {
  check_call *call = argument;
  perdure_check_host *host = call->host;
  int64_t began = check_now_us();
  int32_t result;
  check_enter_code(call->target);
  result = host->code.start(host->code.state, (const pdr_call *)call->frame.bytes);
  check_take_back(&call->frame);
  check_take_back(&call->blob);
  check_take_back(&call->name);
  check_take_back(&call->input);
  pthread_mutex_lock(&host->lock);
  call->seen.has_returned = 1;
  call->seen.accepted = result;
  call->seen.start_us = check_now_us() - began;
  if (result > 0)
    check_offend_locked(host, "start returned %d for %s, which is neither 0 nor a code", result,
                        call->target);
  if (result && call->is_over)
    check_offend_locked(host, "it completed %s and then refused it", call->target);
  if (result) call->is_over = 1, check_end_requests(host, call->id);
  pthread_cond_broadcast(&host->news);
  pthread_mutex_unlock(&host->lock);
}

static void lend_call(check_call *call, const char *target, const uint8_t *input, size_t length,
                      int64_t deadline_ms) {
  const perdure_check_options *options = &call->host->options;
  struct {
    pdr_call call;
    uint8_t more[16];
  } frame;
  pdr_blob blob;
  int guards = options->guards != 0;
  char what[96];
  snprintf(what, sizeof what, "the input of %.64s", target);
  call->input = check_lend(input, length, guards, what);
  snprintf(what, sizeof what, "the name %.64s", target);
  call->name = check_lend(target, strlen(target), guards, what);
  memset(&blob, 0, sizeof blob);
  blob.size = sizeof blob;
  blob.flags = options->later_version ? 0x4000u : 0;
  blob.ptr = call->input.bytes;
  blob.len = length;
  call->blob = check_lend(&blob, sizeof blob, guards, "a pdr_blob");
  memset(&frame, 0x5A, sizeof frame);
  memset(&frame.call, 0, sizeof frame.call);
  frame.call.size = options->short_call      ? offsetof(pdr_call, deadline_ns)
                    : options->later_version ? sizeof frame
                                             : sizeof frame.call;
  frame.call.flags = options->later_version ? 0x4000u : 0;
  frame.call.id = call->id;
  frame.call.target = (pdr_str){call->name.bytes, strlen(target)};
  frame.call.input = (const pdr_blob *)call->blob.bytes;
  if (deadline_ms >= 0) frame.call.deadline_ns = (uint64_t)(check_now_us() + deadline_ms * 1000) * 1000;
  call->frame = check_lend(&frame, frame.call.size, guards || options->short_call, "a pdr_call");
}

uint64_t perdure_check_start(perdure_check_host *host, const char *target, const uint8_t *input,
                             size_t length, int64_t deadline_ms, uint32_t cancel_first) {
  check_call *call = calloc(1, sizeof *call);
  if (!call || host->call_count >= CHECK_CALLS) abort();
  call->host = host;
  snprintf(call->target, sizeof call->target, "%s", target);
  call->cancelled = cancel_first;
  call->credit = host->options.starves ? 0 : CHECK_CREDIT;
  pthread_mutex_lock(&host->lock);
  host->calls[host->call_count++] = call;
  call->id = ((uint64_t)(++host->generation) << 32) | host->call_count;
  pthread_mutex_unlock(&host->lock);
  lend_call(call, target, input, length, deadline_ms);
  call->began_us = check_now_us();
  if (!check_spawn(run_call, call)) abort();
  return call->id;
}

/* Waits under the lock until the call is that far. */
static int32_t wait_for(perdure_check_host *host, uint64_t id, int64_t limit_ms, int output_counts) {
  int64_t until = check_now_us() + limit_ms * 1000;
  int32_t is_so = 0;
  pthread_mutex_lock(&host->lock);
  for (;;) {
    check_call *call = check_find(host, id);
    is_so = !call || (call->is_over && (call->seen.has_returned || output_counts)) ||
            (output_counts && call->seen.output > 0);
    if (is_so || check_now_us() >= until) break;
    check_wait_news(host, until);
  }
  pthread_mutex_unlock(&host->lock);
  return is_so;
}

int32_t perdure_check_wait(perdure_check_host *host, uint64_t call, int64_t limit_ms) {
  return wait_for(host, call, limit_ms, 0);
}

int32_t perdure_check_wait_output(perdure_check_host *host, uint64_t call, int64_t limit_ms) {
  return wait_for(host, call, limit_ms, 1);
}

perdure_check_call perdure_check_look(perdure_check_host *host, uint64_t id) {
  perdure_check_call seen = {0};
  check_call *call;
  pthread_mutex_lock(&host->lock);
  call = check_find(host, id);
  if (call) seen = call->seen;
  pthread_mutex_unlock(&host->lock);
  return seen;
}

const uint8_t *perdure_check_value(perdure_check_host *host, uint64_t id, size_t *length) {
  check_call *call = check_find(host, id);
  *length = call ? call->length : 0;
  return call ? call->value : NULL;
}

const char *perdure_check_media_type(perdure_check_host *host, uint64_t id) {
  check_call *call = check_find(host, id);
  return call ? call->media_type : "";
}

const char *perdure_check_error(perdure_check_host *host, uint64_t id) {
  check_call *call = check_find(host, id);
  return call ? call->error : "";
}

const char *perdure_check_detail(perdure_check_host *host, uint64_t id) {
  check_call *call = check_find(host, id);
  return call ? call->detail : "";
}

const char *perdure_check_offence(perdure_check_host *host, size_t index) {
  const char *offence;
  pthread_mutex_lock(&host->lock);
  offence = index < host->offence_count ? host->offences[index] : NULL;
  pthread_mutex_unlock(&host->lock);
  return offence;
}

void perdure_check_places(perdure_check_host *host, uintptr_t *state, uintptr_t *start) {
  *state = (uintptr_t)host->code.state;
  *start = (uintptr_t)host->code.start;
}

/* ------------------------------------------------------------ results of operations */

static const char *result_of(const check_request *request) {
  if (!strcmp(request->op, "clock") || !strcmp(request->op, "timer.wait"))
    return "{\"now\":1700000000000}";
  if (!strcmp(request->op, "next"))
    return "{\"output\":[{\"type\":\"text\",\"text\":\"inner\"}],\"text\":\"inner\"}";
  if (!strcmp(request->op, "output.flush") || !strcmp(request->op, "log") ||
      !strcmp(request->op, "report") || !strcmp(request->op, "lifecycle.stopped"))
    return "{}";
  return NULL;
}

static void deliver(perdure_check_host *host, const check_request *request) {
  const char *text = request->status ? NULL : result_of(request);
  int guards = host->options.guards != 0;
  char target[96];
  snprintf(target, sizeof target, "done:%s", request->op);
  check_enter_code(target);
  if (text) {
    check_loan loan = check_lend(text, strlen(text), guards, "the result of an operation");
    pdr_blob blob;
    memset(&blob, 0, sizeof blob);
    blob.size = sizeof blob;
    blob.ptr = loan.bytes;
    blob.len = strlen(text);
    request->done(request->arg, request->id, PDR_OK, &blob, NULL);
    check_take_back(&loan);
  } else {
    static const char message[] = "this host checks plugins and does not do this";
    static const char detail[] = "{\"reason\":\"op\"}";
    check_loan loan = check_lend(message, sizeof message - 1, guards, "the error of an operation");
    int32_t code = request->status ? request->status : PDR_E_UNSUPPORTED;
    pdr_err err = {sizeof err, code, 0, 0, {loan.bytes, sizeof message - 1},
                   {(const uint8_t *)detail, sizeof detail - 1}};
    request->done(request->arg, request->id, code, NULL, &err);
    check_take_back(&loan);
  }
}

static void dispatch(void *argument) {
  perdure_check_host *host = argument;
  pthread_mutex_lock(&host->lock);
  for (;;) {
    int64_t now = perdure_check_now_ms(), next = now + 1000;
    size_t index;
    int has_open = 0;
    for (index = 0; index < host->request_count; index++) {
      check_request *request = &host->requests[index];
      check_request copy;
      if (!request->is_open) continue;
      has_open = 1;
      if (request->due_ms > now) {
        if (request->due_ms < next) next = request->due_ms;
        continue;
      }
      request->is_open = 0;
      copy = *request;
      pthread_mutex_unlock(&host->lock);
      deliver(host, &copy);
      pthread_mutex_lock(&host->lock);
      next = now;
    }
    if (!has_open && host->is_destroyed) break;
    if (next > now) check_wait_news(host, next * 1000);
  }
  host->has_dispatcher = 0;
  pthread_mutex_unlock(&host->lock);
}

void check_dispatch(perdure_check_host *host) {
  if (!host->has_dispatcher) host->has_dispatcher = check_spawn(dispatch, host);
}
