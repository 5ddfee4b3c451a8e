#ifndef PERDURE_SQLITE_H
#define PERDURE_SQLITE_H

/* A way to the disk that gathers what SQLite appends to a write-ahead log until SQLite waits for it.
 *
 * SQLite writes every page of a commit with two calls, 24 bytes and then the page; one commit of ours
 * made 26 calls of pwrite. This VFS keeps what is appended in memory and writes it with one call
 * before anything looks at the file: a read, a sync, a truncation, a question for its size.
 *
 * Only for connections with `synchronous = FULL` and of one process: there, each commit syncs the log
 * before SQLite's index of it names the new pages, so no other reader looks for what is gathered. A
 * process that dies before the sync loses what no commit had reported, as with a torn log. A write
 * that fails is reported by the call that asked for it, which a commit takes as its own failure.
 *
 * Source of the interface: sqlite3.h, sqlite3_vfs and sqlite3_io_methods.
 */

/* Returns the name of a gathering VFS on top of another one (NULL: SQLite's usual one), which it
 * registers at the first call; NULL if there is no VFS of that name or no memory. The name lives as
 * long as the process. From any thread. */
const char *perdure_gathering_vfs(const char *base);

#endif
