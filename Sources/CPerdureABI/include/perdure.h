/*
 * perdure.h - the contract between Perdure and a plugin, version 1.0. MIT licence.
 *
 * A plugin is a shared library (ELF, x86-64 or AArch64, Linux) with one exported function,
 * perdure_plugin_1, a note (PDR_PLUGIN_NOTE) and a manifest (PDR_MANIFEST). The host reads note and
 * manifest before it runs any code of the plugin. Everything that travels through the functions
 * below is bytes with a media type, JSON unless said otherwise; docs/plugin-manifest.md has the
 * members of the manifest, docs/plugins.md the input of calls, answers, and operations of the host.
 *
 * Rules that hold everywhere
 *  - Structs begin with their size and only ever grow at the end. A reader takes the smaller of the
 *    size it finds and the size it knows; what is missing counts as zero. A writer never writes past
 *    the size that the owner of the struct put there.
 *  - Bytes are borrowed: they are valid until the function that got them returns. Whoever wants them
 *    longer copies them. Nobody frees the other side's memory.
 *  - Ids are numbers with a generation, never pointers. An id that is over answers PDR_E_STALE.
 *  - Functions return 0 or a negative PDR_E_ code. Nothing may be thrown or unwound across them.
 *  - The host calls a plugin with no lock held, and never from inside a call of the plugin to it.
 *  - The file stays mapped when the plugin is retired: code and constants stay valid for ever.
 *
 * Thread tags
 *  [control]  never beside another [control] call of the same plugin, on any thread of the host
 *  [call]     on threads of the host, beside others up to the manifest's maxConcurrency
 *  [any]      from any thread, the plugin's own included
 *  [may-block] / [must-not-block]  whether the function may wait; host functions never wait
 *
 * The comment of each function says three things under their names: Threads, who calls it where;
 * Ownership, whose the bytes are; Failure, what it returns then. docs/perdure-h.md is made of them.
 */
#ifndef PERDURE_H
#define PERDURE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---------------------------------------------------------------- versions and names */

#define PDR_ABI_MAJOR 1
#define PDR_ABI_MINOR 0
/* The level of the messages (targets, operations, fields) that this header was written for. */
#define PDR_MESSAGE_LEVEL 1

#define PDR_ENTRY_SYMBOL "perdure_plugin_1"
#define PDR_NOTE_SECTION ".note.perdure"
#define PDR_NOTE_OWNER "Perdure"
#define PDR_NOTE_TYPE 1
#define PDR_MANIFEST_SECTION ".perdure.manifest"

/* Tables to ask pdr_host.query for. */
#define PDR_CALLS_1 "perdure.calls/1"
#define PDR_INVOKE_1 "perdure.invoke/1"

/* Media types; an empty or absent one means JSON. */
#define PDR_MEDIA_JSON "application/json"
#define PDR_MEDIA_TEXT "text/plain"
#define PDR_MEDIA_BYTES "application/octet-stream"
#define PDR_MEDIA_PNG "image/png"
#define PDR_MEDIA_JPEG "image/jpeg"
#define PDR_MEDIA_GIF "image/gif"
#define PDR_MEDIA_WEBP "image/webp"
#define PDR_MEDIA_PARTS "application/vnd.perdure.parts"

/* ---------------------------------------------------------------- codes */

#define PDR_OK 0
#define PDR_E_CANCELLED (-1)     /* cancelled, see detail.reason */
#define PDR_E_TIMEOUT (-2)       /* a limit of time passed */
#define PDR_E_STALE (-3)         /* the call, request or handle is over */
#define PDR_E_GONE (-4)          /* the plugin was retired */
#define PDR_E_BUSY (-5)          /* try again later; from start: the host tries until the deadline */
#define PDR_E_WOULD_BLOCK (-6)   /* emit without credit; wait with the operation output.flush */
#define PDR_E_INVALID (-7)       /* well-formed but wrong, detail.reason and detail.at say what */
#define PDR_E_ENCODING (-8)      /* no UTF-8, no JSON, too large, or a media type not known here */
#define PDR_E_DENIED (-9)        /* the manifest does not ask for this, or a policy forbids it */
#define PDR_E_UNSUPPORTED (-10)  /* this host does not know the operation or a field in "must" */
#define PDR_E_INTERNAL (-11)     /* a tool's own failure, or the host's fault */
#define PDR_E_PLUGIN_FAULT (-12) /* the plugin crashed, was killed or broke the contract */

