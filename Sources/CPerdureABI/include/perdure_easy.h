/*
 * perdure_easy.h - plugins in C with a few lines each, on top of perdure.h. MIT licence.
 *
 *   #include "perdure_easy.h"
 *
 *   PDR_PLUGIN_NOTE("c");
 *   PDR_MANIFEST("{...one tool named greet with a string argument \"name\"...}");
 *
 *   static int32_t greet(pdr_easy_call *call) {
 *     char name[64];
 *     if (!pdr_easy_string(call, "name", name, sizeof name))
 *       return pdr_easy_fail(call, "greet: the argument name must be a string below 64 bytes");
 *     return pdr_easy_answerf(call, "Hello, %s!", name);
 *   }
 *
 *   PDR_EASY_PLUGIN({"greet", greet})
 *
 * Sections, hooks, wraps and phases of tasks stand in the same list, under their whole targets:
 *
 *   static int32_t check(pdr_easy_call *call) {
 *     pdr_str tool;
 *     if (!pdr_easy_member(pdr_easy_input(call), "call", &tool)) return pdr_easy_nothing(call);
 *     return is_bad(tool) ? pdr_easy_deny(call, "that is not allowed here") : pdr_easy_nothing(call);
 *   }
 *
 *   PDR_EASY_PLUGIN({"greet", greet}, {"hook:beforeTool", check}, {"wrap:tool:read", pdr_easy_pass})
 *
 * A function runs inside pdr_plugin.start: it takes at most 50 ms, or its manifest says blocking: true.
 * It answers exactly once and returns what the answering function returned; if it returns without an
 * answer, the call fails with a sentence saying so.
 * Nothing here allocates. Arguments are read in place and only at their top level.
 */
#ifndef PERDURE_EASY_H
#define PERDURE_EASY_H

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "perdure.h"

#if defined(__GNUC__) || defined(__clang__)
#define PDR_EASY_FORMAT_(text, rest) __attribute__((format(printf, text, rest)))
#else
#define PDR_EASY_FORMAT_(text, rest)
#endif

/* The call that a function is running; valid until the function returns. */
typedef struct pdr_easy_call {
  const pdr_calls_1 *calls;
  const pdr_call *call;
  pdr_str arguments; /* JSON of the object of arguments; for what has none, of the whole input */
  int answered;
} pdr_easy_call;

/* The tables of the host, for what is answered after the function has returned. */
static struct {
  const pdr_calls_1 *calls;
  const pdr_invoke_1 *invoke;
} pdr_easy_host_;

/* A string argument that is read byte by byte, with the escapes of JSON resolved. */
typedef struct pdr_easy_reader {
  const uint8_t *at;
  const uint8_t *end;
  uint8_t pending[4];
  int pending_at;
  int pending_count;
} pdr_easy_reader;

/* A tool's name in the manifest, or the whole target of something else, and its function. */
typedef struct pdr_easy_tool {
  const char *name;
  int32_t (*run)(pdr_easy_call *call);
} pdr_easy_tool;

static inline pdr_str pdr_easy_str(const char *text) {
  pdr_str str;
  str.ptr = (const uint8_t *)text;
  str.len = text ? strlen(text) : 0;
  return str;
}

/* The JSON of all that the host says about the call. */
static inline pdr_str pdr_easy_input(const pdr_easy_call *call) {
  pdr_str input;
  input.ptr = call->call->input->ptr;
  input.len = call->call->input->len;
  return input;
}

/* ---------------------------------------------------------------- reading JSON */

static inline const uint8_t *pdr_easy_space_(const uint8_t *at, const uint8_t *end) {
  while (at < end && (*at == ' ' || *at == '\t' || *at == '\n' || *at == '\r')) at++;
  return at;
}

/* The place behind the string that begins at at, or null. */
static inline const uint8_t *pdr_easy_after_string_(const uint8_t *at, const uint8_t *end) {
  if (at >= end || *at != '"') return NULL;
  for (at++; at < end; at++) {
    if (*at == '"') return at + 1;
    if (*at == '\\' && ++at >= end) return NULL;
  }
  return NULL;
}

