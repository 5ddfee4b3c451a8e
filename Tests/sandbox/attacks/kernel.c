/* kernel HOST-PROCESS: system calls that a command must not make, and rights that it must not
   have. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/shm.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/timex.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "attempt.h"

static void other_processes(int host) {
  ATTEMPT("59.host", kill(host, SIGTERM));
  ATTEMPT("59.host-0", kill(host, 0));
  ATTEMPT("59.init", kill(1, SIGTERM));
  ATTEMPT("59.group", kill(-host, SIGTERM));
  ATTEMPT("59.keeper", getppid() == 1 ? (errno = EPERM, -1) : kill(getppid(), SIGKILL));
  ATTEMPT("59.sigqueue", sigqueue(host, SIGTERM, (union sigval){0}));
  ATTEMPT("59.pidfd", ({
            int handle = (int)syscall(SYS_pidfd_open, host, 0);
            handle < 0 ? -1 : syscall(SYS_pidfd_send_signal, handle, SIGTERM, NULL, 0);
          }));
  ATTEMPT("59.setown", ({
            int ends[2];
            int result = pipe(ends);
            if (result == 0) result = fcntl(ends[0], F_SETOWN, host);
            if (result == 0) result = fcntl(ends[0], F_SETSIG, SIGKILL);
            if (result == 0) result = fcntl(ends[0], F_SETFL, O_ASYNC);
            if (result == 0 && write(ends[1], "x", 1) != 1) result = -1;
            result;
          }));
  ATTEMPT("60.attach-host", ptrace(PTRACE_ATTACH, host, 0, 0));
  ATTEMPT("60.attach-init", ptrace(PTRACE_ATTACH, 1, 0, 0));
  ATTEMPT("60.attach-keeper", ptrace(PTRACE_SEIZE, getppid(), 0, 0));
  ATTEMPT("60.traceme", ptrace(PTRACE_TRACEME, 0, 0, 0));
  char byte;
  struct iovec here = {&byte, 1}, there = {(void *)0x400000, 1};
  ATTEMPT("60.vm-readv", process_vm_readv(getppid(), &here, 1, &there, 1, 0));
  ATTEMPT("60.vm-writev", process_vm_writev(getppid(), &here, 1, &there, 1, 0));
  ATTEMPT("60.getfd", syscall(SYS_pidfd_getfd, 0, 1, 0));
  ATTEMPT("60.kcmp", syscall(SYS_kcmp, 1, getpid(), 0, 0, 0));
  ATTEMPT("60.prlimit-host", prlimit(host, RLIMIT_NOFILE, &(struct rlimit){1, 1}, NULL));
  ATTEMPT("60.setpriority-host", setpriority(PRIO_PROCESS, (id_t)host, 19));
  ATTEMPT("60.prlimit-keeper", prlimit(1, RLIMIT_NOFILE, &(struct rlimit){3, 3}, NULL));
  ATTEMPT("60.setpriority-keeper", setpriority(PRIO_PROCESS, 1, 19));
  ATTEMPT("60.scheduler-keeper", sched_setscheduler(1, SCHED_IDLE, &(struct sched_param){0}));
}

static int empty(void *nothing) {
  (void)nothing;
  return 0;
}

static void namespaces(void) {
  static char stack[65536];
  struct {
    const char *name;
    int flag;
  } kinds[] = {{"user", CLONE_NEWUSER},     {"mount", CLONE_NEWNS}, {"pid", CLONE_NEWPID},
               {"net", CLONE_NEWNET},       {"ipc", CLONE_NEWIPC},  {"uts", CLONE_NEWUTS},
               {"cgroup", CLONE_NEWCGROUP}, {"time", 0x80}};
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
    char row[32];
    snprintf(row, sizeof row, "79.unshare-%s", kinds[i].name);
    ATTEMPT(row, unshare(kinds[i].flag));
    if (kinds[i].flag == 0x80) continue;
    snprintf(row, sizeof row, "79.clone-%s", kinds[i].name);
    ATTEMPT(row, clone(empty, stack + sizeof stack, kinds[i].flag | SIGCHLD, NULL));
  }
  uint64_t arguments[11] = {CLONE_NEWUSER, 0, 0, 0, SIGCHLD};
  ATTEMPT("79.clone3", syscall(SYS_clone3, arguments, sizeof arguments));
  ATTEMPT("79.setns", ({
            int space = open("/proc/self/ns/mnt", O_RDONLY);
            setns(space, 0);
          }));
}

static void interfaces(void) {
  char space[256] = {0};
  ATTEMPT("81.io-uring", syscall(SYS_io_uring_setup, 8, space));
  ATTEMPT("82.userfaultfd", syscall(SYS_userfaultfd, 1));
  ATTEMPT("82.bpf", syscall(SYS_bpf, 0, space, 64));
  ATTEMPT("82.perf", syscall(SYS_perf_event_open, space, 0, -1, -1, 0));
  ATTEMPT("82.fanotify", syscall(SYS_fanotify_init, 0, 0));
  ATTEMPT("83.add-key", syscall(SYS_add_key, "user", "x", "y", 1, -3));
  ATTEMPT("83.request-key", syscall(SYS_request_key, "user", "x", NULL, 0));
  ATTEMPT("83.keyctl", syscall(SYS_keyctl, 0, -3, 1));
  struct timespec time = {1, 0};
  struct timex adjust = {.modes = ADJ_OFFSET};
  ATTEMPT("84.settime", clock_settime(CLOCK_REALTIME, &time));
  ATTEMPT("84.adjtimex", adjtimex(&adjust));
  ATTEMPT("84.hostname", sethostname("x", 1));
  ATTEMPT("84.reboot", syscall(SYS_reboot, 0xfee1dead, 672274793, 0, NULL));
  ATTEMPT("84.module", syscall(SYS_finit_module, 0, "", 0));
  ATTEMPT("84.syslog", syscall(SYS_syslog, 3, space, sizeof space));
  ATTEMPT("84.swapon", syscall(SYS_swapon, "/dev/null", 0));
  ATTEMPT("84.kexec", syscall(SYS_kexec_load, 0, 0, NULL, 0));
  ATTEMPT("84.acct", syscall(SYS_acct, NULL));
  ATTEMPT("84.quotactl", syscall(SYS_quotactl, 0, NULL, 0, NULL));
  ATTEMPT("85.tiocsti", ioctl(0, TIOCSTI, "x"));
  ATTEMPT("85.tiocsti-high", syscall(SYS_ioctl, 0, TIOCSTI | 1UL << 32, "x"));
  ATTEMPT("85.tioclinux", ioctl(0, 0x541C, "x"));
  ATTEMPT("85.tiocsetd", ioctl(0, 0x5423, "x"));
  ATTEMPT("88.personality", personality(READ_IMPLIES_EXEC));
  ATTEMPT("88.personality-query", personality(0xffffffff));
  ATTEMPT("80.unknown", syscall(600, 0));
  ATTEMPT("80.negative", syscall(-1000, 0));
  ATTEMPT("69.memfd", memfd_create("x", 0));
  ATTEMPT("69.memfd-secret", syscall(447, 0));
}

/* How a child ends that runs `attack`. */
static void in_child(const char *row, void (*attack)(void)) {
  pid_t child = fork();
  if (child == 0) {
    attack();
    _exit(0);
  }
  int status;
  waitpid(child, &status, 0);
  if (WIFSIGNALED(status)) {
    char text[32];
    snprintf(text, sizeof text, "SIG%s", sigabbrev_np(WTERMSIG(status)));
    say(row, text);
  } else {
    say(row, "lived");
  }
}

