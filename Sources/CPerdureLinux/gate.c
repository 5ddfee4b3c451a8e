#define _GNU_SOURCE
#include "perdure_gate.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { ADDRESS_BYTES = 17 };

union place {
  struct sockaddr any;
  struct sockaddr_in four;
  struct sockaddr_in6 six;
};

static socklen_t place_of(const unsigned char *address, int port, union place *place) {
  memset(place, 0, sizeof *place);
  if (address[0] == 4) {
    place->four.sin_family = AF_INET;
    place->four.sin_port = htons((uint16_t)port);
    memcpy(&place->four.sin_addr, address + 1, 4);
    return sizeof place->four;
  }
  place->six.sin6_family = AF_INET6;
  place->six.sin6_port = htons((uint16_t)port);
  memcpy(&place->six.sin6_addr, address + 1, 16);
  return sizeof place->six;
}

static void send_at_once(int socket) {
  int yes = 1;
  setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
}

int perdure_gate_accept(int listener) {
  int got;
  do {
    got = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
  } while (got < 0 && errno == EINTR);
  if (got < 0) return -errno;
  send_at_once(got);
  return got;
}

int perdure_gate_resolve(const char *name, void *addresses, int most) {
  struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
  struct addrinfo *list = NULL;
  if (getaddrinfo(name, NULL, &hints, &list) != 0) return -ENOENT;
  unsigned char *next = addresses;
  int count = 0;
  for (struct addrinfo *item = list; item != NULL && count < most; item = item->ai_next) {
    memset(next, 0, ADDRESS_BYTES);
    if (item->ai_family == AF_INET) {
      struct sockaddr_in four;
      memcpy(&four, item->ai_addr, sizeof four);
      next[0] = 4;
      memcpy(next + 1, &four.sin_addr, 4);
    } else if (item->ai_family == AF_INET6) {
      struct sockaddr_in6 six;
      memcpy(&six, item->ai_addr, sizeof six);
      next[0] = 6;
      memcpy(next + 1, &six.sin6_addr, 16);
    } else {
      continue;
    }
    next += ADDRESS_BYTES;
    count++;
  }
  freeaddrinfo(list);
  return count > 0 ? count : -ENOENT;
}

int perdure_gate_connect(const void *address, int port) {
  union place place;
  socklen_t length = place_of(address, port, &place);
  int handle = socket(place.any.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (handle < 0) return -errno;
  int result;
  do {
    result = connect(handle, &place.any, length);
  } while (result != 0 && errno == EINTR);
  if (result != 0 && errno != EINPROGRESS) {
    int error = errno;
    close(handle);
    return -error;
  }
  send_at_once(handle);
  return handle;
}

int perdure_gate_connected(int socket) {
  int error = 0;
  socklen_t length = sizeof error;
  if (getsockopt(socket, SOL_SOCKET, SO_ERROR, &error, &length) != 0) return -errno;
  return -error;
}

int perdure_gate_is_own(const void *address) {
  union place place;
  socklen_t length = place_of(address, 0, &place);
  int handle = socket(place.any.sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (handle < 0) return 0;
  /* Only an address of its own can be bound. */
  int result = bind(handle, &place.any, length);
  close(handle);
  return result == 0;
}

int perdure_gate_literal(const char *text, int family, void *address) {
  unsigned char *bytes = address;
  memset(bytes, 0, ADDRESS_BYTES);
  bytes[0] = (unsigned char)family;
  return inet_pton(family == 4 ? AF_INET : AF_INET6, text, bytes + 1) == 1;
}

int perdure_gate_text(const void *address, char *text, int length) {
  const unsigned char *bytes = address;
  int family = bytes[0] == 4 ? AF_INET : AF_INET6;
  return inet_ntop(family, bytes + 1, text, (socklen_t)length) == NULL ? -errno : 0;
}

long long perdure_gate_read(int socket, void *buffer, long long length) {
  ssize_t got;
  do {
    got = recv(socket, buffer, (size_t)length, MSG_DONTWAIT);
  } while (got < 0 && errno == EINTR);
  return got < 0 ? -errno : got;
}

long long perdure_gate_send(int socket, const void *buffer, long long length) {
  ssize_t sent;
  do {
    sent = send(socket, buffer, (size_t)length, MSG_DONTWAIT | MSG_NOSIGNAL);
  } while (sent < 0 && errno == EINTR);
  return sent < 0 ? -errno : sent;
}

void perdure_gate_finish(int socket) { shutdown(socket, SHUT_WR); }

int perdure_gate_wait(int first, int second, int wanted, int bell, int milliseconds) {
  struct pollfd events[3] = {
      /* A socket that is asked for nothing must not wake anybody by having ended. */
      {.fd = (wanted & 3) != 0 ? first : -1},
      {.fd = (wanted & 12) != 0 ? second : -1},
      {.fd = bell, .events = POLLIN},
  };
  for (int i = 0; i < 2; i++) {
    int bits = wanted >> (2 * i);
    events[i].events = (short)(((bits & 1) != 0 ? POLLIN : 0) | ((bits & 2) != 0 ? POLLOUT : 0));
  }
  if (poll(events, 3, milliseconds) < 0) return 0;
  int ready = events[2].revents != 0 ? 16 : 0;
  for (int i = 0; i < 2; i++) {
    short got = events[i].revents;
    if ((got & (POLLIN | POLLHUP | POLLERR | POLLNVAL)) != 0) ready |= 1 << (2 * i);
    if ((got & (POLLOUT | POLLHUP | POLLERR | POLLNVAL)) != 0) ready |= 2 << (2 * i);
  }
  return ready & (wanted | 16);
}
