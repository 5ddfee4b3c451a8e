/* Sockets of a gate between a sandbox and the network. What fails returns -errno.
 *
 * An address is 17 bytes: 4 or 6, and then its bytes, of which the first four count for a 4. */
#ifndef PERDURE_GATE_H
#define PERDURE_GATE_H

/* Takes a connection from a listener: a socket that does not wait. */
int perdure_gate_accept(int listener);

/* Looks a name up as this machine does: how many addresses it wrote, of at most `most`; -ENOENT if
 * there is none. May block for as long as the machine's resolver does. */
int perdure_gate_resolve(const char *name, void *addresses, int most);

/* Begins to connect to an address: a socket that can be written once that has ended. */
int perdure_gate_connect(const void *address, int port);

/* How connecting ended: 0, or -errno. */
int perdure_gate_connected(int socket);

/* 1 if an address is one of this machine's own. */
int perdure_gate_is_own(const void *address);

/* Reads a literal of family 4 or 6 into an address; 0 if it is none. */
int perdure_gate_literal(const char *text, int family, void *address);

/* Writes the text of an address, of at most `length` bytes with its zero. */
int perdure_gate_text(const void *address, char *text, int length);

long long perdure_gate_read(int socket, void *buffer, long long length);
long long perdure_gate_send(int socket, const void *buffer, long long length);

/* Says that nothing more will be sent. */
void perdure_gate_finish(int socket);

/* Waits until something of what is asked for can be done, or `bell` can be read: bit 1 the first can
 * be read, 2 written, 4 the second can be read, 8 written, 16 the bell; 0 after `milliseconds`.
 * `wanted` has the first four of these bits. */
int perdure_gate_wait(int first, int second, int wanted, int bell, int milliseconds);

#endif
