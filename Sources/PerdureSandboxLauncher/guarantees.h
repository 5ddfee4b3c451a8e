/* What a policy may require, and what this launch can give. */
#ifndef PERDURE_SANDBOX_GUARANTEES_H
#define PERDURE_SANDBOX_GUARANTEES_H

/* Fails when a required guarantee is missing; reports all that are given. */
void check_guarantees(void);

/* Says that a guarantee could not be given after all; fails if it is required. */
void lose_guarantee(const char *name);

#endif