/* Flags of pdr_err. */
#define PDR_ERR_RETRYABLE 1u
#define PDR_ERR_CANCELLED 2u
#define PDR_ERR_TIMEOUT 4u
#define PDR_ERR_USER_VISIBLE 8u /* the message may be shown to the model */
#define PDR_ERR_PLUGIN_BUG 16u

/* Why a call is cancelled. */
#define PDR_CANCEL_ABORT 1u    /* the work of the conversation is aborted */
#define PDR_CANCEL_DEADLINE 2u /* deadline_ns has passed */
#define PDR_CANCEL_CLOSING 3u  /* the host stops; the next one goes on as after a crash */
#define PDR_CANCEL_DRAIN 4u    /* the plugin is being closed */
#define PDR_CANCEL_PARENT 5u
#define PDR_CANCEL_OBSOLETE 6u

/* Flags in the upper half of any flags field must be understood: a reader that does not know one
 * refuses the struct. Those in the lower half may be ignored. */
#define PDR_MUST_UNDERSTAND 0xFFFF0000u

/* ---------------------------------------------------------------- values */

/* As the length of a string or blob: there is no value, and the pointer is ignored. An empty value
 * has the length 0, whatever its pointer is. A struct of zeros is always valid and empty. */
#define PDR_ABSENT SIZE_MAX

/* A call, a request or a ticket: slot and generation. 0 = none. */
typedef uint64_t pdr_id;

/* UTF-8, borrowed, not terminated. */
typedef struct pdr_str {
  const uint8_t *ptr;
  size_t len;
} pdr_str;

/* Bytes with a media type. Borrowed unless release is set; then they are handed over. */
typedef struct pdr_blob {
  uint32_t size;
  uint32_t flags;
  const uint8_t *ptr;
  size_t len;
  pdr_str media_type;
  void *owner; /* first argument of release */
  /* Takes back bytes that were handed over. The receiver calls it exactly once, when it no longer
   * reads them, also when it refuses them. It must not call the host, and stays callable for ever.
   * Threads: [any] [must-not-block]
   * Ownership: ends that of the receiver; null: the bytes were only borrowed.
   * Failure: none can be told. */
  void (*release)(void *owner);
} pdr_blob;

/* What went wrong: a code, one sentence (what, where, what to do), and a JSON object of details. */
typedef struct pdr_err {
  uint32_t size;
  int32_t code;
  uint32_t flags;
  uint32_t reserved;
  pdr_str message;
  pdr_str detail;
} pdr_err;

/* A place for the text of an error, owned by the caller: at most cap bytes go to buf, and len is set
 * to how many did. A null pointer to one, or cap 0, means that nobody wants the text. */
typedef struct pdr_errbuf {
  uint32_t size;
  int32_t code;
  uint8_t *buf;
  size_t cap;
  size_t len;
} pdr_errbuf;

/* ---------------------------------------------------------------- host to plugin */

/* What the host lends to the plugin; valid for ever. */
typedef struct pdr_host {
  uint32_t size;
  uint32_t minor; /* PDR_ABI_MINOR of the host */
  void *ctx;      /* first argument of query */
  /* Gives the table of this name. The only host function that perdure_plugin_1 may call.
   * Threads: [any] [must-not-block]
   * Ownership: the host owns the table, which is valid for ever.
   * Failure: null if there is none of that name with at least min_size bytes. */
  const void *(*query)(void *ctx, pdr_str interface_id, uint32_t min_size);
} pdr_host;