/* The place behind the value that begins at at, or null. */
static inline const uint8_t *pdr_easy_after_value_(const uint8_t *at, const uint8_t *end) {
  size_t depth = 0;
  if (at < end && *at == '"') return pdr_easy_after_string_(at, end);
  while (at < end) {
    uint8_t byte = *at;
    if (byte == '"') {
      at = pdr_easy_after_string_(at, end);
      if (!at) return NULL;
      continue;
    }
    if (byte == '{' || byte == '[') depth++;
    if (byte == '}' || byte == ']') {
      if (depth == 0) return at;
      depth--;
      if (depth == 0) return at + 1;
    }
    if (depth == 0 && (byte == ',' || byte == ' ' || byte == '\n' || byte == '\t' || byte == '\r'))
      return at;
    at++;
  }
  return depth == 0 ? at : NULL;
}

/* Finds the member of a JSON object; 1 and its JSON in value, or 0. The key is compared as it is
 * written, so one with escapes is not found. */
static inline int pdr_easy_member(pdr_str object, const char *key, pdr_str *value) {
  const uint8_t *at = object.ptr, *end;
  size_t key_length = strlen(key);
  if (!at || object.len == PDR_ABSENT) return 0;
  end = at + object.len;
  at = pdr_easy_space_(at, end);
  if (at >= end || *at != '{') return 0;
  at++;
  for (;;) {
    const uint8_t *name, *name_end, *start;
    name = pdr_easy_space_(at, end);
    name_end = pdr_easy_after_string_(name, end);
    if (!name_end) return 0;
    at = pdr_easy_space_(name_end, end);
    if (at >= end || *at != ':') return 0;
    start = pdr_easy_space_(at + 1, end);
    at = pdr_easy_after_value_(start, end);
    if (!at || at == start) return 0;
    if ((size_t)(name_end - name) == key_length + 2 && !memcmp(name + 1, key, key_length)) {
      value->ptr = start;
      value->len = (size_t)(at - start);
      return 1;
    }
    at = pdr_easy_space_(at, end);
    if (at >= end || *at != ',') return 0;
    at++;
  }
}

static inline int pdr_easy_hex_(const uint8_t *at, const uint8_t *end, uint32_t *unit) {
  int i;
  uint32_t sum = 0;
  if (end - at < 4) return 0;
  for (i = 0; i < 4; i++) {
    uint8_t c = at[i];
    uint32_t digit = c >= '0' && c <= '9'   ? (uint32_t)(c - '0')
                     : c >= 'a' && c <= 'f' ? (uint32_t)(c - 'a' + 10)
                     : c >= 'A' && c <= 'F' ? (uint32_t)(c - 'A' + 10)
                                            : 16u;
    if (digit > 15u) return 0;
    sum = sum << 4 | digit;
  }
  *unit = sum;
  return 1;
}

static inline int pdr_easy_queue_(pdr_easy_reader *reader, uint32_t scalar) {
  uint8_t *out = reader->pending;
  int count;
  if (scalar < 0x80) {
    out[0] = (uint8_t)scalar;
    return out[0];
  }
  if (scalar < 0x800) {
    out[0] = (uint8_t)(0xC0 | scalar >> 6);
    out[1] = (uint8_t)(0x80 | (scalar & 0x3F));
    count = 2;
  } else if (scalar < 0x10000) {
    out[0] = (uint8_t)(0xE0 | scalar >> 12);
    out[1] = (uint8_t)(0x80 | (scalar >> 6 & 0x3F));
    out[2] = (uint8_t)(0x80 | (scalar & 0x3F));
    count = 3;
  } else {
    out[0] = (uint8_t)(0xF0 | scalar >> 18);
    out[1] = (uint8_t)(0x80 | (scalar >> 12 & 0x3F));
    out[2] = (uint8_t)(0x80 | (scalar >> 6 & 0x3F));
    out[3] = (uint8_t)(0x80 | (scalar & 0x3F));
    count = 4;
  }
  reader->pending_at = 1;
  reader->pending_count = count;
  return out[0];
}

static inline int pdr_easy_escape_(pdr_easy_reader *reader) {
  uint32_t unit, low;
  uint8_t c;
  if (reader->at >= reader->end) return -1;
  c = *reader->at++;
  if (c == 'n') return '\n';
  if (c == 't') return '\t';
  if (c == 'r') return '\r';
  if (c == 'b') return '\b';
  if (c == 'f') return '\f';
  if (c != 'u') return c;
  if (!pdr_easy_hex_(reader->at, reader->end, &unit)) return -1;
  reader->at += 4;
  if (unit >= 0xD800 && unit < 0xDC00 && reader->end - reader->at >= 6 && reader->at[0] == '\\' &&
      reader->at[1] == 'u' && pdr_easy_hex_(reader->at + 2, reader->end, &low) && low >= 0xDC00 &&
      low < 0xE000) {
    reader->at += 6;
    unit = 0x10000 + ((unit - 0xD800) << 10) + (low - 0xDC00);
  }
  if (unit >= 0xD800 && unit < 0xE000) unit = 0xFFFD; /* a lone surrogate has no UTF-8 */
  return pdr_easy_queue_(reader, unit);
}

