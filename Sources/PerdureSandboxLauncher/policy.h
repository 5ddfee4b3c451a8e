/* The policy message: what the host wants, in a form that has one reading.

     message  8 bytes "PDRSBOX1", u32 count, then `count` fields and nothing after them
     field    u16 tag, u16 number of values, then the values
     value    u32 length, that many bytes, one NUL byte

   All numbers are little endian. A value of kind `n` is a number of exactly 8 bytes; one of kind `s`
   is a string without a NUL inside. An unknown tag, a wrong number of values, a second field of a
   tag that may stand once, a value out of range, a byte too many: each is an error, and nothing is
   done. */
#ifndef PERDURE_SANDBOX_POLICY_H
#define PERDURE_SANDBOX_POLICY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum tier { TIER_NAMESPACES = 1, TIER_LANDLOCK = 2, TIER_NONE = 3 };
enum network { NETWORK_OFF = 0, NETWORK_LOOPBACK = 1, NETWORK_ALLOW = 2, NETWORK_HOST = 3 };
enum { ACCESS_READ = 1, ACCESS_WRITE = 2 };
enum { MOUNT_EXEC = 1 };
enum { LISTEN_TCP = 1, LISTEN_UDP = 2 };
enum { WANT_ROOT = 1 };

/* FIELD(number, name, kinds of its values, may stand more than once, allowed in an order to a
   holder) */
#define POLICY_FIELDS(FIELD) \
  FIELD(1, tier, "n", false, false) \
  FIELD(2, users, "nn", false, false)      /* first host id of the foreign range, count */ \
  FIELD(3, run_as, "nn", false, false)     /* uid and gid to become first; never 0 */ \
  FIELD(4, system, "", false, false)       /* the machine's programs and libraries, read only */ \
  FIELD(5, mount, "nnssnn", true, false)   /* access, flags, inside, outside, device, inode */ \
  FIELD(6, protect, "s", true, false)      /* path inside that becomes read only */ \
  FIELD(7, hide, "s", true, false)         /* path inside that looks empty */ \
  FIELD(8, network, "n", false, false) \
  FIELD(9, listen, "nn", true, false)      /* LISTEN_…, port */ \
  FIELD(10, environment, "s", true, true)  /* NAME=value */ \
  FIELD(11, argument, "s", true, true) \
  FIELD(12, directory, "s", false, true) \
  FIELD(13, terminal, "nn", false, true)   /* rows, columns */ \
  FIELD(14, debugger, "", false, false) \
  FIELD(15, holder, "", false, false) \
  FIELD(16, cgroup, "s", true, false)      /* a cgroup.procs file to enter */ \
  FIELD(17, require, "s", true, false) \
  FIELD(18, without_proc, "", false, false) /* go on where /proc cannot be had */ \
  FIELD(19, deadline, "n", false, true)    /* milliseconds for the launch itself */ \
  FIELD(20, descriptors, "n", false, false) /* WANT_… */ \
  FIELD(30, limit_data, "n", false, true)        /* bytes of a process */ \
  FIELD(31, limit_memory, "n", false, true)      /* bytes of the tree */ \
  FIELD(32, limit_processes, "n", false, true) \
  FIELD(33, limit_cpu, "n", false, true)         /* seconds of a process */ \
  FIELD(34, limit_time, "n", false, true)        /* milliseconds */ \
  FIELD(35, limit_file, "n", false, true)        /* bytes of a file */ \
  FIELD(36, limit_disk_floor, "n", false, true)  /* bytes that stay free */ \
  FIELD(37, limit_descriptors, "n", false, true) \
  FIELD(38, limit_scratch, "n", false, false)    /* bytes of /tmp and its like together */ \
  FIELD(39, grace, "n", false, true)             /* milliseconds between SIGTERM and SIGKILL */

#ifdef PERDURE_SANDBOX_FAULTS
#define POLICY_FAULT(FIELD) FIELD(90, fault, "nn", false, false) /* stage, errno or 0 to stall */
#else
#define POLICY_FAULT(FIELD)
#endif

struct mount_entry {
  int access;
  int flags;
  const char *inside;
  const char *outside;
  uint64_t device; /* 0: any */
  uint64_t inode;
};

struct listener {
  int kind;
  int port;
};

struct text_list {
  const char **items;
  size_t count;
};

#define LARGEST_MESSAGE (8U << 20)
#define MOST_MOUNTS 128
#define MOST_LISTENERS 16

struct policy {
  int tier;
  uint64_t first_id, id_count;
  uint64_t uid, gid;
  bool run_as;
  bool system;
  struct mount_entry mounts[MOST_MOUNTS];
  size_t mount_count;
  struct text_list protect, hide, environment, arguments, require, cgroups;
  int network;
  struct listener listeners[MOST_LISTENERS];
  size_t listener_count;
  const char *directory;
  bool terminal;
  unsigned rows, columns;
  bool debugger, holder, without_proc;
  uint64_t deadline;
  uint64_t wanted_descriptors;
  uint64_t data, memory, processes, cpu, time, file, disk_floor, descriptors, scratch, grace;
  uint64_t fault_stage, fault_error;
};

struct policy_error {
  char text[160];
};

/* Reads `message`, which must outlive the policy (strings point into it). False: `error` says why.
   For an order to a holder, `policy` is the holder's own, which the order's fields then replace. */
bool parse_policy(const unsigned char *message, size_t length, bool order, struct policy *policy,
                  struct policy_error *error);

#endif
