/* The filter of system calls, written by hand: about ninety numbers to look for and five arguments
   to compare need no library, and a static launcher stays small. The program runs from top to
   bottom; the first RETURN decides. */
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/ioprio.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <stddef.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "kernel.h"
#include "launch.h"

#if defined(__x86_64__)
#define THIS_ARCHITECTURE AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define THIS_ARCHITECTURE AUDIT_ARCH_AARCH64
#else
#error "seccomp.c knows x86_64 and aarch64"
#endif

#ifndef TIOCLINUX
#define TIOCLINUX 0x541C
#endif

#define MOST_STEPS 512
static struct sock_filter program[MOST_STEPS];
static unsigned short step_count;

#define DENY(error) (SECCOMP_RET_ERRNO | (error))

/* Steps beyond the room are counted and refused at the end. */
static void add(struct sock_filter step) {
  if (step_count < MOST_STEPS) program[step_count] = step;
  step_count++;
}

static void load(size_t offset) {
  add((struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (uint32_t)offset));
}

static void load_number(void) { load(offsetof(struct seccomp_data, nr)); }

/* The low half of an argument: all that the kernel looks at in those that are compared here. */
static void load_argument(int index) {
  load(offsetof(struct seccomp_data, args) + (size_t)index * 8);
}

static void decide(uint32_t action) { add((struct sock_filter)BPF_STMT(BPF_RET | BPF_K, action)); }

static void if_equal(uint32_t value, uint32_t action) {
  add((struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, 0, 1));
  decide(action);
}

static void if_any_bit(uint32_t bits, uint32_t action) {
  add((struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, bits, 0, 1));
  decide(action);
}

/* Begins steps for one call; end_call() must follow. They may not decide for all values: what falls
   through is allowed. */
static unsigned short begin_call(int number) {
  add((struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)number, 0, 0));
  return (unsigned short)(step_count - 1);
}

static void end_call(unsigned short start) {
  decide(SECCOMP_RET_ALLOW);
  if (start < MOST_STEPS) program[start].jf = (unsigned char)(step_count - start - 1);
}

/* Names of calls that one architecture lacks are left out there. */
static const int forbidden[] = {
    /* looking into other processes */
    SYS_process_vm_readv, SYS_process_vm_writev, SYS_kcmp, SYS_pidfd_getfd, SYS_process_madvise,
    SYS_process_mrelease,
    /* wide kernel interfaces with a history, and io_uring makes sockets past this filter */
    SYS_io_uring_setup, SYS_io_uring_enter, SYS_io_uring_register, SYS_userfaultfd, SYS_bpf,
    SYS_perf_event_open, SYS_lookup_dcookie, SYS_fanotify_init, SYS_fanotify_mark,
    /* keyrings belong to the user, not to the namespace */
    SYS_add_key, SYS_request_key, SYS_keyctl,
    /* mounts and namespaces */
    SYS_mount, SYS_umount2, SYS_pivot_root, SYS_chroot, SYS_open_tree, SYS_move_mount, SYS_fsopen,
    SYS_fsconfig, SYS_fsmount, SYS_fspick, SYS_mount_setattr, SYS_setns, SYS_unshare, NR_listmount,
    NR_statmount,
    /* files by handle pass by the tree */
    SYS_open_by_handle_at, SYS_name_to_handle_at,
    /* the machine */
    SYS_quotactl, SYS_quotactl_fd, SYS_acct, SYS_swapon, SYS_swapoff, SYS_reboot, SYS_kexec_load,
    SYS_kexec_file_load, SYS_init_module, SYS_finit_module, SYS_delete_module, SYS_settimeofday,
    SYS_clock_settime, SYS_clock_adjtime, SYS_adjtimex, SYS_sethostname, SYS_setdomainname, SYS_syslog,
    SYS_vhangup, SYS_nfsservctl, SYS_mbind, SYS_migrate_pages, SYS_move_pages, SYS_set_mempolicy,
    SYS_set_mempolicy_home_node,
#ifdef SYS_iopl
    SYS_iopl, SYS_ioperm, SYS_modify_ldt, SYS_ustat, SYS_sysfs, SYS__sysctl, SYS_create_module,
    SYS_get_kernel_syms, SYS_query_module, SYS_uselib,
#endif
};

