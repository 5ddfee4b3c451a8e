/* A plugin whose life cycle goes wrong in the way that WRONG names, and whose manifest may be given. */
#include <time.h>
#include <unistd.h>

#include "perdure_easy.h"

#define ENTRY_REFUSES 1
#define NO_START 2
#define ACTIVATE_REFUSES 3
#define SETTINGS_REFUSED 4
#define NEVER_STOPS 5
#define HANGS 6
#define UNKNOWN_FLAG 7
#define NO_ENTRY 8
#define NO_NOTE 9
#define NO_MANIFEST 10

#ifndef WRONG
#define WRONG 0
#endif
#ifndef MAJOR
#define MAJOR PDR_ABI_MAJOR
#endif
#ifndef MINOR
#define MINOR 0
#endif

#if WRONG != NO_NOTE
static const pdr_note note PDR_SECTION_(PDR_NOTE_SECTION, 4) = {
    8, (uint32_t)sizeof(pdr_note_desc), PDR_NOTE_TYPE, PDR_NOTE_OWNER,
    {(uint32_t)sizeof(pdr_note_desc), MAJOR, MINOR, 1, 0u, "c"}};
#endif

#if WRONG != NO_MANIFEST
PDR_MANIFEST_FILE(MANIFEST);
#endif

static const pdr_calls_1 *calls;

static int32_t refuse(pdr_errbuf *err, const char *sentence) {
  return pdr_easy_refuse_(err, PDR_E_UNSUPPORTED, sentence);
}

static int32_t activate(void *state, pdr_errbuf *err) {
  (void)state;
  return WRONG == ACTIVATE_REFUSES ? refuse(err, "the licence has expired") : PDR_OK;
}

static int32_t start(void *state, const pdr_call *call) {
  (void)state;
  if (call->target.len == 16 && WRONG == SETTINGS_REFUSED) {
    pdr_err err = {sizeof err, PDR_E_INVALID, PDR_ERR_USER_VISIBLE, 0,
                   pdr_easy_str("colour must be blue"), {NULL, 0}};
    calls->complete(calls->ctx, call->id, PDR_E_INVALID, NULL, &err);
    return PDR_OK;
  }
  if (WRONG == HANGS) {
    pdr_blob ready = {sizeof ready, 0, (const uint8_t *)"ready", 5, pdr_easy_str(PDR_MEDIA_TEXT), NULL, NULL};
    calls->emit(calls->ctx, call->id, &ready);
    for (;;) pause();
  }
  return calls->complete(calls->ctx, call->id, PDR_OK, NULL, NULL);
}

static int32_t deactivate(void *state, pdr_id ticket, uint64_t deadline) {
  (void)state, (void)ticket, (void)deadline;
  return PDR_OK;
}

#if WRONG == NO_ENTRY
PDR_EXPORT int32_t perdure_plugin_2(const pdr_host *host, pdr_plugin *out, pdr_errbuf *err);
PDR_EXPORT int32_t perdure_plugin_2(const pdr_host *host, pdr_plugin *out, pdr_errbuf *err) {
#else
PDR_EXPORT int32_t perdure_plugin_1(const pdr_host *host, pdr_plugin *out, pdr_errbuf *err) {
#endif
  if (WRONG == ENTRY_REFUSES) return refuse(err, "the host is not to my taste");
  calls = host->query(host->ctx, pdr_easy_str(PDR_CALLS_1), sizeof *calls);
  if (WRONG != NO_START) out->start = start;
  if (WRONG == UNKNOWN_FLAG) out->flags = 0x10000;
  out->activate = activate;
  if (WRONG == NEVER_STOPS) out->deactivate = deactivate;
  return PDR_OK;
}
