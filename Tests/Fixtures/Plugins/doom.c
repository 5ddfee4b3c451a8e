/* A plugin whose tools end or disturb the process that they run in, each in a way of its own. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "perdure_easy.h"

#define TOOL(name, more)                                           \
  "{\"name\":\"" name "\",\"description\":\"" name "\"," more      \
  "\"blocking\":true,\"parameters\":{\"type\":\"object\"}}"

PDR_PLUGIN_NOTE("c");
PDR_MANIFEST(
    "{\"manifest\":1,\"id\":\"test.doom\",\"version\":\"1.0.0\",\"runtime\":\"c\","
    "\"execution\":{\"mode\":\"runner\",\"maxConcurrency\":65,\"graceMs\":100,"
    "\"limits\":{\"memoryMiB\":64,\"files\":64}},"
    "\"tools\":[" TOOL("echo", "\"replay\":\"safe\",") "," TOOL("hold", "") "," TOOL("segv", "") "," TOOL("trap", "")
    "," TOOL("abort", "") "," TOOL("exit", "") "," TOOL("quit", "") "," TOOL("overflow", "")
    "," TOOL("loop", "") "," TOOL("hog", "") "," TOOL("leak", "") "," TOOL("deaf", "")
    "," TOOL("noise", "") "," TOOL("unsealed", "") "," TOOL("skip", "") "," TOOL("forged", "")
    "," TOOL("print", "") "," TOOL("variables", "") "," TOOL("stop", "") "," TOOL("once", "\"replay\":\"safe\",")
    "]}");

/* The descriptor of the connection to the host. */
enum { CONNECTION = 3 };

static volatile int for_ever = 1;

static int32_t emit_ready(pdr_easy_call *call) {
  pdr_blob blob = {sizeof blob, 0, (const uint8_t *)"ready", 5, pdr_easy_str(PDR_MEDIA_TEXT), NULL, NULL};
  return call->calls->emit(call->calls->ctx, call->call->id, &blob);
}

static int32_t echo(pdr_easy_call *call) {
  static const char media[] = PDR_MEDIA_TEXT;
  pdr_blob blob = {sizeof blob, 0, call->arguments.ptr, call->arguments.len,
                   {(const uint8_t *)media, sizeof media - 1}, NULL, NULL};
  call->answered = 1;
  return call->calls->complete(call->calls->ctx, call->call->id, PDR_OK, &blob, NULL);
}

static int32_t hold(pdr_easy_call *call) {
  emit_ready(call);
  while (for_ever) pause();
  return PDR_OK;
}

static int32_t segv(pdr_easy_call *call) {
  (void)call;
  *(volatile int *)8 = 1;
  return PDR_OK;
}

static int32_t traps(pdr_easy_call *call) {
  (void)call;
  __builtin_trap();
}

static int32_t aborts(pdr_easy_call *call) {
  (void)call;
  abort();
}

static int32_t exits(pdr_easy_call *call) {
  (void)call;
  exit(0);
}

static int32_t quits(pdr_easy_call *call) {
  (void)call;
  _exit(7);
}

static int deeper(volatile char *above) {
  volatile char here[4096];
  here[0] = above[0];
  if (!for_ever) return 0;
  return deeper(here) + here[0];
}

static int32_t overflow(pdr_easy_call *call) {
  volatile char first = 1;
  return pdr_easy_answerf(call, "%d", deeper(&first));
}

static int32_t loop(pdr_easy_call *call) {
  emit_ready(call);
  while (for_ever) {
  }
  return PDR_OK;
}

static int32_t hog(pdr_easy_call *call) {
  (void)call;
  while (for_ever) {
    char *more = malloc(1 << 20);
    memset(more, 1, 1);
  }
  return PDR_OK;
}

static int32_t leak(pdr_easy_call *call) {
  int count = 0;
  while (open("/dev/null", O_RDONLY) >= 0) count++;
  return pdr_easy_answerf(call, "%d", count);
}

static int32_t deaf(pdr_easy_call *call) {
  close(CONNECTION);
  return pdr_easy_answer(call, "unheard");
}

static int32_t noise(pdr_easy_call *call) {
  if (send(CONNECTION, "noise", 5, 0) < 0) abort();
  return pdr_easy_answer(call, "after the noise");
}

/* The frames that the runner has sent before the first call: HELLO and ACTIVATED. */
enum { SENT = 2 };

static void send_frame(uint16_t type, uint32_t flags, uint64_t id, uint64_t length, uint32_t sequence, int memory) {
  uint8_t frame[64] = {'P', 'D', 'R', '1', 64, 0};
  memcpy(frame + 6, &type, 2);
  memcpy(frame + 8, &flags, 4);
  memcpy(frame + 16, &id, 8);
  memcpy(frame + 40, &length, 8);
  memcpy(frame + 60, &sequence, 4);
  struct iovec part = {frame, sizeof frame};
  char control[CMSG_SPACE(sizeof(int))] = {0};
  struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
  if (memory >= 0) {
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    struct cmsghdr *rights = CMSG_FIRSTHDR(&message);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(rights), &memory, sizeof(int));
  }
  if (sendmsg(CONNECTION, &message, 0) < 0) abort();
}

static int32_t unsealed(pdr_easy_call *call) {
  int memory = memfd_create("bad", 0);
  if (memory < 0 || ftruncate(memory, 100000) != 0) abort();
  send_frame(11, 1, call->call->id, 100000, SENT + 1, memory);
  while (for_ever) pause();
  return PDR_OK;
}

static int32_t skips(pdr_easy_call *call) {
  send_frame(21, 4, call->call->id, 0, SENT + 2, -1);
  while (for_ever) pause();
  return PDR_OK;
}

static int32_t forged(pdr_easy_call *call) {
  send_frame(11, 4, call->call->id + (5ull << 32), 0, SENT + 1, -1);
  while (for_ever) pause();
  return PDR_OK;
}

static int32_t print(pdr_easy_call *call) {
  puts("a line for the log");
  fputs("and one of errors\n", stderr);
  return pdr_easy_answer(call, "printed");
}

static int32_t variables(pdr_easy_call *call) {
  const char *secret = getenv("PERDURE_TEST_SECRET");
  return pdr_easy_answer(call, secret ? secret : "none");
}

static int32_t stops(pdr_easy_call *call) {
  emit_ready(call);
  kill(getpid(), SIGSTOP);
  return pdr_easy_answer(call, "went on");
}

/* Crashes unless the file exists, which it then does. */
static int32_t once(pdr_easy_call *call) {
  char path[1024];
  if (!pdr_easy_string(call, "path", path, sizeof path)) return pdr_easy_fail(call, "no path");
  int file = open(path, O_WRONLY | O_CREAT | O_EXCL, 0600);
  if (file >= 0) abort();
  return pdr_easy_answer(call, "the second time");
}

PDR_EASY_PLUGIN({"echo", echo}, {"hold", hold}, {"segv", segv}, {"trap", traps}, {"abort", aborts}, {"exit", exits},
                {"quit", quits}, {"overflow", overflow}, {"loop", loop}, {"hog", hog},
                {"leak", leak}, {"deaf", deaf}, {"noise", noise}, {"unsealed", unsealed},
                {"skip", skips}, {"forged", forged}, {"print", print}, {"variables", variables},
                {"stop", stops}, {"once", once})