/* Finds a member of members of a JSON object, such as "call.arguments.text"; 1 and its JSON in value,
 * or 0. No key on the way may have a dot or 64 bytes. */
static inline int pdr_easy_find(pdr_str object, const char *path, pdr_str *value) {
  char key[64];
  for (;;) {
    size_t length = strcspn(path, ".");
    if (length >= sizeof key) return 0;
    memcpy(key, path, length);
    key[length] = 0;
    if (!pdr_easy_member(object, key, value)) return 0;
    if (!path[length]) return 1;
    object = *value;
    path += length + 1;
  }
}

/* Finds the item of a JSON array; 1 and its JSON in value, or 0 if the array ends before it. */
static inline int pdr_easy_item(pdr_str array, size_t index, pdr_str *value) {
  const uint8_t *at = array.ptr, *end;
  if (!at || array.len == PDR_ABSENT || array.len < 2 || *at != '[') return 0;
  end = at + array.len;
  for (at++;; index--) {
    const uint8_t *start = pdr_easy_space_(at, end);
    at = pdr_easy_after_value_(start, end);
    if (!at || at == start) return 0;
    if (index == 0) {
      value->ptr = start;
      value->len = (size_t)(at - start);
      return 1;
    }
    at = pdr_easy_space_(at, end);
    if (at >= end || *at != ',') return 0;
    at++;
  }
}

/* Opens the JSON of a string, of any length, for pdr_easy_next; 0 if it is no string. */
static inline int pdr_easy_open_value(pdr_str value, pdr_easy_reader *reader) {
  memset(reader, 0, sizeof *reader);
  if (value.len == PDR_ABSENT || value.len < 2 || value.ptr[0] != '"') return 0;
  reader->at = value.ptr + 1;
  reader->end = value.ptr + value.len - 1;
  return 1;
}

/* Opens a string argument of any length for pdr_easy_next; 0 if there is no such string. */
static inline int pdr_easy_open(const pdr_easy_call *call, const char *key,
                                pdr_easy_reader *reader) {
  pdr_str value;
  memset(reader, 0, sizeof *reader);
  return pdr_easy_member(call->arguments, key, &value) && pdr_easy_open_value(value, reader);
}

/* The next byte of the UTF-8 text, or -1 at its end. */
static inline int pdr_easy_next(pdr_easy_reader *reader) {
  uint8_t c;
  if (reader->pending_at < reader->pending_count) return reader->pending[reader->pending_at++];
  if (reader->at >= reader->end) return -1;
  c = *reader->at++;
  return c == '\\' ? pdr_easy_escape_(reader) : c;
}

/* Copies the text of the JSON of a string to buffer, with a NUL behind it; 0 if it is no string, if
 * it does not fit, or if it holds a NUL itself. buffer is empty then. */
static inline int pdr_easy_text(pdr_str value, char *buffer, size_t capacity) {
  pdr_easy_reader reader;
  size_t count = 0;
  int byte;
  if (!buffer || capacity == 0) return 0;
  buffer[0] = 0;
  if (!pdr_easy_open_value(value, &reader)) return 0;
  while ((byte = pdr_easy_next(&reader)) >= 0) {
    if (byte == 0 || count + 1 >= capacity) {
      buffer[0] = 0;
      return 0;
    }
    buffer[count++] = (char)byte;
  }
  buffer[count] = 0;
  return 1;
}

/* The same for an argument. */
static inline int pdr_easy_string(const pdr_easy_call *call, const char *key, char *buffer,
                                  size_t capacity) {
  pdr_str value;
  if (buffer && capacity > 0) buffer[0] = 0;
  return pdr_easy_member(call->arguments, key, &value) && pdr_easy_text(value, buffer, capacity);
}

