/* What the verbs for authors of plugins need of the system: commands whose output is read, folders that
 * are watched, and temporary folders.
 *
 * Paths and words are the outgoing text of perdure_text.h, results the incoming one. What fails
 * returns -errno. */
#ifndef PERDURE_AUTHOR_H
#define PERDURE_AUTHOR_H

/* Runs a program to its end in a process group of its own, without input, and calls `done` on a thread
 * of its own: with the exit status, or 128 + N if the signal N ended it, and with the length of what it
 * printed to either stream, which is that thread's incoming text. Of more than 1 MiB the end is kept.
 *
 * The outgoing text is the folder to run in, the program (looked for in PATH) and its arguments, each
 * with a NUL behind it. One at a time: -EBUSY. Nothing is left to do when this fails. */
int perdure_author_start(void (*done)(int status, long long count));

/* Kills the program that runs with its whole group, for which done still follows, and lets no other one
 * begin: -ECANCELED. */
void perdure_author_end(void);

/* Lists the files below the folder at the outgoing path, and lets the watch of perdure_watch.h hear of
 * changes in each folder on the way. A line for each: path below the folder, size, time of the last change and number
 * of the file, with tabs between them. Left out is what begins with a dot, what cannot be an input of a
 * build (.so, .o, .a, ~), and what compilers put into folders of their own (target, zig-out). At most
 * 10,000 files, else -E2BIG; the length. */
long long perdure_author_list(int watch);

/* Calls `done` on a thread of its own once something has changed and nothing more did for a tenth of a
 * second, or at once if something has changed since the last list. */
int perdure_author_next(int watch, void (*done)(int code));

/* Makes a private folder with a new name in $TMPDIR, or else in /tmp; the length of its path. */
long long perdure_folder_temporary(void);

/* Removes the folder at the outgoing path with all that is in it. */
int perdure_folder_remove(void);

/* Makes the folder at the outgoing path, with the rights that the user's files have; -EEXIST if there is
 * something. */
int perdure_folder_new(void);

enum perdure_new_file { PERDURE_NEW_PROGRAM = 1, PERDURE_NEW_REPLACES = 2 };

/* Writes a file with the rights that the user's files have; the outgoing text is its path, a NUL and
 * what is in it. Without PERDURE_NEW_REPLACES it must not exist. */
int perdure_file_new(int kind);

#endif
