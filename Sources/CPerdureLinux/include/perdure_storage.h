/* Files and locks of stores. Every function returns 0 or more for success and -errno for failure. */
#ifndef PERDURE_STORAGE_H
#define PERDURE_STORAGE_H

enum perdure_path_kind {
  PERDURE_PATH_ABSENT = 0,
  PERDURE_PATH_FILE = 1,
  PERDURE_PATH_DIRECTORY = 2,
  PERDURE_PATH_OTHER = 3
};

/* What `path` names, symbolic links followed. */
int perdure_path_kind(const char *path);

/* Creates an empty file that only its owner may read, unless there is one. */
int perdure_file_create_private(const char *path);

/* How many names the file has, or 0 if it cannot be looked at. */
long perdure_file_name_count(const char *path);

/* Tells the file at `path` apart from any other that there is at the same time. */
int perdure_path_identity(const char *path, unsigned long *device, unsigned long *number);

/* Opens or creates a lock file; the descriptor is not inherited by other programs. */
int perdure_lock_open(const char *path);

/* Takes the lock, or fails at once with -EWOULDBLOCK because another descriptor holds it. */
int perdure_lock_take(int descriptor);

/* Reads the text in a lock file; returns its length. */
long perdure_lock_read(int descriptor, char *buffer, long capacity);

/* Replaces the text in a lock file. */
int perdure_lock_write(int descriptor, const char *text, long length);

/* Opens a lock file for looking at it only. */
int perdure_lock_look(const char *path);

/* 1 if the process holds the lock of the file, 0 if not or if the system does not tell; the lock is
 * not touched. */
int perdure_lock_is_held(int descriptor, long long pid);

/* Releases the lock. */
void perdure_lock_close(int descriptor);

/* Writes the name of this machine, ended by 0, into `buffer`. */
int perdure_host_name(char *buffer, long capacity);

/* Milliseconds since 1970. */
long long perdure_wall_milliseconds(void);

#endif