/* Reads the JSON of an integer; 0, and value untouched, if it is none or out of range. */
static inline int pdr_easy_number(pdr_str text, int64_t *value) {
  size_t i = 0;
  int negative;
  int64_t sum = 0;
  if (text.len == PDR_ABSENT || text.len == 0) return 0;
  negative = text.ptr[0] == '-';
  if (negative) i = 1;
  if (i == text.len) return 0;
  for (; i < text.len; i++) {
    int digit = text.ptr[i] - '0';
    if (digit < 0 || digit > 9) return 0;
    /* Counts downwards, because the smallest integer has no positive twin. */
    if (sum < (INT64_MIN + digit) / 10) return 0;
    sum = sum * 10 - digit;
  }
  if (!negative && sum == INT64_MIN) return 0;
  *value = negative ? sum : -sum;
  return 1;
}

/* Reads an integer argument; 0, and value untouched, if there is none or it is out of range. */
static inline int pdr_easy_integer(const pdr_easy_call *call, const char *key, int64_t *value) {
  pdr_str text;
  return pdr_easy_member(call->arguments, key, &text) && pdr_easy_number(text, value);
}

/* Reads a truth value; 0, and value untouched, if there is none. */
static inline int pdr_easy_boolean(const pdr_easy_call *call, const char *key, int *value) {
  pdr_str text;
  if (!pdr_easy_member(call->arguments, key, &text)) return 0;
  if (text.len == 4 && !memcmp(text.ptr, "true", 4)) return *value = 1, 1;
  if (text.len == 5 && !memcmp(text.ptr, "false", 5)) return *value = 0, 1;
  return 0;
}

/* ---------------------------------------------------------------- answering */

/* Answers with bytes of a media type (PDR_MEDIA_), which are copied. 0 or a PDR_E_ code. */
static inline int32_t pdr_easy_complete(pdr_easy_call *call, const char *media_type,
                                        const void *bytes, size_t length) {
  pdr_blob blob;
  if (call->answered) return PDR_E_STALE;
  call->answered = 1;
  memset(&blob, 0, sizeof blob);
  blob.size = (uint32_t)sizeof blob;
  blob.ptr = (const uint8_t *)bytes;
  blob.len = length;
  blob.media_type = pdr_easy_str(media_type);
  return call->calls->complete(call->calls->ctx, call->call->id, PDR_OK, &blob, NULL);
}

/* Answers with a UTF-8 text, which is copied. */
static inline int32_t pdr_easy_answer(pdr_easy_call *call, const char *text) {
  return pdr_easy_complete(call, PDR_MEDIA_TEXT, text, text ? strlen(text) : 0);
}

static inline int32_t pdr_easy_fail_(pdr_easy_call *call, int32_t code, const char *sentence) {
  pdr_err err;
  if (call->answered) return PDR_E_STALE;
  call->answered = 1;
  memset(&err, 0, sizeof err);
  err.size = (uint32_t)sizeof err;
  err.code = code;
  err.flags = PDR_ERR_USER_VISIBLE;
  err.message = pdr_easy_str(sentence);
  return call->calls->complete(call->calls->ctx, call->call->id, code, NULL, &err);
}

/* Fails the call with one sentence: what went wrong, where, what to do. The model reads it. */
static inline int32_t pdr_easy_fail(pdr_easy_call *call, const char *sentence) {
  return pdr_easy_fail_(call, PDR_E_INTERNAL, sentence);
}

/* Answers with a JSON object, which is copied. */
static inline int32_t pdr_easy_json(pdr_easy_call *call, const char *object) {
  return pdr_easy_complete(call, PDR_MEDIA_JSON, object, object ? strlen(object) : 0);
}

/* Answers that there is nothing to add: a hook lets things go on, a section is left out. */
static inline int32_t pdr_easy_nothing(pdr_easy_call *call) { return pdr_easy_json(call, "{}"); }

/* Writes text as a JSON string with its quotes; returns the length, or 0 if it does not fit. */
static inline size_t pdr_easy_quote(char *out, size_t capacity, const char *text) {
  size_t count = 0;
  if (capacity < 3) return 0;
  out[count++] = '"';
  for (; *text; text++) {
    unsigned char c = (unsigned char)*text;
    if (count + 8 > capacity) return 0;
    if (c == '"' || c == '\\') {
      out[count++] = '\\';
      out[count++] = (char)c;
    } else if (c < 0x20) {
      count += (size_t)snprintf(out + count, capacity - count, "\\u%04x", c);
    } else {
      out[count++] = (char)c;
    }
  }
  out[count++] = '"';
  out[count] = 0;
  return count;
}

