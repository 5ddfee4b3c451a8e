/* The network of the sandbox: nothing, its own loopback, or listeners on it that the host
   serves. */
#include <arpa/inet.h>
#include <errno.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "launch.h"

static void raise_loopback(void) {
  int handle = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (handle < 0) fail(errno, "socket");
  struct ifreq request = {.ifr_flags = IFF_UP | IFF_RUNNING};
  memcpy(request.ifr_name, "lo", 3);
  if (ioctl(handle, SIOCSIFFLAGS, &request) != 0) fail(errno, "lo");
  close(handle);
}

/* Listens inside and sends the socket to the host, which then serves the sandbox without any path
   or process that the sandbox could see. Message: 'l', kind, port in two bytes, the lower first. */
static void give_listener(const struct listener *listener) {
  char name[32];
  snprintf(name, sizeof name, "port %d", listener->port);
  bool stream = listener->kind == LISTEN_TCP;
  int handle =
      socket(AF_INET, (stream ? SOCK_STREAM : SOCK_DGRAM) | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (handle < 0) fail(errno, name);
  struct sockaddr_in address = {.sin_family = AF_INET,
                                .sin_port = htons((uint16_t)listener->port),
                                .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  if (bind(handle, (struct sockaddr *)&address, sizeof address) != 0) fail(errno, name);
  if (stream && listen(handle, 128) != 0) fail(errno, name);
  unsigned char message[4] = {'l', (unsigned char)listener->kind, (unsigned char)listener->port,
                              (unsigned char)(listener->port >> 8)};
  send_descriptor(handle, message, sizeof message);
  close(handle);
}

void set_up_network(void) {
  if (launch.policy.network != NETWORK_LOOPBACK && launch.policy.network != NETWORK_ALLOW) return;
  enter(stage_network);
  raise_loopback();
  for (size_t i = 0; i < launch.policy.listener_count; i++) {
    give_listener(&launch.policy.listeners[i]);
  }
}