/* In tiers without an IPC namespace these reach what the host's processes share. */
static const int shared_ipc[] = {
    SYS_shmget, SYS_shmat, SYS_shmdt, SYS_shmctl, SYS_msgget, SYS_msgsnd, SYS_msgrcv, SYS_msgctl,
    SYS_semget, SYS_semop, SYS_semctl, SYS_semtimedop, SYS_mq_open, SYS_mq_unlink, SYS_mq_timedsend,
    SYS_mq_timedreceive, SYS_mq_notify, SYS_mq_getsetattr,
};

static void filter_architecture(void) {
  load(offsetof(struct seccomp_data, arch));
  add((struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, THIS_ARCHITECTURE, 1, 0));
  decide(SECCOMP_RET_KILL_PROCESS);
  load_number();
  /* Calls of the x32 table carry bit 30 and lie above; so do calls newer than this list. */
  add((struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JGT | BPF_K, NR_mseal, 0, 1));
  decide(DENY(ENOSYS));
}

static void filter_clone(void) {
  /* Its flags are in memory, where a filter cannot read. The C library then uses clone. */
  if_equal(SYS_clone3, DENY(ENOSYS));
  unsigned short call = begin_call(SYS_clone);
  load_argument(0);
  if_any_bit(CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWUSER |
                 CLONE_NEWPID | CLONE_NEWNET,
             DENY(EPERM));
  end_call(call);
}

static void filter_terminal(void) {
  /* Compared on 32 bits: the kernel ignores the upper half of the number. */
  unsigned short call = begin_call(SYS_ioctl);
  load_argument(1);
  if_equal(TIOCSTI, DENY(EPERM));
  if_equal(TIOCLINUX, DENY(EPERM));
  if_equal(TIOCSETD, DENY(EPERM));
  end_call(call);
}

static void filter_personality(void) {
  static const uint32_t harmless[] = {0, 8, 0x20000, 0x20008, 0xffffffff};
  unsigned short call = begin_call(SYS_personality);
  load_argument(0);
  for (size_t i = 0; i < sizeof harmless / sizeof *harmless; i++) {
    if_equal(harmless[i], SECCOMP_RET_ALLOW);
  }
  decide(DENY(EPERM));
  end_call(call);
}

static void deny_mode(int number, int argument) {
  unsigned short call = begin_call(number);
  load_argument(argument);
  if_any_bit(S_ISUID | S_ISGID, DENY(EPERM));
  end_call(call);
}

/* Inside, a setuid file gains nothing. Outside it would be a setuid file of the user, or as root
   one of root, that another user of the machine can run. */
static void filter_setuid_files(void) {
  deny_mode(SYS_fchmod, 1);
  deny_mode(SYS_fchmodat, 2);
  deny_mode(NR_fchmodat2, 2);
  deny_mode(SYS_openat, 3);
  deny_mode(SYS_mknodat, 2);
#ifdef SYS_chmod
  deny_mode(SYS_chmod, 1);
  deny_mode(SYS_open, 2);
  deny_mode(SYS_creat, 1);
  deny_mode(SYS_mknod, 1);
#endif
  /* Its mode is in memory. Those who use it fall back to openat. */
  if_equal(SYS_openat2, DENY(ENOSYS));
}

static void filter_debugger(void) {
  if (launch.policy.debugger) return;
  if_equal(SYS_ptrace, DENY(EPERM));
}

/* Memory that belongs to no process' size and no file system's. /dev/shm has a size. */
static void filter_hidden_memory(void) {
  if (launch.policy.cgroups.count > 0) return;
  if_equal(SYS_memfd_create, DENY(ENOSYS));
  if_equal(SYS_memfd_secret, DENY(ENOSYS));
}

/* Inside its own pid namespace a command could blind its keeper, and without one it could slow down or starve the user's other processes,
   which no rule of Landlock covers. 0 is the caller itself. */
