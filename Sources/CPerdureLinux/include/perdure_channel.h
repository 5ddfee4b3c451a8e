/* Local connections that carry frames: four bytes of length, the lowest first, and that many bytes.
 *
 * Only processes of the same user, or of root, are talked to. A channel has a number that is never
 * used again. Each channel is read on a thread of its own, which calls the handler with the length
 * of each frame, its incoming text then being the frame (see perdure_text.h), and at the end with a
 * negative number: -errno, or -ENOTCONN when the other side is gone. What fails returns -errno. */
#ifndef PERDURE_CHANNEL_H
#define PERDURE_CHANNEL_H

/* Called on the thread of a channel. */
typedef void (*perdure_channel_handler)(long long channel, long long event);

/* The longest frame. */
enum { perdure_channel_longest = 16 << 20 };

/* Makes a socket at the path that is the outgoing text, for this user alone, in place of one that
 * is there, and takes connections from now on; one at a time per process. */
int perdure_channel_listen(perdure_channel_handler handler);

/* Takes no more connections and removes the socket, unless another one took its place. */
void perdure_channel_stop(void);

/* Connects to the socket at the path that is the outgoing text; the channel. */
long long perdure_channel_connect(perdure_channel_handler handler);

/* Queues the outgoing text as a frame; returns at once. A channel whose other side takes nothing is
 * ended when 64 MiB wait for it. */
int perdure_channel_send(long long channel);

/* Ends a channel once what is queued has been taken. */
void perdure_channel_finish(long long channel);

#endif
