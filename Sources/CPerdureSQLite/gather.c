#include "perdure_sqlite.h"

#include <pthread.h>
#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>

/* A commit with more pages than fit is written in parts. */
enum { CAPACITY = 64 * 1024 };

struct gather {
  /* The functions of the base, which get this and use only its pAppData, and an open of our own. */
  sqlite3_vfs vfs;
  sqlite3_vfs *base;
  struct gather *next;
  char name[];
};

/* The file of the base lies behind this one. */
struct log {
  sqlite3_file head;
  unsigned char *bytes;
  int count;
  /* Where in the file the bytes belong. */
  sqlite3_int64 start;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct gather *known;

static struct log *log_of(sqlite3_file *file) { return (struct log *)file; }

static sqlite3_file *real_of(sqlite3_file *file) { return (sqlite3_file *)(log_of(file) + 1); }

static const sqlite3_io_methods *methods_of(sqlite3_file *file) { return real_of(file)->pMethods; }

static int settle(sqlite3_file *file) {
  struct log *log = log_of(file);
  if (log->count == 0) return SQLITE_OK;
  int count = log->count;
  log->count = 0;
  return methods_of(file)->xWrite(real_of(file), log->bytes, count, log->start);
}

/* MARK: methods of a log */

static int log_close(sqlite3_file *file) {
  int written = settle(file);
  int closed = methods_of(file)->xClose(real_of(file));
  free(log_of(file)->bytes);
  return written != SQLITE_OK ? written : closed;
}

static int log_read(sqlite3_file *file, void *buffer, int count, sqlite3_int64 offset) {
  int result = settle(file);
  return result != SQLITE_OK ? result
                             : methods_of(file)->xRead(real_of(file), buffer, count, offset);
}

static int log_write(sqlite3_file *file, const void *bytes, int count, sqlite3_int64 offset) {
  struct log *log = log_of(file);
  int goes_on = offset == log->start + log->count && count <= CAPACITY - log->count;
  if (log->count > 0 && !goes_on) {
    int result = settle(file);
    if (result != SQLITE_OK) return result;
  }
  if (count > CAPACITY) return methods_of(file)->xWrite(real_of(file), bytes, count, offset);
  if (log->count == 0) log->start = offset;
  memcpy(log->bytes + log->count, bytes, (size_t)count);
  log->count += count;
  return SQLITE_OK;
}

static int log_truncate(sqlite3_file *file, sqlite3_int64 size) {
  int result = settle(file);
  return result != SQLITE_OK ? result : methods_of(file)->xTruncate(real_of(file), size);
}

static int log_sync(sqlite3_file *file, int flags) {
  int result = settle(file);
  return result != SQLITE_OK ? result : methods_of(file)->xSync(real_of(file), flags);
}

static int log_size(sqlite3_file *file, sqlite3_int64 *size) {
  int result = settle(file);
  return result != SQLITE_OK ? result : methods_of(file)->xFileSize(real_of(file), size);
}

static int log_lock(sqlite3_file *file, int level) {
  return methods_of(file)->xLock(real_of(file), level);
}

static int log_unlock(sqlite3_file *file, int level) {
  return methods_of(file)->xUnlock(real_of(file), level);
}

static int log_is_reserved(sqlite3_file *file, int *answer) {
  return methods_of(file)->xCheckReservedLock(real_of(file), answer);
}

static int log_control(sqlite3_file *file, int code, void *argument) {
  int result = settle(file);
  return result != SQLITE_OK ? result : methods_of(file)->xFileControl(real_of(file), code, argument);
}

static int log_sector_size(sqlite3_file *file) { return methods_of(file)->xSectorSize(real_of(file)); }

static int log_characteristics(sqlite3_file *file) {
  return methods_of(file)->xDeviceCharacteristics(real_of(file));
}

/* Version 1: shared memory and mappings belong to the database file, never to its log. */
static const sqlite3_io_methods log_methods = {
    .iVersion = 1,
    .xClose = log_close,
    .xRead = log_read,
    .xWrite = log_write,
    .xTruncate = log_truncate,
    .xSync = log_sync,
    .xFileSize = log_size,
    .xLock = log_lock,
    .xUnlock = log_unlock,
    .xCheckReservedLock = log_is_reserved,
    .xFileControl = log_control,
    .xSectorSize = log_sector_size,
    .xDeviceCharacteristics = log_characteristics,
};

/* MARK: the VFS */

static int gather_open(sqlite3_vfs *vfs, const char *name, sqlite3_file *file, int flags, int *out) {
  sqlite3_vfs *base = ((struct gather *)vfs)->base;
  if (!(flags & SQLITE_OPEN_WAL)) return base->xOpen(base, name, file, flags, out);
  file->pMethods = NULL;
  struct log *log = log_of(file);
  memset(log, 0, sizeof *log);
  log->bytes = malloc(CAPACITY);
  if (log->bytes == NULL) return SQLITE_NOMEM;
  int result = base->xOpen(base, name, real_of(file), flags, out);
  /* A base that sets methods wants to be closed even if it failed. */
  if (result != SQLITE_OK) {
    if (real_of(file)->pMethods != NULL) methods_of(file)->xClose(real_of(file));
    free(log->bytes);
    return result;
  }
  file->pMethods = &log_methods;
  return SQLITE_OK;
}

/* A base that was freed may have left its address to another one, so the rest must be the same, too. */
static struct gather *find(const sqlite3_vfs *base) {
  size_t length = strlen(base->zName);
  for (struct gather *each = known; each != NULL; each = each->next) {
    int is_same = each->base == base && each->vfs.pAppData == base->pAppData;
    if (is_same && strncmp(each->name, base->zName, length) == 0) return each;
  }
  return NULL;
}

static struct gather *make(sqlite3_vfs *base) {
  static const char suffix[] = "-gathering";
  size_t length = strlen(base->zName);
  struct gather *gather = calloc(1, sizeof *gather + length + sizeof suffix);
  if (gather == NULL) return NULL;
  memcpy(gather->name, base->zName, length);
  memcpy(gather->name + length, suffix, sizeof suffix);
  gather->vfs = *base;
  gather->vfs.pNext = NULL;
  gather->vfs.zName = gather->name;
  gather->vfs.szOsFile = (int)sizeof(struct log) + base->szOsFile;
  gather->vfs.xOpen = gather_open;
  gather->base = base;
  if (sqlite3_vfs_register(&gather->vfs, 0) != SQLITE_OK) {
    free(gather);
    return NULL;
  }
  gather->next = known;
  known = gather;
  return gather;
}

const char *perdure_gathering_vfs(const char *base_name) {
  sqlite3_vfs *base = sqlite3_vfs_find(base_name);
  if (base == NULL) return NULL;
  pthread_mutex_lock(&lock);
  struct gather *gather = find(base);
  if (gather == NULL) gather = make(base);
  pthread_mutex_unlock(&lock);
  return gather == NULL ? NULL : gather->name;
}
