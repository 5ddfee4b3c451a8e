/* A way for SQLite to the disk on which chosen calls fail. */
#ifndef FAULTY_DISK_H
#define FAULTY_DISK_H

enum faulty_disk_call {
  FAULTY_DISK_OPEN,
  FAULTY_DISK_WRITE,
  FAULTY_DISK_SYNC,
  FAULTY_DISK_TRUNCATE,
  FAULTY_DISK_DELETE
};

enum faulty_disk_action {
  /* The call does its work. */
  FAULTY_DISK_PASS,
  /* It does nothing and reports an error. */
  FAULTY_DISK_FAIL,
  /* A write does a half of its work; then as FAULTY_DISK_FAIL. */
  FAULTY_DISK_TEAR,
  /* A write does nothing and reports that the disk is full; another call does its work. */
  FAULTY_DISK_FULL,
  /* As FAULTY_DISK_FULL, after a half of the work. */
  FAULTY_DISK_TEAR_FULL,
  /* The call does its work and reports an error. */
  FAULTY_DISK_MISREPORT
};

/* Says what a call does, and may wait before; `grows` is 1 for a write behind the end of a file. */
typedef int (*faulty_disk_decide)(void *context, int call, int grows);

/* Registers a way to the disk under a name; no call waits for the real disk. Returns 0 for lack of
 * memory. */
void *faulty_disk_register(const char *name, faulty_disk_decide decide, void *context);

/* Ends it, once no file is open through it. */
void faulty_disk_unregister(void *disk);

#endif