#if defined(__x86_64__)
static void call_i386(void) {
  long result;
  /* getpid of the 32 bit table */
  __asm__ volatile("int $0x80" : "=a"(result) : "a"(20L) : "memory");
  (void)result;
}
#endif

static void architecture(void) {
#if defined(__x86_64__)
  in_child("86.i386", call_i386);
  ATTEMPT("86.x32", syscall(0x40000000 | SYS_getpid));
  ATTEMPT("86.x32-unshare", syscall(0x40000000 | SYS_unshare, CLONE_NEWUSER));
#else
  say("86.i386", "SIGSYS");
  say("86.x32", "ENOSYS");
  say("86.x32-unshare", "ENOSYS");
#endif
}

static void rights(void) {
  struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
  struct __user_cap_data_struct sets[2];
  syscall(SYS_capget, &header, sets);
  uint32_t any = 0;
  for (int i = 0; i < 2; i++) any |= sets[i].effective | sets[i].permitted | sets[i].inheritable;
  say("91.capabilities", any == 0 ? "none" : "some");
  say("91.no-new-privs", prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1 ? "set" : "unset");
  sets[0].effective = sets[0].permitted = 1 << CAP_SYS_ADMIN;
  ATTEMPT("91.capset", syscall(SYS_capset, &header, sets));
  ATTEMPT("91.ambient", prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, CAP_SYS_ADMIN, 0, 0));
  ATTEMPT("91.setuid-other", setresuid(12345, 12345, 12345));
  ATTEMPT("91.setgroups", syscall(SYS_setgroups, 0, NULL));
}

