/* A host that means harm, for `perdure plugin check`: it loads one plugin into this process, lends it
 * the tables of perdure.h, watches what the plugin does with them, and looks for trouble.
 *
 * Every function of the plugin runs on a thread made for it, so that one that does not return is
 * noticed. Functions here are called from one thread; those that wait take a limit in milliseconds. */
#ifndef PERDURE_CHECK_H
#define PERDURE_CHECK_H

#include <stddef.h>
#include <stdint.h>

/* The plugin's function did not return in time. */
#define PERDURE_CHECK_HUNG INT32_MIN

typedef struct perdure_check_host perdure_check_host;

/* How the host behaves; zeros are the ways of an ordinary one. */
typedef struct perdure_check_options {
  uint32_t plugin_size;   /* what it says the plugin may fill in; 0 = all */
  uint32_t later_version; /* 1: structs are longer than this version knows, unknown flags are set */
  uint32_t short_call;    /* 1: pdr_call ends before deadline_ns */
  uint32_t guards;        /* 1: what is lent is read-only, ends at an unmapped page, and goes away */
  uint32_t hides_calls;   /* 1: there is no table of calls */
  uint32_t hides_invoke;  /* 1: there is no table of operations */
  uint32_t operations;    /* 0: they are done, 1: each fails, 2: none is accepted */
  uint32_t starves;       /* 1: output has no credit before output.flush */
} perdure_check_options;

/* What became of a call. */
typedef struct perdure_check_call {
  int32_t has_returned; /* whether start did */
  int32_t accepted;     /* what it returned */
  int32_t completions;  /* how many counted or came too much */
  int32_t status;       /* of the first */
  int64_t start_us;     /* how long start took */
  int64_t ended_us;     /* from the beginning of the call to its completion */
  int32_t operations;   /* how many were asked for within it */
  uint64_t output;      /* bytes emitted */
} perdure_check_call;

/* Maps the file; null with the reason in `message`. */
perdure_check_host *perdure_check_open(const char *path, const perdure_check_options *options,
                                       char *message, size_t capacity);

/* Calls the entry function; the sentence of a refusal is in `message`. */
int32_t perdure_check_enter(perdure_check_host *host, int64_t limit_ms, char *message, size_t capacity);
int32_t perdure_check_activate(perdure_check_host *host, int64_t limit_ms, char *message,
                               size_t capacity);
/* Asks the plugin for a table of its own: 1 if it gives one, 0 if not. */
int32_t perdure_check_query(perdure_check_host *host, const char *name, uint32_t least, int64_t limit_ms);
/* Asks the plugin to stop; 1 if it has nothing to stop. */
int32_t perdure_check_deactivate(perdure_check_host *host, int64_t limit_ms);
/* Waits for lifecycle.stopped: whether it came. */
int32_t perdure_check_stopped(perdure_check_host *host, int64_t limit_ms);
int32_t perdure_check_destroy(perdure_check_host *host, int64_t limit_ms);

/* Begins a call on a thread of its own and returns its number. `cancel_first`: it is cancelled before
 * start runs. `deadline_ms`: from now, 0 = passed already, negative = none. */
uint64_t perdure_check_start(perdure_check_host *host, const char *target, const uint8_t *input,
                             size_t length, int64_t deadline_ms, uint32_t cancel_first);
/* Waits until start has returned and the call is completed or refused: whether it is. */
int32_t perdure_check_wait(perdure_check_host *host, uint64_t call, int64_t limit_ms);
/* Waits until the call has emitted something, or is over: whether either. */
int32_t perdure_check_wait_output(perdure_check_host *host, uint64_t call, int64_t limit_ms);
void perdure_check_cancel(perdure_check_host *host, uint64_t call, uint32_t reason);
perdure_check_call perdure_check_look(perdure_check_host *host, uint64_t call);
/* The bytes of the first completion, its media type, the sentence and the details of its error. */
const uint8_t *perdure_check_value(perdure_check_host *host, uint64_t call, size_t *length);
const char *perdure_check_media_type(perdure_check_host *host, uint64_t call);
const char *perdure_check_error(perdure_check_host *host, uint64_t call);
const char *perdure_check_detail(perdure_check_host *host, uint64_t call);

/* Broken promise number `index` as a sentence, or null. */
const char *perdure_check_offence(perdure_check_host *host, size_t index);
/* Where the plugin says its state and its start function are. */
void perdure_check_places(perdure_check_host *host, uintptr_t *state, uintptr_t *start);

/* Of this process, when things have come to rest: no thread of the host itself counts. */
int64_t perdure_check_threads(void);
int64_t perdure_check_descriptors(void);
void perdure_check_pause(int64_t ms);
int64_t perdure_check_now_ms(void);

/* From now on what the plugin is asked to do is written to `descriptor`, a line "@target" each, and a
 * crash as a line "!what"; the process then ends. */
void perdure_check_tell(int descriptor);
/* Writes a line to that descriptor. */
void perdure_check_say(const uint8_t *line, size_t length);

/* How a process ended. */
typedef struct perdure_check_end {
  int32_t status;    /* exit status, or -1 */
  int32_t signal;    /* that ended it, or 0 */
  int32_t timed_out; /* whether it was killed for taking too long */
  size_t length;     /* of what it told */
} perdure_check_end;

/* Runs this program again in the folder, with arguments that each end with a zero, and no output but
 * on the descriptor `stream` (1 or 3), which goes to `told`; then ends what is left of its process group. Negative if
 * it cannot be started. */
int32_t perdure_check_run(const char *folder, const uint8_t *arguments, size_t length,
                          int stream, int64_t limit_ms, uint8_t *told, size_t capacity,
                          perdure_check_end *end);

/* Makes an empty folder of this user's and writes its path, which fits 4096 bytes; 0 if it could. */
int32_t perdure_check_make_folder(char *path, size_t capacity);
/* Removes a folder with all that is in it. */
void perdure_check_remove_folder(const char *path);

#endif