/* One call. The struct and all it points to are borrowed until start returns. */
typedef struct pdr_call {
  uint32_t size;
  uint32_t flags;
  pdr_id id;
  pdr_id parent;         /* the call it is nested in, or 0 */
  pdr_str target;        /* such as "tool:grep" or "settings.changed" */
  const pdr_blob *input; /* never null; JSON of an object, a tool's arguments are in "arguments" */
  uint64_t deadline_ns;  /* CLOCK_MONOTONIC; then the call is cancelled. 0 = none */
} pdr_call;

/* Tells the result of a request, exactly once for each request that was accepted. value is null when
 * there is an error, err is null when there is none.
 * Threads: [call] [must-not-block], with no lock held, so that it may call the host.
 * Ownership: value and err are borrowed until it returns.
 * Failure: status is negative then, and err says why. */
typedef void (*pdr_done)(void *arg, pdr_id request, int32_t status, const pdr_blob *value,
                         const pdr_err *err);

/* Tells that a call is cancelled. The completion of the call is still owed. It counts if the reason is
 * PDR_CANCEL_DEADLINE or PDR_CANCEL_DRAIN, and with PDR_CANCEL_CLOSING if it is a value, no error, of
 * a tool that is not "replay": "safe". Else it is dropped.
 * Threads: [call] [must-not-block], with no lock held; it may begin while another thread completes the
 * call, so find the state of the call by its id.
 * Ownership: arg is the plugin's, and must live as long as the plugin.
 * Failure: none can be told. */
typedef void (*pdr_cancel_fn)(void *arg, pdr_id call, uint32_t reason);

/* The table "perdure.calls/1": how a plugin answers calls. */
typedef struct pdr_calls_1 {
  uint32_t size;
  uint32_t reserved;
  void *ctx; /* first argument of each function */

  /* Ends a call: status 0 with a value, or a negative status with an error (null = only the code).
   * Exactly one per call that start accepted, also from inside start. With status 0 and no value the
   * output that was emitted is the result of a tool call; a value replaces it, an error follows it.
   * Threads: [any] [must-not-block]
   * Ownership: the host copies or releases value before it returns; err is borrowed.
   * Failure: whatever is returned, the call is over. PDR_E_STALE: it was over before, nothing was
   * taken; PDR_E_ENCODING, PDR_E_INVALID: the answer was junk, the call failed; PDR_E_GONE: the plugin
   * was retired. */
  int32_t (*complete)(void *ctx, pdr_id call, int32_t status, const pdr_blob *value,
                      const pdr_err *err);

  /* Sends one frame of output of a tool call: text/plain, application/octet-stream, or JSON with
   * one of "details", "diagnostic", "skipped". At most 256 KiB may be under way.
   * Threads: [any] [must-not-block]
   * Ownership: the host copies or releases chunk before it returns.
   * Failure: the frame was not taken. PDR_E_WOULD_BLOCK: there is no credit for it, wait with the
   * operation output.flush and send it again; PDR_E_INVALID: larger than the whole credit, or no frame
   * is expected of this call; PDR_E_ENCODING: text that is no UTF-8 or JSON that is none; PDR_E_STALE:
   * the call is over; PDR_E_GONE: the plugin was retired. */
  int32_t (*emit)(void *ctx, pdr_id call, const pdr_blob *chunk);

  /* Gives the number of bytes that emit would take now.
   * Threads: [any] [must-not-block]
   * Ownership: bytes_left is the plugin's; it is written before the function returns.
   * Failure: PDR_E_STALE: the call is over; PDR_E_GONE: the plugin was retired. Nothing is written. */
  int32_t (*credit)(void *ctx, pdr_id call, uint64_t *bytes_left);

  /* Gives the reason (PDR_CANCEL_) if the call is cancelled, 0 if not. Cheap enough for inner loops.
   * Threads: [any] [must-not-block]
   * Ownership: nothing is handed over.
   * Failure: none; a call that is over answers PDR_CANCEL_OBSOLETE, a retired plugin gets
   * PDR_CANCEL_DRAIN. */
  uint32_t (*cancelled)(void *ctx, pdr_id call);

  /* Registers the one callback of the call, replacing an earlier one; null removes it. If the call
   * is cancelled already the callback follows at once, on a thread of the host, never from inside
   * this function. It does not begin after the call is completed.
   * Threads: [any] [must-not-block]
   * Ownership: arg stays the plugin's, and must live as long as the plugin.
   * Failure: PDR_E_STALE: the call is over; PDR_E_GONE: the plugin was retired. fn is not called. */
  int32_t (*on_cancel)(void *ctx, pdr_id call, pdr_cancel_fn fn, void *arg);
} pdr_calls_1;

