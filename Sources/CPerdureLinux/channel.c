#define _GNU_SOURCE
#include "perdure_channel.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "buffers.h"
#include "perdure_text.h"

enum { most_channels = 64, most_waiting = 64 << 20 };

struct frame {
  struct frame *next;
  size_t count;
  unsigned char bytes[];
};

struct channel {
  long long number;
  int descriptor;
  int users;
  int finishing, ended;
  size_t waiting;
  struct frame *first, *last;
  pthread_cond_t news;
  perdure_channel_handler handler;
};

/* Everything below is reached under `lock`. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct channel *channels[most_channels];
static long long last_number;
static struct {
  int descriptor;
  char *path;
  dev_t device;
  ino_t inode;
} listener = {-1, 0, 0, 0};

/* Paths longer than an address reach the socket through the descriptor of its folder. */
static int address(const char *path, struct sockaddr_un *into, int *folder) {
  memset(into, 0, sizeof *into);
  into->sun_family = AF_UNIX;
  *folder = -1;
  size_t length = strlen(path);
  if (length == 0) return -EINVAL;
  if (length < sizeof into->sun_path) {
    memcpy(into->sun_path, path, length + 1);
    return 0;
  }
  const char *slash = strrchr(path, '/');
  if (!slash) return -ENAMETOOLONG;
  char *name = strndup(path, slash == path ? 1 : (size_t)(slash - path));
  if (!name) return -ENOMEM;
  *folder = open(name, O_PATH | O_DIRECTORY | O_CLOEXEC);
  int code = *folder < 0 ? -errno : 0;
  free(name);
  if (code < 0) return code;
  int written = snprintf(into->sun_path, sizeof into->sun_path, "/proc/self/fd/%d/%s", *folder, slash + 1);
  if (written > 0 && (size_t)written < sizeof into->sun_path) return 0;
  close(*folder);
  *folder = -1;
  return -ENAMETOOLONG;
}

static int is_ours(int descriptor) {
  struct ucred peer;
  socklen_t length = sizeof peer;
  if (getsockopt(descriptor, SOL_SOCKET, SO_PEERCRED, &peer, &length) < 0) return 0;
  return peer.uid == geteuid() || peer.uid == 0;
}

static int start(void *(*body)(void *), void *context) {
  pthread_attr_t attributes;
  pthread_t thread;
  pthread_attr_init(&attributes);
  pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  int code = pthread_create(&thread, &attributes, body, context);
  pthread_attr_destroy(&attributes);
  return -code;
}

static struct channel *find(long long number) {
  for (int i = 0; i < most_channels; i++)
    if (channels[i] && channels[i]->number == number) return channels[i];
  return 0;
}

/* Under the lock. */
static void leave(struct channel *channel) {
  if (--channel->users > 0) return;
  for (int i = 0; i < most_channels; i++)
    if (channels[i] == channel) channels[i] = 0;
  while (channel->first) {
    struct frame *frame = channel->first;
    channel->first = frame->next;
    free(frame);
  }
  close(channel->descriptor);
  pthread_cond_destroy(&channel->news);
  free(channel);
}

/* Under the lock: both threads see it and leave. */
static void end(struct channel *channel) {
  channel->ended = 1;
  shutdown(channel->descriptor, SHUT_RDWR);
  pthread_cond_broadcast(&channel->news);
}

static int send_all(int descriptor, const unsigned char *bytes, size_t count) {
  while (count > 0) {
    ssize_t sent = send(descriptor, bytes, count, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) return -1;
    bytes += sent;
    count -= (size_t)sent;
  }
  return 0;
}

static void *write_frames(void *context) {
  struct channel *channel = context;
  pthread_mutex_lock(&lock);
  for (;;) {
    while (!channel->first && !channel->ended && !channel->finishing)
      pthread_cond_wait(&channel->news, &lock);
    if (channel->ended || !channel->first) break;
    struct frame *frame = channel->first;
    channel->first = frame->next;
    if (!channel->first) channel->last = 0;
    pthread_mutex_unlock(&lock);
    int failed = send_all(channel->descriptor, frame->bytes, frame->count);
    pthread_mutex_lock(&lock);
    channel->waiting -= frame->count;
    free(frame);
    if (failed) {
      end(channel);
      break;
    }
  }
  /* What was sent is still delivered. */
  if (!channel->ended) end(channel);
  leave(channel);
  pthread_mutex_unlock(&lock);
  return 0;
}

