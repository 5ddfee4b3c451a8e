/* What a benchmark asks the kernel. Functions that can fail return -errno, or a negative number. */
#ifndef PERDURE_BENCH_H
#define PERDURE_BENCH_H

#include <stdint.h>

/* Nanoseconds of processor time that this process has used, on all threads. */
int64_t perdure_bench_cpu_ns(void);

/* Bytes that this process has handed to write calls (`wchar` of /proc/self/io). */
int64_t perdure_bench_written_bytes(void);

/* Bytes that this process has caused to be sent to a disk (`write_bytes` of /proc/self/io). */
int64_t perdure_bench_disk_bytes(void);

/* The size of a file, or 0 without one. */
int64_t perdure_bench_file_bytes(const char *path);

/* Waits until a file is on disk, without passing through `fsync` or `fdatasync` of the C library;
   fails as they do. */
int perdure_bench_sync(int descriptor, int data_only);

/* The greatest resident size of this process in KiB (`VmHWM`). */
int64_t perdure_bench_peak_kib(void);

/* The load average of the last minute. */
double perdure_bench_load(void);

/* Appends a block of 4 KiB to a new file and syncs it, `count` times; `nanoseconds` gets the time of
   each. The file is removed. */
int perdure_bench_sync_times(const char *path, int64_t *nanoseconds, int count);

/* Appends a line to a file and returns when it is on disk. */
int perdure_bench_append_synced(const char *path, const char *line, long length);

/* Makes a folder unless there is one. */
int perdure_bench_make_folder(const char *path);

/* Starts this program again with `arguments`, which end with a null pointer and begin with its
   name; `output` gets a descriptor from which its standard output can be read. Returns its id. */
int perdure_bench_spawn(char *const *arguments, int *output);

/* Reads from a descriptor; 0 is the end. */
long perdure_bench_read(int descriptor, char *buffer, long capacity);

/* Closes a descriptor. */
void perdure_bench_close(int descriptor);

/* Kills a child at once and waits for its end. */
void perdure_bench_kill(int child);

/* Waits for the end of a child; returns its exit status, or 128 and the number of its signal. */
int perdure_bench_wait(int child);

#endif
