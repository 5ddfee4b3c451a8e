/* The files that `perdure plugin new` writes: the headers and the kits for Rust and Swift as they are,
 * and the templates of sdk/templates. The compiler takes them in, so they are never older than the
 * sources. */
#ifndef CPERDURE_SDK_H
#define CPERDURE_SDK_H

enum perdure_sdk_part { PERDURE_SDK_NAME = 0, PERDURE_SDK_CONTENT = 1 };

/* How many files there are. */
int perdure_sdk_count(void);

/* The bytes of the name or the content of a file; 0 for a file that does not exist. */
long long perdure_sdk_size(int file, int part);

/* Eight of them from `index` on, which is smaller than the size, the first one lowest; what lies behind
 * the end reads as 0. */
unsigned long long perdure_sdk_word(int file, int part, long long index);

#endif
