/* What the parts of the launcher share.

   Processes, outside to inside:
     monitor  what the host started. Watches the host's lifeline and the clock, ends the tree.
     keeper   pid 1 of the sandbox in the tier `namespaces`. Builds the tree, restricts itself,
              starts the command, watches limits, obeys the control socket. Its end is the end of
              all inside.
     command  what was asked for.
   A holder is a keeper that starts no command of its own: for each order on its control socket it
   forks a monitor with a new keeper, inside the tree that is already there. */
#ifndef PERDURE_SANDBOX_LAUNCH_H
#define PERDURE_SANDBOX_LAUNCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "policy.h"
#include "stage.h"

/* What the host leaves open. Everything else is closed before anything else happens. */
enum {
  FD_POLICY = 3,   /* read to its end: one policy message */
  FD_STATUS = 4,   /* records of status.c are written here */
  FD_LIFELINE = 5, /* readable or ended: the host is gone or wants the end */
  FD_CONTROL = 6,  /* SOCK_SEQPACKET: orders in, descriptors out */
  FD_COUNT = 7,
};

struct launch {
  struct policy policy;
  uid_t uid; /* who the monitor is */
  gid_t gid;
  bool as_root;   /* the foreign uid range is in use */
  int user_space; /* the user namespace of that range, or -1 */
  int leash;      /* the keeper's end: ended when the monitor is gone */
  int exec_pipe;  /* the keeper's and command's end: ends when the command runs */
  int landlock;   /* version of the Landlock ABI, 0 if absent */
  int old_root;   /* the host's root while the tree is built, or -1 */
  bool inside_holder;
  char **arguments; /* of the launcher itself */
};

extern struct launch launch;

/* main.c: reads the policy of the host, or the order to a holder. */
void read_policy(bool order);

/* hygiene.c: what the host may have left behind. */
void forget_environment(char **environment);
void forget_arguments(char **arguments);
void close_foreign_descriptors(void);
void check_standard_streams(void);
void reset_signals(void);
void set_limits(void);

/* identity.c */
bool has_capability(int capability);
void become_unprivileged(void);
void enter_user_namespace(uid_t uid, gid_t gid);
int make_foreign_users(void);
void become_foreign_user(void);
void keep_only_capability(int capability);
void drop_capabilities(void);

/* tree.c, proc.c */
void build_tree(void);
void mend_tree(void);
void leave_host(void);
void mount_proc(void);
void limit_process_numbers(void);
void send_root(void);
int open_inside(const char *path, int *kind);

/* network.c */
void set_up_network(void);

/* restrict.c, seccomp.c */
int landlock_version(void);
void restrict_files(void);
void restrict_calls(void);
void restrict_self(void);

/* command.c */
void run_command(int terminal) __attribute__((noreturn));
int open_terminal(void);

/* control.c */
void send_descriptor(int descriptor, const void *message, size_t length);
ssize_t receive_control(void *message, size_t length, int *descriptors, int wanted);

/* keeper.c */
void keep(void) __attribute__((noreturn));
void await_leash(void);

/* processes.c: trees of processes without a namespace of their own. */
typedef void process_visitor(pid_t process, void *context);
int each_descendant(pid_t root, pid_t except, process_visitor *visit, void *context);
bool end_descendants(pid_t root);
uint64_t memory_of_tree(uint64_t enough);

/* holder.c */
void hold(void) __attribute__((noreturn));

/* monitor.c */
int monitor(void);

/* probe.c */
int probe(void);

#endif
