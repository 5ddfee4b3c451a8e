/* Stages of the launch, and the one way to fail in one of them. */
#ifndef PERDURE_SANDBOX_STAGE_H
#define PERDURE_SANDBOX_STAGE_H

#include <stdbool.h>
#include <stdint.h>

/* In the order in which they are entered. STAGE(identifier, word in the records) */
#define STAGES(STAGE) \
  STAGE(descriptors, "descriptors") \
  STAGE(policy, "policy") \
  STAGE(require, "require") \
  STAGE(cgroup, "cgroup") \
  STAGE(namespaces, "namespaces") \
  STAGE(users, "users") \
  STAGE(network, "network") \
  STAGE(root, "root") \
  STAGE(system, "system") \
  STAGE(devices, "devices") \
  STAGE(mount, "mount") \
  STAGE(idmap, "idmap") \
  STAGE(protect, "protect") \
  STAGE(proc, "proc") \
  STAGE(pivot, "pivot") \
  STAGE(limits, "limits") \
  STAGE(capabilities, "capabilities") \
  STAGE(landlock, "landlock") \
  STAGE(seccomp, "seccomp") \
  STAGE(terminal, "terminal") \
  STAGE(directory, "directory") \
  STAGE(exec, "exec") \
  STAGE(running, "running")

enum stage {
#define STAGE(identifier, word) stage_##identifier,
  STAGES(STAGE)
#undef STAGE
  stage_count,
};

/* One page that all processes of one launch share, because the monitor must know how far a keeper
   came that can say nothing any more. */
struct progress {
  volatile int stage;
  volatile bool failed;  /* a failure was reported */
  volatile bool exited;  /* the command's end was reported */
  volatile int result;   /* exit status for the host, once `exited` */
};

extern struct progress *progress;

void make_progress_page(void);

/* Notes where the launch is. A build with -DPERDURE_SANDBOX_FAULTS can fail or stall here. */
void enter(enum stage stage);

const char *stage_word(int stage);

/* Reports a failure of the current stage and ends this process. `detail` names the object. */
void fail(int error, const char *detail) __attribute__((noreturn));

/* As fail(), with a remedy that only the caller knows. */
void fail_with(int error, const char *detail, const char *remedy) __attribute__((noreturn));

/* Writes one record, `format` without a newline. Control characters and '%' in strings become
   %XX. */
void report(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* What a launcher that failed ends with: 125, as env(1) and timeout(1) do. */
#define STATUS_FAILED 125

#endif
