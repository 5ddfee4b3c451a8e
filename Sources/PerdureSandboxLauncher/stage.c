#include "stage.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "launch.h"

struct progress *progress;

static const char *const words[] = {
#define STAGE(identifier, word) word,
    STAGES(STAGE)
#undef STAGE
};

void make_progress_page(void) {
  progress =
      mmap(NULL, sizeof *progress, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (progress == MAP_FAILED) _exit(STATUS_FAILED);
}

const char *stage_word(int stage) {
  return stage >= 0 && stage < stage_count ? words[stage] : "unknown";
}

void enter(enum stage stage) {
  progress->stage = (int)stage;
#ifdef PERDURE_SANDBOX_FAULTS
  if (launch.policy.fault_stage == (uint64_t)stage && stage != stage_descriptors) {
    if (launch.policy.fault_error == 0) {
      while (true) pause();
    }
    if (launch.policy.fault_error == 999) abort();
    fail((int)launch.policy.fault_error, "injected");
  }
#endif
}

/* Copies `text` with %XX for what could break a line or a terminal. */
static size_t escape(char *to, size_t room, const char *text) {
  size_t length = 0;
  for (; *text != 0 && length + 4 < room; text++) {
    unsigned char byte = (unsigned char)*text;
    if (byte < 0x20 || byte == 0x7f || byte == '%') {
      length += (size_t)snprintf(to + length, 4, "%%%02X", byte);
    } else {
      to[length++] = (char)byte;
    }
  }
  return length;
}

/* A record is written in one piece: below PIPE_BUF, so records of two processes never mix. */
static void write_record(const char *text) {
  char line[4000];
  size_t length = escape(line, sizeof line - 1, text);
  line[length++] = '\n';
  while (write(FD_STATUS, line, length) < 0 && errno == EINTR) {
  }
}

void report(const char *format, ...) {
  char text[3600];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  write_record(text);
}

static bool file_says(const char *path, char expected) {
  char first = 0;
  int file = open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return false;
  bool same = read(file, &first, 1) == 1 && first == expected;
  close(file);
  return same;
}

/* AppArmor lets the namespace be made and then denies what it is for, at whatever stage that is
   tried first. NULL if it is not the reason. */
static const char *apparmor_remedy(void) {
  if (launch.as_root) return NULL;
  if (!file_says("/proc/sys/kernel/apparmor_restrict_unprivileged_userns", '1')) return NULL;
  return "AppArmor restricts user namespaces: install a profile for perdure-sandbox with "
         "'userns,', or set "
         "kernel.apparmor_restrict_unprivileged_userns=0";
}

static const char *namespace_remedy(int error) {
  if (file_says("/proc/sys/kernel/unprivileged_userns_clone", '0')) {
    return "set kernel.unprivileged_userns_clone=1";
  }
  if (error == ENOSPC || file_says("/proc/sys/user/max_user_namespaces", '0')) {
    return "raise user.max_user_namespaces";
  }
  if (error == EPERM || error == EACCES) {
    return "the container forbids namespaces: start it with --security-opt seccomp=unconfined (and "
           "--security-opt apparmor=unconfined), or use the tier landlock";
  }
  return "use a kernel with user, mount, pid and network namespaces, or the tier landlock";
}

static const char *tree_remedy(int error) {
  const char *known = apparmor_remedy();
  if (known != NULL && (error == EPERM || error == EACCES)) return known;
  return "allow mounts in the container: --cap-add SYS_ADMIN or --security-opt seccomp=unconfined";
}

static const char *remedy(int stage, int error) {
  switch (stage) {
    case stage_descriptors: return "give the launcher pipes or /dev/null, never a file or terminal";
    case stage_policy: return "use the host and the launcher of one release";
    case stage_require: return "choose a tier that gives it, or require less";
    case stage_cgroup: return "delegate the cgroup to this user, or name none";
    case stage_users:
      if (launch.as_root) return "name a range of ids that no account uses; see /etc/subuid";
      if (launch.policy.run_as) return "start the launcher as root, or as that user";
      /* fall through */
    case stage_namespaces: {
      const char *known = apparmor_remedy();
      return known != NULL ? known : namespace_remedy(error);
    }
    case stage_network:
    case stage_root:
    case stage_pivot:
    case stage_devices:
    case stage_system: return tree_remedy(error);
    case stage_mount: return "check that the directory exists, is no link, and was not replaced";
    case stage_idmap:
      return "the file system has no idmapped mounts, so root cannot work there: keep the workspace "
             "on another one, or let another user own it, as whom commands then run";
    case stage_proc:
      return "the container masks parts of /proc: start it with --security-opt "
             "systempaths=unconfined, "
             "or allow a sandbox without /proc";
    case stage_landlock:
      return "use a kernel with Landlock (5.13, lsm=landlock), or the tier namespaces";
    case stage_seccomp: return "use a kernel with CONFIG_SECCOMP_FILTER";
    case stage_directory: return "name a directory that exists inside the sandbox";
    case stage_exec: return "name a program that exists inside the sandbox";
    default: return "see the kernel's log";
  }
}

void fail_with(int error, const char *detail, const char *remedy_text) {
  if (!progress->failed) {
    progress->failed = true;
    report("failed %s %d %s", stage_word(progress->stage), error, detail);
    report("remedy %s", remedy_text);
  }
  _exit(STATUS_FAILED);
}

void fail(int error, const char *detail) {
  fail_with(error, detail, remedy(progress->stage, error));
}
