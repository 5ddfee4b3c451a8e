/* Files below one folder, reached through descriptors and never by a path that somebody could have
 * changed in between. What fails returns -errno. */
#ifndef PERDURE_TREE_H
#define PERDURE_TREE_H

/* How far the links in a path may lead. */
enum perdure_tree_reach {
  /* Anywhere, as the kernel follows them. */
  PERDURE_REACH_MACHINE = 0,
  /* Not out of the folder (-EXDEV), and through no magic links (-ELOOP). */
  PERDURE_REACH_BENEATH = 1,
  /* The folder is the root of all absolute links; no magic links. */
  PERDURE_REACH_ROOT = 2,
  /* No links at all (-ELOOP), one name after another: what is left without openat2. */
  PERDURE_REACH_NO_LINKS = 3,
  /* Beneath, and not onto another mount (-EXDEV). */
  PERDURE_REACH_MOUNT = 4
};

enum perdure_tree_flags {
  /* A link at the end is opened itself. */
  PERDURE_OPEN_LINK = 1,
  /* Everything but a folder is -ENOTDIR. */
  PERDURE_OPEN_FOLDER = 2
};

enum perdure_tree_mode {
  PERDURE_TREE_READ = 0,
  PERDURE_TREE_WRITE = 1,
  PERDURE_TREE_APPEND = 2,
  PERDURE_TREE_FOLDER = 3
};

enum perdure_tree_kind {
  PERDURE_KIND_FILE = 1,
  PERDURE_KIND_FOLDER = 2,
  PERDURE_KIND_LINK = 3,
  PERDURE_KIND_OTHER = 4
};

struct perdure_tree_entry {
  int kind;
  int mode;
  long long links;
  long long size;
  long long seconds;
  long long nanoseconds;
  long long changed_seconds;
  long long changed_nanoseconds;
  unsigned long long device;
  unsigned long long inode;
};

/* Opens a folder for its name only; links in the path are followed, and a magic one at no place. */
int perdure_tree_root(const char *path);

/* Opens what a path below `root` leads to, for its name only: nothing can block or be read yet.
 *
 * The path is relative, "" or "." being the folder itself. Races with renames are tried again, and
 * then are -EBUSY. Without openat2 only the reaches without links work, and the other ones become
 * PERDURE_REACH_NO_LINKS. */
int perdure_tree_open(int root, const char *path, int flags, int reach);

/* Opens what `file`, a regular file or a folder, is, for work; never waits for another process. */
int perdure_tree_reopen(int file, int mode);

int perdure_tree_stat(int file, struct perdure_tree_entry *entry);

/* The same of a name in a folder, without following it. */
int perdure_tree_stat_at(int folder, const char *name, struct perdure_tree_entry *entry);

/* The text of the link that `file` is; its length. */
long long perdure_tree_link(int file, char *buffer, long long capacity);

/* Where the kernel says that `file` is; its length. */
long long perdure_tree_path(int file, char *buffer, long long capacity);

/* Creates a regular file for writing, and nothing that exists is opened: -EEXIST. */
int perdure_tree_create(int folder, const char *name, int mode);

int perdure_tree_make_folder(int folder, const char *name, int mode);
int perdure_tree_remove(int folder, const char *name, int is_folder);
int perdure_tree_rename(int folder, const char *name, int new_folder, const char *new_name);

/* The next names in an open folder, each as the kind (0 if it is not known), the name and a zero; the
 * length, and 0 at the end. The buffer holds 32 KiB at least. */
long long perdure_tree_names(int folder, char *buffer, long long capacity);

long long perdure_tree_read(int file, void *buffer, long long count, long long offset);
int perdure_tree_write(int file, const void *bytes, long long count);
int perdure_tree_truncate(int file, long long size);
int perdure_tree_flush(int file);
int perdure_tree_duplicate(int file);
void perdure_tree_close(int file);

/* Gives `file` the mode of `other`, and owner and attributes as far as that is allowed. */
void perdure_tree_copy_attributes(int other, int file);

/* How many times a byte occurs. */
long long perdure_tree_count(const void *bytes, long long count, int byte);

/* The kind of file system, as statfs has it. */
long long perdure_tree_file_system(int file);

/* Makes a FIFO. */
int perdure_tree_make_fifo(const char *path);

#endif
