/* The control socket: single bytes as orders, descriptors both ways. */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "launch.h"

#define MOST_DESCRIPTORS 8

union descriptor_space {
  struct cmsghdr header;
  char bytes[CMSG_SPACE(MOST_DESCRIPTORS * sizeof(int))];
};

void send_descriptor(int descriptor, const void *message, size_t length) {
  union descriptor_space space = {.bytes = {0}};
  struct iovec part = {.iov_base = (void *)message, .iov_len = length};
  struct msghdr header = {.msg_iov = &part,
                          .msg_iovlen = 1,
                          .msg_control = space.bytes,
                          .msg_controllen = CMSG_SPACE(sizeof(int))};
  struct cmsghdr *item = CMSG_FIRSTHDR(&header);
  item->cmsg_level = SOL_SOCKET;
  item->cmsg_type = SCM_RIGHTS;
  item->cmsg_len = CMSG_LEN(sizeof(int));
  memcpy(CMSG_DATA(item), &descriptor, sizeof descriptor);
  ssize_t sent;
  do {
    sent = sendmsg(FD_CONTROL, &header, MSG_NOSIGNAL);
  } while (sent < 0 && errno == EINTR);
  if (sent != (ssize_t)length) fail(sent < 0 ? errno : EMSGSIZE, "the control socket");
}

/* Takes one message and exactly `wanted` descriptors with it, or closes what came and returns
   -1. */
ssize_t receive_control(void *message, size_t length, int *descriptors, int wanted) {
  union descriptor_space space;
  struct iovec part = {.iov_base = message, .iov_len = length};
  struct msghdr header = {.msg_iov = &part,
                          .msg_iovlen = 1,
                          .msg_control = space.bytes,
                          .msg_controllen = sizeof space.bytes};
  ssize_t received;
  do {
    received = recvmsg(FD_CONTROL, &header, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
  } while (received < 0 && errno == EINTR);
  if (received < 0) return -1;
  int found[MOST_DESCRIPTORS];
  int count = 0;
  for (struct cmsghdr *item = CMSG_FIRSTHDR(&header); item != NULL;
       item = CMSG_NXTHDR(&header, item)) {
    if (item->cmsg_level != SOL_SOCKET || item->cmsg_type != SCM_RIGHTS) continue;
    int here = (int)((item->cmsg_len - CMSG_LEN(0)) / sizeof(int));
    for (int i = 0; i < here && count < MOST_DESCRIPTORS; i++) {
      memcpy(&found[count++], CMSG_DATA(item) + (size_t)i * sizeof(int), sizeof(int));
    }
  }
  bool whole = (header.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) == 0;
  if (count == wanted && whole) {
    if (count > 0) memcpy(descriptors, found, (size_t)count * sizeof(int));
    return received;
  }
  for (int i = 0; i < count; i++) close(found[i]);
  errno = EPROTO;
  return received == 0 && whole ? 0 : -1;
}