static void filter_others(void) {
  static const struct {
    int number, argument;
  } calls[] = {
      {SYS_prlimit64, 0},          {SYS_setpriority, 1},    {SYS_ioprio_set, 1},
      {SYS_sched_setaffinity, 0},  {SYS_sched_setparam, 0}, {SYS_sched_setattr, 0},
      {SYS_sched_setscheduler, 0},
  };
  bool has_own_pids = launch.policy.tier == TIER_NAMESPACES;
  for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
    int number = calls[i].number;
    unsigned short call = begin_call(number);
    if (!has_own_pids && (number == SYS_setpriority || number == SYS_ioprio_set)) {
      /* 0 of a group or of a user is all of its processes. */
      load_argument(0);
      uint32_t process = number == SYS_ioprio_set ? IOPRIO_WHO_PROCESS : PRIO_PROCESS;
      add((struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, process, 1, 0));
      decide(DENY(EPERM));
    }
    load_argument(calls[i].argument);
    if (has_own_pids) {
      /* The keeper, which watches the limits. */
      if_equal(1, DENY(EPERM));
    } else {
      if_any_bit(0xffffffff, DENY(EPERM));
    }
    end_call(call);
  }
}

static bool sockets_allowed(void) {
  return launch.policy.tier == TIER_NAMESPACES || launch.policy.network == NETWORK_HOST;
}

/* Sockets of a name in the file system or without one. Hidden behind the tree in the tier
   `namespaces`, except abstract ones of the host's network without Landlock's scope; reachable in
   the tier `landlock`, whose rules do not cover connect() before ABI 9. */
static bool unix_sockets_allowed(void) {
  if (launch.policy.tier != TIER_NAMESPACES) return false;
  return launch.policy.network != NETWORK_HOST || launch.landlock >= 6;
}

static void filter_sockets(void) {
  unsigned short pair = begin_call(SYS_socketpair);
  load_argument(0);
  add((struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, AF_UNIX, 1, 0));
  decide(DENY(EACCES));
  if (!unix_sockets_allowed()) {
    /* One of a pair is connected for good, except a datagram one, which can send to any name. */
    load_argument(1);
    add((struct sock_filter)BPF_STMT(BPF_ALU | BPF_AND | BPF_K, 0xf));
    if_equal(SOCK_DGRAM, DENY(EACCES));
    if_equal(SOCK_RAW, DENY(EACCES));
  }
  end_call(pair);
  if (!sockets_allowed()) {
    if_equal(SYS_socket, DENY(EACCES));
    return;
  }
  unsigned short call = begin_call(SYS_socket);
  load_argument(0);
  if_equal(AF_INET, SECCOMP_RET_ALLOW);
  if_equal(AF_INET6, SECCOMP_RET_ALLOW);
  if (unix_sockets_allowed()) if_equal(AF_UNIX, SECCOMP_RET_ALLOW);
  /* AF_NETLINK with protocol 0 lists interfaces, for which programs ask; the rest of it, and vsock,
     which no network namespace confines, does not exist. */
  add((struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, AF_NETLINK, 1, 0));
  decide(DENY(EAFNOSUPPORT));
  load_argument(2);
  if_equal(0, SECCOMP_RET_ALLOW);
  decide(DENY(EPERM));
  end_call(call);
}

static void write_program(void) {
  filter_architecture();
  filter_clone();
  filter_terminal();
  filter_personality();
  filter_setuid_files();
  filter_debugger();
  filter_hidden_memory();
  filter_others();
  filter_sockets();
  for (size_t i = 0; i < sizeof forbidden / sizeof *forbidden; i++) {
    if_equal((uint32_t)forbidden[i], DENY(EPERM));
  }
  if (launch.policy.tier != TIER_NAMESPACES) {
    for (size_t i = 0; i < sizeof shared_ipc / sizeof *shared_ipc; i++) {
      if_equal((uint32_t)shared_ipc[i], DENY(EPERM));
    }
  }
  decide(SECCOMP_RET_ALLOW);
}

void restrict_calls(void) {
  enter(stage_seccomp);
  step_count = 0;
  write_program();
  if (step_count > MOST_STEPS) fail(E2BIG, "the filter is too long");
  struct sock_fprog filter = {.len = step_count, .filter = program};
  if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &filter) != 0) fail(errno, "seccomp");
}