/* The table "perdure.invoke/1": what a plugin asks of the host. */
typedef struct pdr_invoke_1 {
  uint32_t size;
  uint32_t reserved;
  void *ctx; /* first argument of each function */

  /* Starts an operation such as "log" or "timer.wait", for a call or (0) for none. 0: accepted, out
   * (may be null) holds the request before done can be called, and done follows exactly once.
   * Requests of a call end with PDR_E_CANCELLED when the call is cancelled or over. input may be null
   * (an empty object).
   * Threads: [any] [must-not-block]
   * Ownership: the host copies or releases input before it returns; arg stays the plugin's until done
   * has been called.
   * Failure: refused, done is never called. PDR_E_STALE: within_call is over; PDR_E_BUSY: too many
   * open requests; PDR_E_ENCODING: the name or input is no UTF-8 or JSON; PDR_E_INVALID: done is
   * null, which only one-way operations (log, report) allow; PDR_E_GONE: the plugin was retired. */
  int32_t (*start)(void *ctx, pdr_id within_call, pdr_str op, const pdr_blob *input, pdr_done done,
                   void *arg, pdr_id *out);

  /* Cancels a request; done still follows.
   * Threads: [any] [must-not-block]
   * Ownership: nothing is handed over.
   * Failure: PDR_E_STALE: the request is over; PDR_E_GONE: the plugin was retired. */
  int32_t (*cancel)(void *ctx, pdr_id request);
} pdr_invoke_1;

/* ---------------------------------------------------------------- the plugin */

/* What the plugin lends to the host. The host sets size and zeros the rest; the plugin fills in at
 * most size bytes. start is required; any other may stay null. */
typedef struct pdr_plugin {
  uint32_t size;
  uint32_t flags;
  void *state; /* first argument of each function */

  /* Gives the plugin's table of this name. A null member: the plugin has no tables.
   * Threads: [any] [must-not-block]
   * Ownership: the plugin owns the table, which is valid for ever.
   * Failure: null if there is none of that name with at least min_size bytes. */
  const void *(*query)(void *state, pdr_str interface_id, uint32_t min_size);

  /* Makes the plugin ready; calls follow. A null member: it is ready as it is.
   * Threads: [control] [may-block], up to 10 s
   * Ownership: err is the host's, and may be written until the function returns.
   * Failure: negative, with a sentence in err: the plugin is refused and destroyed. */
  int32_t (*activate)(void *state, pdr_errbuf *err);

  /* Begins a call. 0: accepted, exactly one pdr_calls_1.complete follows or has been made.
   * Threads: [call] [must-not-block], up to 50 ms; [may-block] if the manifest says blocking: true. The
   * host reports a tool that takes much longer, once.
   * Ownership: call and all it points to are borrowed until the function returns.
   * Failure: negative: refused, no completion; PDR_E_BUSY: the host tries again until the deadline. */
  int32_t (*start)(void *state, const pdr_call *call);

  /* Asks the plugin to stop threads and timers and to end its calls until deadline_ns
   * (CLOCK_MONOTONIC). 0: it answers later with the operation lifecycle.stopped and the input
   * {"ticket": "N"}, N being ticket in decimal. A null member: there is nothing to stop.
   * Threads: [control] [must-not-block]
   * Ownership: nothing is handed over.
   * Failure: negative: it cannot stop; the host goes on to destroy. */
  int32_t (*deactivate)(void *state, pdr_id ticket, uint64_t deadline_ns);

  /* Ends the plugin; nothing of it is called any more. From here every host function answers PDR_E_GONE.
   * Threads: [control] [may-block], up to 10 s
   * Ownership: state is the plugin's, to be freed here.
   * Failure: none can be told. */
  void (*destroy)(void *state);
} pdr_plugin;

