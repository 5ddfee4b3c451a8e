/* network PORT SOCKET-PATH ABSTRACT-NAME WORKSPACE: connections to the host, and kinds of
   sockets. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "attempt.h"

/* Connects without waiting longer than a second: "slow" then, which no row expects. */
static void reach(const char *row, const char *address, int port, int type) {
  struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
  inet_pton(AF_INET, address, &to.sin_addr);
  int handle = socket(AF_INET, type | SOCK_NONBLOCK, 0);
  if (handle < 0) {
    tell(row, -1);
    return;
  }
  long result = connect(handle, (struct sockaddr *)&to, sizeof to);
  if (result < 0 && errno == EINPROGRESS) {
    struct pollfd event = {.fd = handle, .events = POLLOUT};
    if (poll(&event, 1, 1000) <= 0) {
      say(row, "slow");
      close(handle);
      return;
    }
    int error = 0;
    socklen_t length = sizeof error;
    getsockopt(handle, SOL_SOCKET, SO_ERROR, &error, &length);
    errno = error;
    result = error == 0 ? 0 : -1;
  }
  if (result == 0 && type == SOCK_DGRAM) result = send(handle, "x", 1, 0);
  tell(row, result);
  close(handle);
}

static void reach_path(const char *row, const char *path, int is_abstract) {
  struct sockaddr_un to = {.sun_family = AF_UNIX};
  size_t length = strlen(path);
  if (length >= sizeof to.sun_path) length = sizeof to.sun_path - 1;
  memcpy(to.sun_path + is_abstract, path, length);
  int handle = socket(AF_UNIX, SOCK_STREAM, 0);
  if (handle < 0) {
    tell(row, -1);
    return;
  }
  tell(row,
       connect(handle, (struct sockaddr *)&to,
               (socklen_t)(offsetof(struct sockaddr_un, sun_path) + (size_t)is_abstract + length)));
  close(handle);
}

/* A datagram socket of a pair can send to a name, though nobody made it with socket(). */
static void send_from_pair(const char *row, const char *path) {
  struct sockaddr_un to = {.sun_family = AF_UNIX};
  int pair[2];
  strncpy(to.sun_path, path, sizeof to.sun_path - 1);
  if (socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0, pair) != 0) {
    tell(row, -1);
    return;
  }
  tell(row, sendto(pair[0], "x", 1, 0, (struct sockaddr *)&to, sizeof to));
}

/* A name question takes no five seconds. */
static void ask(const char *row) {
  struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(53)};
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  int handle = socket(AF_INET, SOCK_DGRAM, 0);
  if (handle < 0) {
    tell(row, -1);
    return;
  }
  long result = connect(handle, (struct sockaddr *)&to, sizeof to);
  if (result == 0) result = send(handle, "question", 8, 0);
  struct pollfd event = {.fd = handle, .events = POLLIN};
  if (result >= 0) {
    if (poll(&event, 1, 1000) == 0) {
      say(row, "slow");
      return;
    }
    char answer[16];
    result = recv(handle, answer, sizeof answer, 0);
  }
  tell(row, result);
}

int main(int count, char **arguments) {
  if (count != 5) return 2;
  int port = atoi(arguments[1]);
  reach("93.host-loopback", "127.0.0.1", port, SOCK_STREAM);
  reach("93.lan", "10.77.0.1", port, SOCK_STREAM);
  reach("93.public", "192.0.2.1", 443, SOCK_STREAM);
  reach("93.metadata", "169.254.169.254", 80, SOCK_STREAM);
  reach("93.udp", "192.0.2.1", 53, SOCK_DGRAM);
  ask("94.name");
  ATTEMPT("94.ping", ({
            int handle = socket(AF_INET, SOCK_DGRAM, IPPROTO_ICMP);
            struct sockaddr_in to = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(0xc0000201)};
            handle < 0
                ? handle
                : sendto(handle, "\10\0\0\0\0\0\0\0", 8, 0, (struct sockaddr *)&to, sizeof to);
          }));
  ATTEMPT("95.netlink-route", socket(AF_NETLINK, SOCK_RAW, 0));
  ATTEMPT("95.netlink-audit", socket(AF_NETLINK, SOCK_RAW, 9));
  ATTEMPT("95.netlink-generic", socket(AF_NETLINK, SOCK_RAW, 16));
  ATTEMPT("95.packet", socket(AF_PACKET, SOCK_RAW, 0));
  ATTEMPT("95.vsock", socket(AF_VSOCK, SOCK_STREAM, 0));
  ATTEMPT("95.alg", socket(AF_ALG, SOCK_SEQPACKET, 0));
  ATTEMPT("95.raw", socket(AF_INET, SOCK_RAW, IPPROTO_ICMP));
  ATTEMPT("95.bluetooth", socket(AF_BLUETOOTH, SOCK_RAW, 1));
  ATTEMPT("95.vsock-pair", ({
            int pair[2];
            socketpair(AF_VSOCK, SOCK_STREAM, 0, pair);
          }));
  ATTEMPT("95.unix-pair", ({
            int pair[2];
            socketpair(AF_UNIX, SOCK_STREAM, 0, pair);
          }));
  reach_path("97.path", arguments[2], 0);
  reach_path("97.docker", "/var/run/docker.sock", 0);
  reach_path("96.abstract", arguments[3], 1);
  char datagrams[256];
  snprintf(datagrams, sizeof datagrams, "%s-datagrams", arguments[2]);
  send_from_pair("97.datagrams", datagrams);
  snprintf(datagrams, sizeof datagrams, "%s/socket", arguments[4]);
  reach_path("97.workspace", datagrams, 0);
  return 0;
}
