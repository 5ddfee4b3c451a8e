/* The files of one folder, for callers that use no pointers.
 *
 * Names, paths and data are the outgoing text of perdure_text.h, results the incoming one. What
 * fails returns -errno. */
#ifndef PERDURE_FILES_H
#define PERDURE_FILES_H

enum perdure_file_mode {
  PERDURE_FILE_READ = 0,
  /* Every write goes to the end; the file is created if it is missing. */
  PERDURE_FILE_APPEND = 1,
  /* The file is created or emptied. */
  PERDURE_FILE_REPLACE = 2
};

/* Creates the folder at the outgoing path, private to the user, and makes that last; 0 too if it
 * exists. */
int perdure_folder_create(void);

/* Opens the folder at the outgoing path. */
int perdure_folder_open(void);

/* 1 if the outgoing path still names the open folder, 0 if it names another or nothing. */
int perdure_folder_is_at(int folder);

/* Waits until the folder is shared with those that read it, and nobody excludes them. */
int perdure_folder_share(int folder);

/* Excludes those that read the folder, or fails at once with -EWOULDBLOCK if there are any. */
int perdure_folder_exclude(int folder);

/* Ends either. */
void perdure_folder_release(int folder);

/* The names of the regular files in the folder, each followed by a slash; the length. */
long long perdure_folder_names(int folder);

/* Opens the regular file of the folder that the outgoing text names. */
int perdure_file_open(int folder, int mode);

/* Writes the outgoing text. */
int perdure_file_write(int file);

/* Reads from the current place to the end; the length. */
long long perdure_file_read(int file, long long offset);

/* Reads at most `count` bytes from `offset` on, fewer only at the end of the file; the length. */
long long perdure_file_read_part(int file, long long offset, long long count);

long long perdure_file_size(int file);

/* What no other file of the file system has at the same time. */
long long perdure_file_number(int file);

/* Waits until the data of a file, or the names in a folder, are on disk. */
int perdure_file_flush(int file);

int perdure_file_truncate(int file, long long size);

/* Removes the file of the folder that the outgoing text names. */
int perdure_file_remove(int folder);

/* Renames within the folder; the outgoing text is the old name, a slash and the new name. */
int perdure_file_rename(int folder);

void perdure_file_close(int file);

#endif
