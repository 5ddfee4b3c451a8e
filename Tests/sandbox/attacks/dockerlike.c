/* dockerlike PROGRAM ARGUMENT...: runs a program as a default container would: few
   capabilities, and a filter that denies namespaces, mounts and clone3. No attack; the third
   row of the matrix. */
#define _GNU_SOURCE
#include <linux/audit.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "attempt.h"

#define NAMESPACES \
  (CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWUSER | CLONE_NEWPID | \
   CLONE_NEWNET)

static const unsigned kept[] = {
    CAP_CHOWN,      CAP_DAC_OVERRIDE, CAP_FSETID,  CAP_FOWNER,      CAP_MKNOD,
    CAP_NET_RAW,    CAP_SETGID,       CAP_SETUID,  CAP_SETFCAP,     CAP_NET_BIND_SERVICE,
    CAP_SYS_CHROOT, CAP_KILL,         CAP_SETPCAP, CAP_AUDIT_WRITE,
};

static const int denied[] = {
    SYS_mount,      SYS_umount2, SYS_unshare, SYS_setns,    SYS_pivot_root, SYS_open_tree,
    SYS_move_mount, SYS_fsopen,  SYS_fsmount, SYS_fsconfig, SYS_fspick,     SYS_mount_setattr,
};

static void drop(void) {
  unsigned set[2] = {0};
  for (size_t i = 0; i < sizeof kept / sizeof *kept; i++) set[kept[i] / 32] |= 1U << (kept[i] % 32);
  for (unsigned i = 0; i < 64; i++) {
    if ((set[i / 32] >> (i % 32) & 1) == 0) prctl(PR_CAPBSET_DROP, i, 0, 0, 0);
  }
  struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
  struct __user_cap_data_struct sets[2] = {{0}};
  for (int i = 0; i < 2; i++) sets[i].effective = sets[i].permitted = set[i];
  if (syscall(SYS_capset, &header, sets) != 0) {
    perror("capset");
    exit(124);
  }
}

int main(int count, char **arguments) {
  if (count < 2) return 2;
  if (geteuid() == 0) drop();
  struct sock_filter program[64];
  unsigned short length = 0;
  program[length++] =
      (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
  for (size_t i = 0; i < sizeof denied / sizeof *denied; i++) {
    program[length++] =
        (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)denied[i], 0, 1);
    program[length++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM);
  }
  program[length++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone3, 0, 1);
  program[length++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS);
  program[length++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone, 0, 3);
  program[length++] =
      (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args));
  program[length++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, NAMESPACES, 0, 1);
  program[length++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM);
  program[length++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
  struct sock_fprog filter = {length, program};
  prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &filter) != 0) {
    perror("seccomp");
    return 124;
  }
  execv(arguments[1], arguments + 1);
  perror(arguments[1]);
  return 124;
}