/* Lets a guard say no, with a reason of at most 1,000 bytes that the model or the user reads. */
static inline int32_t pdr_easy_deny(pdr_easy_call *call, const char *reason) {
  char quoted[1024], answer[1088];
  if (!pdr_easy_quote(quoted, sizeof quoted, reason))
    return pdr_easy_fail(call, "the reason of the denial is longer than pdr_easy_deny can write");
  (void)snprintf(answer, sizeof answer, "{\"deny\":{\"reason\":%s}}", quoted);
  return pdr_easy_json(call, answer);
}

/* Lets a guard of calls ask a person; the same key and arguments are asked once. Its manifest needs
 * the permission approvals. */
static inline int32_t pdr_easy_ask(pdr_easy_call *call, const char *key, const char *title) {
  char quoted_key[96], quoted_title[1024], answer[1280];
  if (!pdr_easy_quote(quoted_key, sizeof quoted_key, key) ||
      !pdr_easy_quote(quoted_title, sizeof quoted_title, title))
    return pdr_easy_fail(call, "the question is longer than pdr_easy_ask can write");
  (void)snprintf(answer, sizeof answer, "{\"ask\":{\"key\":%s,\"title\":%s}}", quoted_key,
                 quoted_title);
  return pdr_easy_json(call, answer);
}

static inline void pdr_easy_passed_(void *argument, pdr_id request, int32_t status,
                                    const pdr_blob *value, const pdr_err *err) {
  (void)request;
  (void)pdr_easy_host_.calls->complete(pdr_easy_host_.calls->ctx, (pdr_id)(uintptr_t)argument,
                                       status, value, err);
}

/* Lets a wrap run what is inside it, and answers with what that gives. arguments is the JSON of an
 * object, or null for those of the call; only the wrap of a tool may change them. */
static inline int32_t pdr_easy_pass_with(pdr_easy_call *call, const char *arguments) {
  static const char head[] = "{\"arguments\":";
  char input[4096];
  pdr_blob blob;
  pdr_id request;
  int32_t status;
  size_t length = arguments ? strlen(arguments) : 0;
  if (call->answered) return PDR_E_STALE;
  if (!pdr_easy_host_.invoke)
    return pdr_easy_fail(call, "the host lacks the table perdure.invoke/1");
  if (sizeof head + length > sizeof input)
    return pdr_easy_fail(call, "the arguments are longer than pdr_easy_pass_with can write");
  memset(&blob, 0, sizeof blob);
  blob.size = (uint32_t)sizeof blob;
  if (arguments) {
    memcpy(input, head, sizeof head - 1);
    memcpy(input + sizeof head - 1, arguments, length);
    input[sizeof head - 1 + length] = '}';
    blob.ptr = (const uint8_t *)input;
    blob.len = sizeof head + length;
  }
  /* An id has 64 bits, and so have pointers on all machines of the contract. */
  status = pdr_easy_host_.invoke->start(pdr_easy_host_.invoke->ctx, call->call->id,
                                        pdr_easy_str("next"), &blob, pdr_easy_passed_,
                                        (void *)(uintptr_t)call->call->id, &request);
  if (status != PDR_OK) return pdr_easy_fail(call, "the host refused to run what is inside");
  call->answered = 1;
  return PDR_OK;
}

/* Lets a wrap run what is inside it as it is. */
static inline int32_t pdr_easy_pass(pdr_easy_call *call) { return pdr_easy_pass_with(call, NULL); }

/* Answers with a formatted text of at most 4,095 bytes; a longer one fails the call. */
PDR_EASY_FORMAT_(2, 3)
static inline int32_t pdr_easy_answerf(pdr_easy_call *call, const char *format, ...) {
  char buffer[4096];
  int length;
  va_list list;
  va_start(list, format);
  length = vsnprintf(buffer, sizeof buffer, format, list);
  va_end(list);
  if (length < 0 || (size_t)length >= sizeof buffer)
    return pdr_easy_fail(call, "the plugin's answer is longer than pdr_easy_answerf can format");
  return pdr_easy_complete(call, PDR_MEDIA_TEXT, buffer, (size_t)length);
}

/* Answers with JSON that is formatted like this, at most 16,383 bytes. Texts that are not known to
 * need no escape go in as the JSON that they came in: pdr_easy_answer_json(call,
 * "{\"details\": %.*s}", PDR_EASY_JSON(value)). */
