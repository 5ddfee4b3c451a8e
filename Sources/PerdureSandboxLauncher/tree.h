/* What proc.c needs of tree.c. */
#ifndef PERDURE_SANDBOX_TREE_H
#define PERDURE_SANDBOX_TREE_H

#include <stdint.h>

/* Mounts what `source` shows on `target`, with more restrictions. */
void bind_descriptor(int source, int target, uint64_t attributes, const char *name);

/* Makes `path` look empty, if it is there. */
void cover(const char *path);

#endif
