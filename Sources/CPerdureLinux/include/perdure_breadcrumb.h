#ifndef PERDURE_BREADCRUMB_H
#define PERDURE_BREADCRUMB_H

/* Which plugin's code a thread is running, for the one who explains a crash. */
typedef struct perdure_breadcrumb {
  const char *plugin; /* the plugin's id */
  const char *target; /* such as "tool:grep" or "done:log" */
  unsigned long long call;
} perdure_breadcrumb;

/* Says that this thread enters code of a plugin. The strings must stay valid for ever. */
void perdure_breadcrumb_enter(const char *plugin, const char *target, unsigned long long call);

/* Says that this thread left the code of the plugin. */
void perdure_breadcrumb_leave(void);

/* Copies what this thread entered and did not leave; 0 if it runs no plugin's code. Safe in a signal
 * handler that runs on the thread that crashed. */
int perdure_breadcrumb_current(perdure_breadcrumb *out);

/* Says on standard error which plugin it was when the process crashes in one; then the crash goes on
 * as it would have. */
void perdure_breadcrumb_report_crashes(void);

/* From now on such a crash also leaves a file with the plugin's id as its name in the folder that the
 * outgoing text of perdure_text.h names, with what it was in; 0 or -errno. Called before the above. */
int perdure_breadcrumb_keep_crashes(void);

/* Leaves such a file for the plugin whose code this thread runs, if any: when the plugin ends the
 * process without a crash. */
void perdure_breadcrumb_mark(void);

enum perdure_breadcrumb_part { PERDURE_BREADCRUMB_PLUGIN = 0, PERDURE_BREADCRUMB_TARGET = 1 };

/* Copies the plugin's id, or what it was in, into the incoming text of perdure_text.h; the length, or
 * -ENOENT if this thread runs no plugin's code. */
long long perdure_breadcrumb_tell(int part);

/* Gives the calling thread a stack for signals, so that a stack that overflows is told of. */
void perdure_breadcrumb_signal_stack(void);

#endif