PDR_EASY_FORMAT_(2, 3)
static inline int32_t pdr_easy_answer_json(pdr_easy_call *call, const char *format, ...) {
  char buffer[16384];
  int length;
  va_list list;
  va_start(list, format);
  length = vsnprintf(buffer, sizeof buffer, format, list);
  va_end(list);
  if (length < 0 || (size_t)length >= sizeof buffer)
    return pdr_easy_fail(call, "the plugin's answer is longer than pdr_easy_answer_json can format");
  return pdr_easy_complete(call, PDR_MEDIA_JSON, buffer, (size_t)length);
}

/* What "%.*s" of a format takes for a pdr_str. */
#define PDR_EASY_JSON(str) (int)(str).len, (const char *)(str).ptr

/* Sends a piece of output ahead of the answer: progress for whoever watches. The answer replaces it
 * for the model; a failure or a crash keeps it. 0, or PDR_E_WOULD_BLOCK when it was not taken. */
static inline int32_t pdr_easy_emit(pdr_easy_call *call, const char *text) {
  pdr_blob blob;
  memset(&blob, 0, sizeof blob);
  blob.size = (uint32_t)sizeof blob;
  blob.ptr = (const uint8_t *)text;
  blob.len = text ? strlen(text) : 0;
  blob.media_type = pdr_easy_str(PDR_MEDIA_TEXT);
  return call->calls->emit(call->calls->ctx, call->call->id, &blob);
}

/* Sends a frame that is formatted JSON with one of "details" and "diagnostic", at most 4,095 bytes;
 * PDR_E_INVALID if it is longer. */
PDR_EASY_FORMAT_(2, 3)
static inline int32_t pdr_easy_emit_json(pdr_easy_call *call, const char *format, ...) {
  char buffer[4096];
  pdr_blob blob;
  int length;
  va_list list;
  va_start(list, format);
  length = vsnprintf(buffer, sizeof buffer, format, list);
  va_end(list);
  if (length < 0 || (size_t)length >= sizeof buffer) return PDR_E_INVALID;
  memset(&blob, 0, sizeof blob);
  blob.size = (uint32_t)sizeof blob;
  blob.ptr = (const uint8_t *)buffer;
  blob.len = (size_t)length;
  return call->calls->emit(call->calls->ctx, call->call->id, &blob);
}

/* Whether somebody wants the call to stop; loops ask and then answer early. An answer or a failure
 * counts when the deadline has passed or the plugin is closed. When the host stops, an answer of a
 * tool that is not "replay": "safe" counts, and a failure does not. When the call is aborted, nothing
 * does. */
static inline int pdr_easy_cancelled(const pdr_easy_call *call) {
  return call->calls->cancelled(call->calls->ctx, call->call->id) != 0;
}

/* ---------------------------------------------------------------- asking the host */

typedef struct pdr_easy_wait_ {
  pthread_mutex_t lock;
  pthread_cond_t news;
  int done;
  int32_t status;
  char *answer;
  size_t size;
} pdr_easy_wait_;

static inline void pdr_easy_done_(void *argument, pdr_id request, int32_t status,
                                  const pdr_blob *value, const pdr_err *err) {
  pdr_easy_wait_ *wait = (pdr_easy_wait_ *)argument;
  const uint8_t *bytes = value ? value->ptr : err ? err->detail.ptr : NULL;
  size_t length = value ? value->len : err && err->detail.len != PDR_ABSENT ? err->detail.len : 0;
  (void)request;
  pthread_mutex_lock(&wait->lock);
  wait->status = status;
  if (wait->size > 0) {
    if (!bytes) length = 0;
    if (length >= wait->size) {
      length = 0;
      if (status == PDR_OK) wait->status = PDR_E_ENCODING;
    }
    if (length > 0) memcpy(wait->answer, bytes, length);
    wait->answer[length] = 0;
  }
  wait->done = 1;
  pthread_cond_signal(&wait->news);
  pthread_mutex_unlock(&wait->lock);
}

/* Asks the host for an operation with a JSON input and waits for it: 0 and the answer, or a PDR_E_
 * code and the details of the error, as a string. An answer that does not fit is PDR_E_ENCODING; what
 * was asked for is done then, too. The manifest of a tool that asks says blocking: true. */
