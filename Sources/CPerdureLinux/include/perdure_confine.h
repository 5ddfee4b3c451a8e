/* What a thread of the host does to itself before it serves files of a sandbox. What fails returns
 * -errno. */
#ifndef PERDURE_CONFINE_H
#define PERDURE_CONFINE_H

/* What lies below an open folder, or an open file. */
struct perdure_confine_rule {
  int descriptor;
  int writable;
};

/* Lets this thread, and no other one, use files as another user, with no group but this one and no
 * capability. */
int perdure_confine_user(unsigned user, unsigned group);

/* Lets this thread, and those that it starts, open only what the rules name. */
int perdure_confine_files(const struct perdure_confine_rule *rules, int count);

/* Claims an open folder for this process until the descriptor is closed: -EAGAIN if it is another
 * one's. */
int perdure_confine_claim(int folder);

/* Gives an open file or folder to a user. */
int perdure_confine_give(int file, unsigned user, unsigned group);

/* Who owns what a descriptor is. */
int perdure_confine_owner(int file, unsigned *user, unsigned *group);

#endif
