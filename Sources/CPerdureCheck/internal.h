/* Shared by the files of the checking host. */
#ifndef PERDURE_CHECK_INTERNAL_H
#define PERDURE_CHECK_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>

#include "perdure.h"
#include "perdure_check.h"

#define CHECK_CALLS 4096
#define CHECK_REQUESTS 16384
#define CHECK_OFFENCES 64
#define CHECK_CREDIT (256u << 10)

/* Memory that the plugin may read until it is taken away. */
typedef struct check_loan {
  void *pages; /* null: not guarded */
  size_t size;
  size_t index;
  const uint8_t *bytes;
} check_loan;

typedef struct check_request {
  pdr_id id, call;
  pdr_done done;
  void *arg;
  char op[64];
  int64_t due_ms; /* when it is done */
  int32_t status;
  int is_open;
} check_request;

typedef struct check_call {
  pdr_id id;
  perdure_check_host *host;
  char target[192];
  check_loan input, name, blob, frame;
  int64_t deadline_ms, began_us;
  perdure_check_call seen;
  int is_begun, is_over;
  uint32_t cancelled;
  uint64_t credit;
  uint32_t blocked; /* emits without credit since the last flush */
  pdr_cancel_fn on_cancel;
  void *on_cancel_arg;
  uint8_t *value;
  size_t length;
  char media_type[64];
  char error[1024];
  char detail[1024];
} check_call;

struct perdure_check_host {
  perdure_check_options options;
  pthread_mutex_t lock;
  pthread_cond_t news;
  pdr_host *lent;
  pdr_calls_1 *calls_table;
  pdr_invoke_1 *invoke_table;
  pdr_plugin *plugin; /* as the plugin filled it in, never beyond its size */
  pdr_plugin code;    /* what of it counts */
  int32_t (*entry)(const pdr_host *, pdr_plugin *, pdr_errbuf *);
  int is_destroyed, has_dispatcher;
  pdr_id ticket;
  int is_stopped;
  uint32_t generation;
  check_call *calls[CHECK_CALLS];
  size_t call_count;
  check_request *requests;
  size_t request_count;
  char *offences[CHECK_OFFENCES];
  size_t offence_count;
};

extern _Atomic int64_t check_own_threads;
/* Whether this thread runs a release function, or the entry function. */
extern _Thread_local int check_is_releasing;
extern _Thread_local int check_is_entering;

void check_lend_tables(perdure_check_host *host);
void check_offend(perdure_check_host *host, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void check_offend_locked(perdure_check_host *host, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
check_call *check_find(perdure_check_host *host, pdr_id id);
void check_end_requests(perdure_check_host *host, pdr_id call);
void check_dispatch(perdure_check_host *host);

check_loan check_lend(const void *bytes, size_t length, int guarded, const char *what);
void check_take_back(check_loan *loan);

int64_t check_now_us(void);
void check_wait_news(perdure_check_host *host, int64_t until_us);
/* Runs body on a detached thread; whether it could. */
int check_spawn(void (*body)(void *), void *argument);
void check_enter_code(const char *target);

#endif