static inline int32_t pdr_easy_request(pdr_easy_call *call, const char *operation, const char *input,
                                   char *answer, size_t size) {
  pdr_easy_wait_ wait;
  pdr_blob blob;
  pdr_id request = 0;
  int32_t code;
  if (size > 0) answer[0] = 0;
  if (!pdr_easy_host_.invoke) return PDR_E_UNSUPPORTED;
  memset(&wait, 0, sizeof wait);
  wait.answer = answer;
  wait.size = size;
  pthread_mutex_init(&wait.lock, NULL);
  pthread_cond_init(&wait.news, NULL);
  memset(&blob, 0, sizeof blob);
  blob.size = (uint32_t)sizeof blob;
  blob.ptr = (const uint8_t *)input;
  blob.len = input ? strlen(input) : 0;
  code = pdr_easy_host_.invoke->start(pdr_easy_host_.invoke->ctx, call->call->id, pdr_easy_str(operation), &blob,
                             pdr_easy_done_, &wait, &request);
  if (code == PDR_OK) {
    pthread_mutex_lock(&wait.lock);
    while (!wait.done) pthread_cond_wait(&wait.news, &wait.lock);
    pthread_mutex_unlock(&wait.lock);
    code = wait.status;
  }
  pthread_cond_destroy(&wait.news);
  pthread_mutex_destroy(&wait.lock);
  return code;
}

/* The same with a formatted input of at most 8,191 bytes; a longer one is PDR_E_INVALID. */
PDR_EASY_FORMAT_(5, 6)
static inline int32_t pdr_easy_requestf(pdr_easy_call *call, const char *operation, char *answer,
                                    size_t size, const char *format, ...) {
  char input[8192];
  int length;
  va_list list;
  va_start(list, format);
  length = vsnprintf(input, sizeof input, format, list);
  va_end(list);
  if (length < 0 || (size_t)length >= sizeof input) return PDR_E_INVALID;
  return pdr_easy_request(call, operation, input, answer, size);
}

/* Writes all of these steps or nothing; when this returns 0 they are on disk. steps is a JSON array
 * of at most 8,000 bytes, such as
 * [{"do": "doc", "kind": "acme.notes", "ops": [["p", ["lines"], 0, 0, ["hi"]]]}]. */
static inline int32_t pdr_easy_commit(pdr_easy_call *call, const char *steps, char *answer,
                                      size_t size) {
  return pdr_easy_requestf(call, "commit", answer, size, "{\"steps\":%s}", steps);
}

/* Keeps a JSON value under a name for the task of the call, unless there is one, and gives {"value":
 * the kept one}. Without a candidate it only looks. The name has nothing that JSON escapes. */
static inline int32_t pdr_easy_memo(pdr_easy_call *call, const char *name, const char *candidate,
                                    char *answer, size_t size) {
  if (!candidate)
    return pdr_easy_requestf(call, "memo", answer, size, "{\"name\":\"%s\"}", name);
  return pdr_easy_requestf(call, "memo", answer, size, "{\"name\":\"%s\",\"candidate\":%s}", name,
                       candidate);
}

/* Gives {"value", "version", "document"} of a document at its own place, or {}. The kind and the key,
 * which may be null, have nothing that JSON escapes. */
static inline int32_t pdr_easy_document(pdr_easy_call *call, const char *kind, const char *key,
                                        char *answer, size_t size) {
  if (!key)
    return pdr_easy_requestf(call, "document.get", answer, size, "{\"kind\":\"%s\"}", kind);
  return pdr_easy_requestf(call, "document.get", answer, size, "{\"kind\":\"%s\",\"key\":\"%s\"}", kind,
                       key);
}

/* ---------------------------------------------------------------- the plugin */

static inline int32_t pdr_easy_refuse_(pdr_errbuf *err, int32_t code, const char *sentence) {
  size_t length = strlen(sentence);
  if (err) {
    err->code = code;
    if (length > err->cap) length = err->cap;
    if (err->buf) memcpy(err->buf, sentence, length);
    err->len = err->buf ? length : 0;
  }
  return code;
}

static inline int pdr_easy_begins_(pdr_str text, const char *front) {
  size_t length = strlen(front);
  return text.len >= length && memcmp(text.ptr, front, length) == 0;
}