#if defined(__GNUC__) || defined(__clang__)
#define PDR_EXPORT __attribute__((visibility("default")))
#else
#define PDR_EXPORT
#endif

/* The only exported function. Fills in out and keeps host; starts no thread, does no I/O, calls
 * nothing of the host but query. It is called once for each mapping of the file.
 * Threads: [control] [must-not-block]
 * Ownership: host is valid for ever; out and err are the host's, and may be written until the function
 * returns.
 * Failure: negative, with a sentence in err: the plugin is refused. */
PDR_EXPORT int32_t perdure_plugin_1(const pdr_host *host, pdr_plugin *out, pdr_errbuf *err);

/* ---------------------------------------------------------------- note and manifest */

/* The descriptor of the note, little endian. */
typedef struct pdr_note_desc {
  uint32_t size;           /* of this descriptor */
  uint32_t abi_major;      /* PDR_ABI_MAJOR */
  uint32_t host_minor;     /* lowest minor of a host that will do */
  uint32_t message_level;  /* lowest message level that will do */
  uint32_t flags;          /* PDR_MUST_UNDERSTAND holds */
  char runtime[32];        /* "c", "c++", "rust", "zig", "swift-static", "swift-dynamic:6.3.1" */
} pdr_note_desc;

/* The whole content of the section .note.perdure. */
typedef struct pdr_note {
  uint32_t name_size; /* 8 */
  uint32_t desc_size; /* sizeof(pdr_note_desc) */
  uint32_t type;      /* PDR_NOTE_TYPE */
  char name[8];       /* "Perdure" */
  pdr_note_desc desc;
} pdr_note;

#if defined(__has_attribute)
#if __has_attribute(retain)
#define PDR_SECTION_(name, alignment) \
  __attribute__((used, retain, section(name), aligned(alignment)))
#endif
#endif
#ifndef PDR_SECTION_
#define PDR_SECTION_(name, alignment) __attribute__((used, section(name), aligned(alignment)))
#endif

/* Emits the note, once per plugin, at file scope: PDR_PLUGIN_NOTE("c"); */
#define PDR_PLUGIN_NOTE(runtime_name) PDR_PLUGIN_NOTE_2(runtime_name, 0, 1)

/* The same with the lowest minor and message level of a host that will do. */
#define PDR_PLUGIN_NOTE_2(runtime_name, lowest_minor, lowest_messages)                    \
  static const pdr_note pdr_plugin_note_ PDR_SECTION_(PDR_NOTE_SECTION, 4) = {            \
      8, (uint32_t)sizeof(pdr_note_desc), PDR_NOTE_TYPE, PDR_NOTE_OWNER,                  \
      {(uint32_t)sizeof(pdr_note_desc), PDR_ABI_MAJOR, lowest_minor, lowest_messages, 0u, \
       runtime_name}}

/* Emits the manifest from a string, once per plugin, at file scope: PDR_MANIFEST("{...}"); */
#define PDR_MANIFEST(json_text) \
  static const char pdr_manifest_[] PDR_SECTION_(PDR_MANIFEST_SECTION, 1) = json_text

/* Emits the manifest from a file beside the source or under an -I folder of the assembler:
 * PDR_MANIFEST_FILE("manifest.json"); */
#define PDR_MANIFEST_FILE(path)                                                    \
  __asm__(".pushsection " PDR_MANIFEST_SECTION ",\"aR\",@progbits\n.incbin \"" path \
          "\"\n.popsection\n");                                                    \
  typedef int pdr_manifest_file_

/* ---------------------------------------------------------------- layout */