static void limits(void) {
  struct rlimit limit;
  getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_max = limit.rlim_cur = limit.rlim_max + 1;
  ATTEMPT("72.nofile", setrlimit(RLIMIT_NOFILE, &limit));
  ATTEMPT("72.data", setrlimit(RLIMIT_DATA, &(struct rlimit){RLIM_INFINITY, RLIM_INFINITY}));
  ATTEMPT("72.nice", setpriority(PRIO_PROCESS, 0, -5));
  ATTEMPT("72.fifo", sched_setscheduler(0, SCHED_FIFO, &(struct sched_param){1}));
  ATTEMPT("72.ioprio", syscall(SYS_ioprio_set, 1, 0, 1 << 13));
  ATTEMPT("72.setpriority-user", setpriority(PRIO_USER, 0, 10));
  ATTEMPT("72.ioprio-user", syscall(SYS_ioprio_set, 3, 0, 2 << 13 | 7));
  void *memory = mmap(NULL, 32 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ATTEMPT("72.mlock", mlock(memory, 32 << 20));
  getrlimit(RLIMIT_CORE, &limit);
  say("73.core", limit.rlim_max == 0 ? "0" : "more");
  int flags = MAP_PRIVATE | MAP_ANONYMOUS;
  ATTEMPT("67.memory",
          mmap(NULL, (size_t)1 << 33, PROT_READ | PROT_WRITE, flags, -1, 0) == MAP_FAILED ? -1 : 0);
}

static void shared(void) {
  int key = shmget(0x70657264, 4096, 0600);
  tell("98.host-shm", key);
  key = shmget(IPC_PRIVATE, 4096, IPC_CREAT | 0600);
  tell("98.own-shm", key);
  if (key >= 0) shmctl(key, IPC_RMID, NULL);
}

/* Rules on top of rules: allowed, and never wider. */
static void nested(void) {
  uint64_t rules = 1ULL << 2;
  long result = 0;
  int layers = 0;
  while (result >= 0 && layers < 20) {
    int set = (int)syscall(444, &rules, sizeof rules, 0);
    result = syscall(446, set, 0);
    int error = errno;
    close(set);
    errno = error;
    layers++;
  }
  tell("90.landlock-layers", result);
  struct sock_filter allow = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
  struct sock_fprog program = {1, &allow};
  ATTEMPT("90.filter", syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program));
  ATTEMPT("90.still-denied", unshare(CLONE_NEWUSER));
}

int main(int count, char **arguments) {
  if (count != 2) return 2;
  other_processes(atoi(arguments[1]));
  namespaces();
  interfaces();
  architecture();
  rights();
  limits();
  shared();
  nested();
  return 0;
}
