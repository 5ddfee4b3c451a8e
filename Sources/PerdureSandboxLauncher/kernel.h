/* The kernel interface where the headers of Debian 12 (Linux 6.1) are too old for it. Everything
   here is user space ABI of Linux and cannot change; the first kernel that has it is noted. */
#ifndef PERDURE_SANDBOX_KERNEL_H
#define PERDURE_SANDBOX_KERNEL_H

#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Landlock: file rights by the version of its ABI that brought them. */
#define LL_FS_EXECUTE (1ULL << 0)
#define LL_FS_WRITE_FILE (1ULL << 1)
#define LL_FS_READ_FILE (1ULL << 2)
#define LL_FS_READ_DIR (1ULL << 3)
#define LL_FS_REMOVE_DIR (1ULL << 4)
#define LL_FS_REMOVE_FILE (1ULL << 5)
#define LL_FS_MAKE_CHAR (1ULL << 6)
#define LL_FS_MAKE_DIR (1ULL << 7)
#define LL_FS_MAKE_REG (1ULL << 8)
#define LL_FS_MAKE_SOCK (1ULL << 9)
#define LL_FS_MAKE_FIFO (1ULL << 10)
#define LL_FS_MAKE_BLOCK (1ULL << 11)
#define LL_FS_MAKE_SYM (1ULL << 12)
#define LL_FS_REFER (1ULL << 13)        /* ABI 2 */
#define LL_FS_TRUNCATE (1ULL << 14)     /* ABI 3 */
#define LL_FS_IOCTL_DEV (1ULL << 15)    /* ABI 5 */
#define LL_FS_RESOLVE_UNIX (1ULL << 16) /* ABI 9 */

#define LL_NET_BIND_TCP (1ULL << 0)    /* ABI 4 */
#define LL_NET_CONNECT_TCP (1ULL << 1) /* ABI 4 */

#define LL_SCOPE_ABSTRACT_UNIX (1ULL << 0) /* ABI 6 */
#define LL_SCOPE_SIGNAL (1ULL << 1)        /* ABI 6 */

#define LL_CREATE_VERSION 1U
#define LL_RULE_PATH_BENEATH 1
#define LL_RESTRICT_LOG_SAME_EXEC_OFF 1U /* ABI 7 */

struct ll_ruleset {
  uint64_t fs;
  uint64_t net;    /* ABI 4 */
  uint64_t scoped; /* ABI 6 */
};

struct ll_path {
  uint64_t allowed;
  int32_t parent;
} __attribute__((packed));

#ifndef SYS_landlock_create_ruleset
#define SYS_landlock_create_ruleset 444
#define SYS_landlock_add_rule 445
#define SYS_landlock_restrict_self 446
#endif

/* System calls since Linux 6.5; their numbers are the same on every architecture. */
#define NR_cachestat 451
#define NR_fchmodat2 452
#define NR_map_shadow_stack 453
#define NR_futex_wake 454
#define NR_futex_wait 455
#define NR_futex_requeue 456
#define NR_statmount 457
#define NR_listmount 458
#define NR_lsm_get_self_attr 459
#define NR_lsm_set_self_attr 460
#define NR_lsm_list_modules 461
#define NR_mseal 462

#endif