/* What a plugin answers that has nothing to say. */
static inline int32_t pdr_easy_default_(pdr_easy_call *call) {
  pdr_str target = call->call->target;
  if (target.len == 16 && pdr_easy_begins_(target, "settings.changed"))
    return pdr_easy_answer_json(call, "{}");
  if (target.len == 8 && pdr_easy_begins_(target, "selftest"))
    return pdr_easy_answer_json(call, "{\"checks\":[]}");
  if (pdr_easy_begins_(target, "task.abort:"))
    return pdr_easy_answer_json(
        call, "{\"state\":{\"status\":\"terminal\",\"outcome\":{\"status\":\"aborted\"}}}");
  if (!pdr_easy_begins_(target, "tool:")) return PDR_E_UNSUPPORTED;
  return pdr_easy_fail_(call, PDR_E_UNSUPPORTED,
                        "the manifest names a tool that PDR_EASY_PLUGIN lacks");
}

static inline int32_t pdr_easy_start_(const pdr_calls_1 *calls, const pdr_call *call,
                                      const pdr_easy_tool *tools, size_t count) {
  size_t i;
  int32_t status;
  pdr_str input;
  pdr_easy_call easy;
  easy.calls = calls;
  easy.call = call;
  easy.arguments = pdr_easy_str(NULL);
  easy.answered = 0;
  input.ptr = call->input->ptr;
  input.len = call->input->len;
  for (i = 0; i < count; i++) {
    size_t length = strlen(tools[i].name);
    if (strchr(tools[i].name, ':') && call->target.len == length &&
        !memcmp(call->target.ptr, tools[i].name, length)) {
      if (!pdr_easy_member(input, "arguments", &easy.arguments)) easy.arguments = input;
      (void)tools[i].run(&easy);
      if (!easy.answered) pdr_easy_fail(&easy, "the function returned without an answer");
      return PDR_OK;
    }
    if (call->target.len != length + 5 || memcmp(call->target.ptr, "tool:", 5) != 0 ||
        memcmp(call->target.ptr + 5, tools[i].name, length) != 0)
      continue;
    if (!pdr_easy_member(input, "arguments", &easy.arguments)) return PDR_E_INVALID;
    (void)tools[i].run(&easy);
    if (!easy.answered) pdr_easy_fail(&easy, "the tool returned without an answer");
    return PDR_OK;
  }
  status = pdr_easy_default_(&easy);
  return easy.answered ? PDR_OK : status;
}

static inline int32_t pdr_easy_enter_(const pdr_host *host, const pdr_calls_1 **calls,
                                      pdr_plugin *out, pdr_errbuf *err,
                                      int32_t (*start)(void *, const pdr_call *)) {
  const void *table;
  if (!host || !host->query || !out || out->size < sizeof *out)
    return pdr_easy_refuse_(err, PDR_E_UNSUPPORTED, "the host is older than this plugin");
  table = host->query(host->ctx, pdr_easy_str(PDR_CALLS_1), (uint32_t)sizeof(pdr_calls_1));
  if (!table)
    return pdr_easy_refuse_(err, PDR_E_UNSUPPORTED, "the host lacks the table perdure.calls/1");
  *calls = (const pdr_calls_1 *)table;
  pdr_easy_host_.calls = *calls;
  pdr_easy_host_.invoke = (const pdr_invoke_1 *)host->query(
      host->ctx, pdr_easy_str(PDR_INVOKE_1), (uint32_t)sizeof(pdr_invoke_1));
  out->start = start;
  return PDR_OK;
}

#ifdef __cplusplus
#define PDR_EASY_C_ extern "C"
#else
#define PDR_EASY_C_
#endif

/* Makes the plugin out of its tools, once, at file scope:
 * PDR_EASY_PLUGIN({"one", one}, {"two", two}) */
#define PDR_EASY_PLUGIN(...)                                                                      \
  static const pdr_easy_tool pdr_easy_tools_[] = {__VA_ARGS__};                                   \
  static const pdr_calls_1 *pdr_easy_calls_;                                                      \
  static int32_t pdr_easy_run_(void *state, const pdr_call *call) {                               \
    (void)state;                                                                                  \
    return pdr_easy_start_(pdr_easy_calls_, call, pdr_easy_tools_,                                \
                           sizeof pdr_easy_tools_ / sizeof pdr_easy_tools_[0]);                   \
  }                                                                                               \
  PDR_EASY_C_ PDR_EXPORT int32_t perdure_plugin_1(const pdr_host *host, pdr_plugin *out,          \
                                                  pdr_errbuf *err) {                              \
    return pdr_easy_enter_(host, &pdr_easy_calls_, out, err, pdr_easy_run_);                      \
  }

#endif
