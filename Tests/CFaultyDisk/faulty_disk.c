#include "faulty_disk.h"

#include <errno.h>
#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>

struct disk {
  sqlite3_vfs vfs;
  sqlite3_vfs *base;
  faulty_disk_decide decide;
  void *context;
};

struct file {
  sqlite3_file head;
  struct disk *disk;
  /* The file of the base lies behind this one. */
  sqlite3_file *real;
};

static struct disk *disk_of(sqlite3_vfs *vfs) { return vfs->pAppData; }

static struct disk *disk_at(sqlite3_file *file) { return ((struct file *)file)->disk; }

static sqlite3_file *real_of(sqlite3_file *file) { return ((struct file *)file)->real; }

static int ask(struct disk *disk, int call, int grows) {
  return disk->decide(disk->context, call, grows);
}

static int fail(int code) {
  errno = EIO;
  return code;
}

/* MARK: files */

static int file_close(sqlite3_file *file) { return real_of(file)->pMethods->xClose(real_of(file)); }

static int file_read(sqlite3_file *file, void *buffer, int count, sqlite3_int64 offset) {
  return real_of(file)->pMethods->xRead(real_of(file), buffer, count, offset);
}

static int file_write(sqlite3_file *file, const void *bytes, int count, sqlite3_int64 offset) {
  const sqlite3_io_methods *methods = real_of(file)->pMethods;
  sqlite3_int64 size = 0;
  methods->xFileSize(real_of(file), &size);
  int action = ask(disk_at(file), FAULTY_DISK_WRITE, offset + count > size);
  int torn = action == FAULTY_DISK_TEAR || action == FAULTY_DISK_TEAR_FULL;
  int whole = action == FAULTY_DISK_PASS || action == FAULTY_DISK_MISREPORT;
  int result = SQLITE_OK;
  if (torn) methods->xWrite(real_of(file), bytes, count / 2, offset);
  if (whole) result = methods->xWrite(real_of(file), bytes, count, offset);
  if (action == FAULTY_DISK_PASS) return result;
  int full = action == FAULTY_DISK_FULL || action == FAULTY_DISK_TEAR_FULL;
  return fail(full ? SQLITE_FULL : SQLITE_IOERR_WRITE);
}

static int does_work(int action) {
  return action != FAULTY_DISK_FAIL && action != FAULTY_DISK_TEAR;
}

static int reports_error(int action) {
  return !does_work(action) || action == FAULTY_DISK_MISREPORT;
}

static int file_truncate(sqlite3_file *file, sqlite3_int64 size) {
  int action = ask(disk_at(file), FAULTY_DISK_TRUNCATE, 0);
  int result = SQLITE_OK;
  if (does_work(action)) result = real_of(file)->pMethods->xTruncate(real_of(file), size);
  return reports_error(action) ? fail(SQLITE_IOERR_TRUNCATE) : result;
}

static int file_sync(sqlite3_file *file, int flags) {
  (void)flags;
  /* What is in the page cache is all that the tests look at. */
  return reports_error(ask(disk_at(file), FAULTY_DISK_SYNC, 0)) ? fail(SQLITE_IOERR_FSYNC)
                                                                : SQLITE_OK;
}

static int file_size(sqlite3_file *file, sqlite3_int64 *size) {
  return real_of(file)->pMethods->xFileSize(real_of(file), size);
}

static int file_lock(sqlite3_file *file, int lock) {
  return real_of(file)->pMethods->xLock(real_of(file), lock);
}

static int file_unlock(sqlite3_file *file, int lock) {
  return real_of(file)->pMethods->xUnlock(real_of(file), lock);
}

static int file_check_lock(sqlite3_file *file, int *held) {
  return real_of(file)->pMethods->xCheckReservedLock(real_of(file), held);
}

static int file_control(sqlite3_file *file, int operation, void *argument) {
  return real_of(file)->pMethods->xFileControl(real_of(file), operation, argument);
}

static int file_sector_size(sqlite3_file *file) {
  return real_of(file)->pMethods->xSectorSize(real_of(file));
}

static int file_characteristics(sqlite3_file *file) {
  return real_of(file)->pMethods->xDeviceCharacteristics(real_of(file));
}

static int shm_map(sqlite3_file *file, int page, int size, int extend, void volatile **memory) {
  return real_of(file)->pMethods->xShmMap(real_of(file), page, size, extend, memory);
}

static int shm_lock(sqlite3_file *file, int offset, int count, int flags) {
  return real_of(file)->pMethods->xShmLock(real_of(file), offset, count, flags);
}

static void shm_barrier(sqlite3_file *file) {
  real_of(file)->pMethods->xShmBarrier(real_of(file));
}

static int shm_unmap(sqlite3_file *file, int remove) {
  return real_of(file)->pMethods->xShmUnmap(real_of(file), remove);
}

static const sqlite3_io_methods file_methods = {
    2,           file_close,       file_read,    file_write,           file_truncate,
    file_sync,   file_size,        file_lock,    file_unlock,          file_check_lock,
    file_control, file_sector_size, file_characteristics, shm_map,     shm_lock,
    shm_barrier, shm_unmap,        0,            0,
};

/* MARK: the disk */

static int disk_open(sqlite3_vfs *vfs, const char *name, sqlite3_file *file, int flags, int *out) {
  struct disk *disk = disk_of(vfs);
  struct file *opened = (struct file *)file;
  opened->head.pMethods = 0;
  opened->disk = disk;
  opened->real = (sqlite3_file *)(opened + 1);
  int action = ask(disk, FAULTY_DISK_OPEN, 0);
  if (reports_error(action)) return fail(SQLITE_CANTOPEN);
  int result = disk->base->xOpen(disk->base, name, opened->real, flags, out);
  if (opened->real->pMethods) opened->head.pMethods = &file_methods;
  return result;
}

static int disk_delete(sqlite3_vfs *vfs, const char *name, int sync) {
  struct disk *disk = disk_of(vfs);
  int action = ask(disk, FAULTY_DISK_DELETE, 0);
  int result = SQLITE_OK;
  (void)sync;
  if (does_work(action)) result = disk->base->xDelete(disk->base, name, 0);
  return reports_error(action) ? fail(SQLITE_IOERR_DELETE) : result;
}

void *faulty_disk_register(const char *name, faulty_disk_decide decide, void *context) {
  struct disk *disk = calloc(1, sizeof *disk);
  char *copy = strdup(name);
  if (!disk || !copy) {
    free(disk);
    free(copy);
    return 0;
  }
  disk->base = sqlite3_vfs_find(0);
  disk->decide = decide;
  disk->context = context;
  /* What is not replaced here needs nothing of the base but its functions. */
  disk->vfs = *disk->base;
  disk->vfs.pNext = 0;
  disk->vfs.zName = copy;
  disk->vfs.pAppData = disk;
  disk->vfs.szOsFile = (int)sizeof(struct file) + disk->base->szOsFile;
  disk->vfs.xOpen = disk_open;
  disk->vfs.xDelete = disk_delete;
  sqlite3_vfs_register(&disk->vfs, 0);
  return disk;
}

void faulty_disk_unregister(void *disk) {
  struct disk *registered = disk;
  sqlite3_vfs_unregister(&registered->vfs);
  free((void *)registered->vfs.zName);
  free(registered);
}