#if defined(__cplusplus)
#define PDR_LAYOUT_(name, condition) static_assert(condition, #name)
#elif defined(__STDC_VERSION__) && __STDC_VERSION__ >= 201112L
#define PDR_LAYOUT_(name, condition) _Static_assert(condition, #name)
#else
#define PDR_LAYOUT_(name, condition) typedef char pdr_layout_##name[(condition) ? 1 : -1]
#endif
#define PDR_AT_(type, member, offset) \
  PDR_LAYOUT_(type##_##member, offsetof(type, member) == (offset))
#define PDR_SIZE_(type, bytes) PDR_LAYOUT_(type##_whole, sizeof(type) == (bytes))

PDR_LAYOUT_(pointers, sizeof(void *) == 8 && sizeof(size_t) == 8);
PDR_SIZE_(pdr_str, 16);
PDR_AT_(pdr_str, ptr, 0);
PDR_AT_(pdr_str, len, 8);
PDR_SIZE_(pdr_blob, 56);
PDR_AT_(pdr_blob, size, 0);
PDR_AT_(pdr_blob, flags, 4);
PDR_AT_(pdr_blob, ptr, 8);
PDR_AT_(pdr_blob, len, 16);
PDR_AT_(pdr_blob, media_type, 24);
PDR_AT_(pdr_blob, owner, 40);
PDR_AT_(pdr_blob, release, 48);
PDR_SIZE_(pdr_err, 48);
PDR_AT_(pdr_err, size, 0);
PDR_AT_(pdr_err, code, 4);
PDR_AT_(pdr_err, flags, 8);
PDR_AT_(pdr_err, reserved, 12);
PDR_AT_(pdr_err, message, 16);
PDR_AT_(pdr_err, detail, 32);
PDR_SIZE_(pdr_errbuf, 32);
PDR_AT_(pdr_errbuf, size, 0);
PDR_AT_(pdr_errbuf, code, 4);
PDR_AT_(pdr_errbuf, buf, 8);
PDR_AT_(pdr_errbuf, cap, 16);
PDR_AT_(pdr_errbuf, len, 24);
PDR_SIZE_(pdr_host, 24);
PDR_AT_(pdr_host, size, 0);
PDR_AT_(pdr_host, minor, 4);
PDR_AT_(pdr_host, ctx, 8);
PDR_AT_(pdr_host, query, 16);
PDR_SIZE_(pdr_call, 56);
PDR_AT_(pdr_call, size, 0);
PDR_AT_(pdr_call, flags, 4);
PDR_AT_(pdr_call, id, 8);
PDR_AT_(pdr_call, parent, 16);
PDR_AT_(pdr_call, target, 24);
PDR_AT_(pdr_call, input, 40);
PDR_AT_(pdr_call, deadline_ns, 48);
PDR_SIZE_(pdr_calls_1, 56);
PDR_AT_(pdr_calls_1, size, 0);
PDR_AT_(pdr_calls_1, reserved, 4);
PDR_AT_(pdr_calls_1, ctx, 8);
PDR_AT_(pdr_calls_1, complete, 16);
PDR_AT_(pdr_calls_1, emit, 24);
PDR_AT_(pdr_calls_1, credit, 32);
PDR_AT_(pdr_calls_1, cancelled, 40);
PDR_AT_(pdr_calls_1, on_cancel, 48);
PDR_SIZE_(pdr_invoke_1, 32);
PDR_AT_(pdr_invoke_1, size, 0);
PDR_AT_(pdr_invoke_1, reserved, 4);
PDR_AT_(pdr_invoke_1, ctx, 8);
PDR_AT_(pdr_invoke_1, start, 16);
PDR_AT_(pdr_invoke_1, cancel, 24);
PDR_SIZE_(pdr_plugin, 56);
PDR_AT_(pdr_plugin, size, 0);
PDR_AT_(pdr_plugin, flags, 4);
PDR_AT_(pdr_plugin, state, 8);
PDR_AT_(pdr_plugin, query, 16);
PDR_AT_(pdr_plugin, activate, 24);
PDR_AT_(pdr_plugin, start, 32);
PDR_AT_(pdr_plugin, deactivate, 40);
PDR_AT_(pdr_plugin, destroy, 48);
PDR_SIZE_(pdr_note_desc, 52);
PDR_AT_(pdr_note_desc, runtime, 20);
PDR_SIZE_(pdr_note, 72);
PDR_AT_(pdr_note, desc, 20);

#ifdef __cplusplus
}
#endif

#endif
