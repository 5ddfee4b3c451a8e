#include "policy.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char magic[8] = {'P', 'D', 'R', 'S', 'B', 'O', 'X', '1'};

enum tag {
#define FIELD(number, name, kinds, repeats, in_order) tag_##name = number,
  POLICY_FIELDS(FIELD) POLICY_FAULT(FIELD)
#undef FIELD
};

static const struct shape {
  unsigned tag;
  const char *name;
  const char *kinds;
  bool repeats;
  bool in_order;
} shapes[] = {
#define FIELD(number, name, kinds, repeats, in_order) {number, #name, kinds, repeats, in_order},
    POLICY_FIELDS(FIELD) POLICY_FAULT(FIELD)
#undef FIELD
};

#define SHAPE_COUNT (sizeof shapes / sizeof *shapes)
#define MOST_VALUES 6

/* One value of a field: the member that its kind says. */
struct value {
  uint64_t number;
  const char *text;
};

struct reader {
  const unsigned char *next;
  size_t left;
  struct policy_error *error;
};

static bool refuse(struct policy_error *error, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static bool refuse(struct policy_error *error, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(error->text, sizeof error->text, format, arguments);
  va_end(arguments);
  return false;
}

/* Takes `count` bytes as a number, the lowest first. */
static bool take_number(struct reader *reader, unsigned count, uint64_t *number) {
  if (reader->left < count) return refuse(reader->error, "the message is cut off");
  *number = 0;
  for (unsigned i = 0; i < count; i++) *number |= (uint64_t)reader->next[i] << (8 * i);
  reader->next += count;
  reader->left -= count;
  return true;
}

static bool take_value(struct reader *reader, char kind, const char *field, struct value *value) {
  uint64_t length = 0;
  if (!take_number(reader, 4, &length)) return false;
  if (length >= reader->left) return refuse(reader->error, "%s: the message is cut off", field);
  const unsigned char *bytes = reader->next;
  if (bytes[length] != 0) return refuse(reader->error, "%s: a value has no NUL behind it", field);
  reader->next += length + 1;
  reader->left -= length + 1;
  if (kind == 's') {
    if (memchr(bytes, 0, length) != NULL) {
      return refuse(reader->error, "%s: a string has a NUL inside", field);
    }
    value->text = (const char *)bytes;
    return true;
  }
  if (length != 8) return refuse(reader->error, "%s: a number has not 8 bytes", field);
  struct reader number = {.next = bytes, .left = 8, .error = reader->error};
  return take_number(&number, 8, &value->number);
}

static bool append(struct text_list *list, const char *text, struct policy_error *error) {
  /* Powers of two from 16 on; the message is bounded, so the list is. */
  if (list->count == 0 || (list->count >= 16 && (list->count & (list->count - 1)) == 0)) {
    size_t room = list->count == 0 ? 16 : list->count * 2;
    /* One more, so that a list of arguments can end in NULL. */
    const char **larger = realloc(list->items, (room + 1) * sizeof *larger);
    if (larger == NULL) return refuse(error, "no memory for the policy");
    list->items = larger;
  }
  list->items[list->count++] = text;
  list->items[list->count] = NULL;
  return true;
}

/* An absolute path without empty, "." or ".." parts and without a slash at its end. */
static bool is_plain_path(const char *path) {
  if (path[0] != '/' || strlen(path) >= 4096) return false;
  const char *part = path + 1;
  while (true) {
    size_t length = strcspn(part, "/");
    if (length == 0 || length > 255) return false;
    if (part[0] == '.' && (length == 1 || (length == 2 && part[1] == '.'))) return false;
    if (part[length] == 0) return true;
    part += length + 1;
  }
}

static bool between(struct policy_error *error, const char *what, uint64_t value, uint64_t least,
                    uint64_t most) {
  if (value >= least && value <= most) return true;
  return refuse(error, "%s is out of range: %llu", what, (unsigned long long)value);
}

static bool take_mount(struct policy *policy, const struct value *values,
                       struct policy_error *error) {
  if (policy->mount_count == MOST_MOUNTS) return refuse(error, "more than %d mounts", MOST_MOUNTS);
  if (!between(error, "the access of a mount", values[0].number, ACCESS_READ, ACCESS_WRITE) ||
      !between(error, "the flags of a mount", values[1].number, 0, MOUNT_EXEC)) {
    return false;
  }
  for (int i = 2; i < 4; i++) {
    if (!is_plain_path(values[i].text)) {
      return refuse(error, "mount: not a plain absolute path: %.80s", values[i].text);
    }
  }
  policy->mounts[policy->mount_count++] = (struct mount_entry){
      .access = (int)values[0].number,
      .flags = (int)values[1].number,
      .inside = values[2].text,
      .outside = values[3].text,
      .device = values[4].number,
      .inode = values[5].number,
  };
  return true;
}

static bool take_listener(struct policy *policy, const struct value *values,
                          struct policy_error *error) {
  if (policy->listener_count == MOST_LISTENERS) {
    return refuse(error, "more than %d listeners", MOST_LISTENERS);
  }
  if (!between(error, "the kind of a listener", values[0].number, LISTEN_TCP, LISTEN_UDP) ||
      !between(error, "a port", values[1].number, 1, 65535)) {
    return false;
  }
  policy->listeners[policy->listener_count++] =
      (struct listener){.kind = (int)values[0].number, .port = (int)values[1].number};
  return true;
}

static bool take_path(struct text_list *list, const char *field, const char *path,
                      struct policy_error *error) {
  if (!is_plain_path(path))
    return refuse(error, "%s: not a plain absolute path: %.80s", field, path);
  return append(list, path, error);
}

static bool take_users(struct policy *policy, const struct value *values,
                       struct policy_error *error) {
  /* Host id 0 must never be inside, and (uid_t)-1 means "no change" to the kernel. */
  policy->first_id = values[0].number;
  policy->id_count = values[1].number;
  return between(error, "the first foreign id", policy->first_id, 1, UINT32_MAX - 1) &&
         between(error, "the number of foreign ids", policy->id_count, 1,
                 UINT32_MAX - policy->first_id);
}

static bool take_terminal(struct policy *policy, const struct value *values,
                          struct policy_error *error) {
  policy->terminal = true;
  policy->rows = (unsigned)values[0].number;
  policy->columns = (unsigned)values[1].number;
  return between(error, "the rows of a terminal", values[0].number, 1, 65535) &&
         between(error, "the columns of a terminal", values[1].number, 1, 65535);
}

#define MOST_BYTES ((uint64_t)1 << 62)
#define MOST_MILLISECONDS ((uint64_t)2147483647)

/* Limits: 0 is "none". */
static bool take_limit(struct policy *policy, unsigned tag, uint64_t number,
                       struct policy_error *error) {
  switch (tag) {
    case tag_limit_data: policy->data = number; break;
    case tag_limit_memory: policy->memory = number; break;
    case tag_limit_file: policy->file = number; break;
    case tag_limit_disk_floor: policy->disk_floor = number; break;
    case tag_limit_scratch: policy->scratch = number; break;
    case tag_limit_cpu:
      policy->cpu = number;
      return between(error, "limit_cpu", number, 0, MOST_MILLISECONDS);
    case tag_limit_time:
      policy->time = number;
      return between(error, "limit_time", number, 0, MOST_MILLISECONDS);
    case tag_limit_processes:
      policy->processes = number;
      return between(error, "limit_processes", number, 0, 1 << 22);
    case tag_limit_descriptors:
      policy->descriptors = number;
      return between(error, "limit_descriptors", number, 0, 1 << 20);
    case tag_grace: policy->grace = number; return between(error, "grace", number, 0, 600000);
    default: return refuse(error, "unknown field %u", tag);
  }
  return between(error, "a limit of bytes", number, 0, MOST_BYTES);
}

static bool take_environment(struct policy *policy, const char *text, struct policy_error *error) {
  const char *equals = strchr(text, '=');
  if (equals == NULL || equals == text) return refuse(error, "environment: not NAME=value");
  return append(&policy->environment, text, error);
}

static bool take_field(struct policy *policy, unsigned tag, const struct value *values,
                       struct policy_error *error) {
  switch (tag) {
    case tag_tier:
      policy->tier = (int)values[0].number;
      return between(error, "the tier", values[0].number, TIER_NAMESPACES, TIER_NONE);
    case tag_users: return take_users(policy, values, error);
    case tag_run_as:
      policy->run_as = true;
      policy->uid = values[0].number;
      policy->gid = values[1].number;
      return between(error, "the user to become", policy->uid, 1, UINT32_MAX - 1) &&
             between(error, "the group to become", policy->gid, 1, UINT32_MAX - 1);
    case tag_system: policy->system = true; return true;
    case tag_mount: return take_mount(policy, values, error);
    case tag_protect: return take_path(&policy->protect, "protect", values[0].text, error);
    case tag_hide: return take_path(&policy->hide, "hide", values[0].text, error);
    case tag_network:
      policy->network = (int)values[0].number;
      return between(error, "the network", values[0].number, NETWORK_OFF, NETWORK_HOST);
    case tag_listen: return take_listener(policy, values, error);
    case tag_environment: return take_environment(policy, values[0].text, error);
    case tag_argument: return append(&policy->arguments, values[0].text, error);
    case tag_directory:
      policy->directory = values[0].text;
      if (strcmp(values[0].text, "/") == 0 || is_plain_path(values[0].text)) return true;
      return refuse(error, "directory: not a plain absolute path: %.80s", values[0].text);
    case tag_terminal: return take_terminal(policy, values, error);
    case tag_debugger: policy->debugger = true; return true;
    case tag_holder: policy->holder = true; return true;
    case tag_cgroup: return take_path(&policy->cgroups, "cgroup", values[0].text, error);
    case tag_require: return append(&policy->require, values[0].text, error);
    case tag_without_proc: policy->without_proc = true; return true;
    case tag_deadline:
      policy->deadline = values[0].number;
      return between(error, "deadline", policy->deadline, 1, 600000);
    case tag_descriptors:
      policy->wanted_descriptors = values[0].number;
      return between(error, "descriptors", policy->wanted_descriptors, 0, WANT_ROOT);
#ifdef PERDURE_SANDBOX_FAULTS
    case tag_fault:
      policy->fault_stage = values[0].number;
      policy->fault_error = values[1].number;
      return true;
#endif
    default: return take_limit(policy, tag, values[0].number, error);
  }
}

static const struct shape *shape_of(unsigned tag) {
  for (size_t i = 0; i < SHAPE_COUNT; i++) {
    if (shapes[i].tag == tag) return &shapes[i];
  }
  return NULL;
}

static bool read_field(struct reader *reader, struct policy *policy, bool order, bool *seen) {
  uint64_t tag = 0, count = 0;
  if (!take_number(reader, 2, &tag) || !take_number(reader, 2, &count)) return false;
  const struct shape *shape = shape_of((unsigned)tag);
  if (shape == NULL) return refuse(reader->error, "unknown field %u", (unsigned)tag);
  if (order && !shape->in_order) {
    return refuse(reader->error, "%s may not stand in an order to a holder", shape->name);
  }
  if (seen[shape - shapes] && !shape->repeats) {
    return refuse(reader->error, "%s stands twice", shape->name);
  }
  seen[shape - shapes] = true;
  if (count != strlen(shape->kinds)) {
    return refuse(reader->error, "%s has %u values", shape->name, (unsigned)count);
  }
  struct value values[MOST_VALUES] = {{0}};
  for (size_t i = 0; i < count; i++) {
    if (!take_value(reader, shape->kinds[i], shape->name, &values[i])) return false;
  }
  return take_field(policy, (unsigned)tag, values, reader->error);
}

/* What the weaker tiers cannot do is refused here, in words, instead of being left out. */
static bool check_weaker_tier(const struct policy *policy, struct policy_error *error) {
  if (policy->tier == TIER_NAMESPACES) return true;
  if (policy->holder) return refuse(error, "only the tier namespaces can hold a sandbox");
  if (policy->hide.count > 0) return refuse(error, "only the tier namespaces can hide a path");
  if (policy->wanted_descriptors != 0) {
    return refuse(error, "only the tier namespaces has a root of its own");
  }
  if (policy->debugger) return refuse(error, "only the tier namespaces can allow a debugger");
  if (policy->network == NETWORK_LOOPBACK || policy->network == NETWORK_ALLOW) {
    return refuse(error, "only the tier namespaces has a network of its own");
  }
  for (size_t i = 0; i < policy->mount_count; i++) {
    if (strcmp(policy->mounts[i].inside, policy->mounts[i].outside) != 0) {
      return refuse(error, "only the tier namespaces can show a directory elsewhere: %.60s",
                    policy->mounts[i].inside);
    }
  }
  return true;
}

static bool check_whole(const struct policy *policy, struct policy_error *error) {
  if (policy->tier == 0) return refuse(error, "the policy names no tier");
  if (policy->holder != (policy->arguments.count == 0)) {
    return refuse(error, policy->holder ? "a holder has a command" : "there is no command");
  }
  if (policy->holder && policy->terminal) return refuse(error, "a holder has a terminal");
  if (policy->listener_count > 0 && policy->network != NETWORK_ALLOW) {
    return refuse(error, "listeners stand with a network that has none");
  }
  return check_weaker_tier(policy, error);
}

static void set_defaults(struct policy *policy) {
  *policy = (struct policy){
      .directory = "/",
      .deadline = 5000,
      .grace = 2000,
      .data = (uint64_t)3 << 29,
      .memory = (uint64_t)2 << 30,
      .processes = 512,
      .cpu = 480,
      .time = 120000,
      .file = (uint64_t)1 << 30,
      .disk_floor = (uint64_t)1 << 30,
      .descriptors = 1024,
      .scratch = (uint64_t)256 << 20,
  };
}

bool parse_policy(const unsigned char *message, size_t length, bool order, struct policy *policy,
                  struct policy_error *error) {
  if (order) {
    /* The order brings its own command; it shares no memory with the holder's policy. */
    policy->holder = false;
    policy->arguments = policy->environment = (struct text_list){0};
  } else {
    set_defaults(policy);
  }
  if (length < sizeof magic || memcmp(message, magic, sizeof magic) != 0) {
    return refuse(error, "not a policy of version 1; host and launcher are of different versions");
  }
  struct reader reader = {
      .next = message + sizeof magic, .left = length - sizeof magic, .error = error};
  bool seen[SHAPE_COUNT] = {false};
  uint64_t count = 0;
  if (!take_number(&reader, 4, &count)) return false;
  for (uint64_t i = 0; i < count; i++) {
    if (!read_field(&reader, policy, order, seen)) return false;
  }
  if (reader.left != 0) return refuse(error, "%zu bytes behind the last field", reader.left);
  return check_whole(policy, error);
}