static long long receive_all(int descriptor, unsigned char *bytes, size_t count) {
  size_t done = 0;
  while (done < count) {
    ssize_t got = recv(descriptor, bytes + done, count - done, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return -errno;
    if (got == 0) return -ENOTCONN;
    done += (size_t)got;
  }
  return 0;
}

static long long read_frame(struct channel *channel) {
  unsigned char head[4];
  long long code = receive_all(channel->descriptor, head, sizeof head);
  if (code < 0) return code;
  size_t count = head[0] | (size_t)head[1] << 8 | (size_t)head[2] << 16 | (size_t)head[3] << 24;
  if (count > perdure_channel_longest) return -EMSGSIZE;
  unsigned char *bytes = malloc(count ? count : 1);
  if (!bytes) return -ENOMEM;
  code = receive_all(channel->descriptor, bytes, count);
  if (code == 0) code = perdure_buffer_receive((const char *)bytes, count);
  free(bytes);
  return code;
}

static void *read_frames(void *context) {
  struct channel *channel = context;
  long long event;
  do {
    event = read_frame(channel);
    channel->handler(channel->number, event);
  } while (event >= 0);
  perdure_text_forget();
  pthread_mutex_lock(&lock);
  end(channel);
  leave(channel);
  pthread_mutex_unlock(&lock);
  return 0;
}

/* Takes over the descriptor, also when it fails. */
static long long open_channel(int descriptor, perdure_channel_handler handler) {
  struct channel *channel = calloc(1, sizeof *channel);
  if (!channel) {
    close(descriptor);
    return -ENOMEM;
  }
  channel->descriptor = descriptor;
  channel->handler = handler;
  /* Whoever makes it, its writer and its reader. */
  channel->users = 3;
  pthread_cond_init(&channel->news, 0);
  pthread_mutex_lock(&lock);
  int slot = 0;
  while (slot < most_channels && channels[slot]) slot++;
  long long number = -EMFILE;
  if (slot < most_channels) {
    channels[slot] = channel;
    number = channel->number = ++last_number;
  }
  long long failure = number < 0 ? number : 0;
  if (failure == 0) failure = start(write_frames, channel);
  if (failure < 0) leave(channel);
  if (failure == 0 && (failure = start(read_frames, channel)) < 0) end(channel);
  if (failure < 0) leave(channel);
  leave(channel);
  pthread_mutex_unlock(&lock);
  return failure < 0 ? failure : number;
}

static void *take_connections(void *context) {
  perdure_channel_handler handler = (perdure_channel_handler)(intptr_t)context;
  pthread_mutex_lock(&lock);
  int descriptor = listener.descriptor;
  pthread_mutex_unlock(&lock);
  for (;;) {
    int taken = accept4(descriptor, 0, 0, SOCK_CLOEXEC);
    if (taken >= 0) {
      if (is_ours(taken)) open_channel(taken, handler); else close(taken);
      continue;
    }
    if (errno == EINTR || errno == ECONNABORTED) continue;
    if (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS) {
      usleep(100000);
      continue;
    }
    /* It was shut down. */
    close(descriptor);
    return 0;
  }
}

/* Removes what is left of a process that died; nothing else is removed. */
static int remove_socket(const char *path) {
  struct stat status;
  if (lstat(path, &status) < 0) return errno == ENOENT ? 0 : -errno;
  if (!S_ISSOCK(status.st_mode) || status.st_uid != geteuid()) return -EEXIST;
  return unlink(path) < 0 && errno != ENOENT ? -errno : 0;
}

static int listen_at(char *path, perdure_channel_handler handler) {
  struct sockaddr_un to;
  int folder;
  int code = remove_socket(path);
  if (code < 0 || (code = address(path, &to, &folder)) < 0) return code;
  int descriptor = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  struct stat status;
  /* Nobody can connect before it listens, and by then it is for this user alone. */
  if (descriptor < 0 || bind(descriptor, (struct sockaddr *)&to, sizeof to) < 0) code = -errno;
  else if (chmod(path, 0600) < 0 || lstat(path, &status) < 0 || listen(descriptor, 16) < 0) {
    code = -errno;
    unlink(path);
  }
  if (folder >= 0) close(folder);
  if (code == 0) {
    listener.descriptor = descriptor;
    listener.path = path;
    listener.device = status.st_dev;
    listener.inode = status.st_ino;
    pthread_mutex_unlock(&lock);
    code = start(take_connections, (void *)(intptr_t)handler);
    pthread_mutex_lock(&lock);
    if (code == 0) return 0;
    unlink(path);
    listener.descriptor = -1;
    listener.path = 0;
  }
  if (descriptor >= 0) close(descriptor);
  return code;
}

int perdure_channel_listen(perdure_channel_handler handler) {
  char *path = perdure_buffer_take_string();
  if (!path) return -errno;
  pthread_mutex_lock(&lock);
  int code = listener.descriptor >= 0 ? -EBUSY : listen_at(path, handler);
  pthread_mutex_unlock(&lock);
  if (code < 0) free(path);
  return code;
}

void perdure_channel_stop(void) {
  pthread_mutex_lock(&lock);
  struct stat status;
  if (listener.descriptor >= 0) {
    if (lstat(listener.path, &status) == 0 && status.st_dev == listener.device &&
        status.st_ino == listener.inode)
      unlink(listener.path);
    /* Its thread closes it. */
    shutdown(listener.descriptor, SHUT_RDWR);
    free(listener.path);
    listener.descriptor = -1;
    listener.path = 0;
  }
  pthread_mutex_unlock(&lock);
}

long long perdure_channel_connect(perdure_channel_handler handler) {
  char *path = perdure_buffer_take_string();
  if (!path) return -errno;
  struct sockaddr_un to;
  int folder;
  long long code = address(path, &to, &folder);
  free(path);
  if (code < 0) return code;
  int descriptor = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (descriptor < 0) code = -errno;
  while (code == 0 && connect(descriptor, (struct sockaddr *)&to, sizeof to) < 0)
    if (errno != EINTR) code = -errno;
  if (folder >= 0) close(folder);
  if (code == 0 && !is_ours(descriptor)) code = -EPERM;
  if (code == 0) return open_channel(descriptor, handler);
  if (descriptor >= 0) close(descriptor);
  return code;
}

int perdure_channel_send(long long number) {
  size_t count;
  char *bytes = perdure_buffer_take(&count);
  if (!bytes) return -errno;
  if (count > perdure_channel_longest) {
    free(bytes);
    return -EMSGSIZE;
  }
  struct frame *frame = malloc(sizeof *frame + 4 + count);
  if (!frame) {
    free(bytes);
    return -ENOMEM;
  }
  frame->next = 0;
  frame->count = 4 + count;
  for (int i = 0; i < 4; i++) frame->bytes[i] = (unsigned char)(count >> (8 * i));
  memcpy(frame->bytes + 4, bytes, count);
  free(bytes);
  int code = 0;
  pthread_mutex_lock(&lock);
  struct channel *channel = find(number);
  if (!channel || channel->ended || channel->finishing) code = -ENOTCONN;
  else if (channel->waiting + frame->count > most_waiting) {
    end(channel);
    code = -ENOBUFS;
  } else {
    channel->waiting += frame->count;
    if (channel->last) channel->last->next = frame; else channel->first = frame;
    channel->last = frame;
    pthread_cond_broadcast(&channel->news);
  }
  pthread_mutex_unlock(&lock);
  if (code < 0) free(frame);
  return code;
}

void perdure_channel_finish(long long number) {
  pthread_mutex_lock(&lock);
  struct channel *channel = find(number);
  if (channel) {
    channel->finishing = 1;
    pthread_cond_broadcast(&channel->news);
  }
  pthread_mutex_unlock(&lock);
}
