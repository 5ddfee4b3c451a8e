/* Reads arbitrary bytes as a policy, and as an order to the holder of that policy. */
#include <stdlib.h>
#include <string.h>

#include "policy.h"

static void check_text(const char *text, const unsigned char *message, size_t length) {
  /* Strings point into the message and end there. */
  const unsigned char *start = (const unsigned char *)text;
  if (start < message || start >= message + length) abort();
  if (memchr(text, 0, (size_t)(message + length - start)) == NULL) abort();
}

static void check_list(const struct text_list *list, const unsigned char *message, size_t length) {
  for (size_t i = 0; i < list->count; i++) check_text(list->items[i], message, length);
  if (list->count > 0 && list->items[list->count] != NULL) abort();
}

/* What the launcher relies on once a policy was accepted. */
static void check(const struct policy *policy, const unsigned char *message, size_t length) {
  if (policy->tier < TIER_NAMESPACES || policy->tier > TIER_NONE) abort();
  if (policy->holder == (policy->arguments.count > 0)) abort();
  if (policy->mount_count > MOST_MOUNTS || policy->listener_count > MOST_LISTENERS) abort();
  if (policy->first_id + policy->id_count > UINT32_MAX) abort();
  if (policy->id_count > 0 && policy->first_id == 0) abort();
  if (policy->run_as && (policy->uid == 0 || policy->gid == 0)) abort();
  check_list(&policy->arguments, message, length);
  check_list(&policy->environment, message, length);
  check_list(&policy->protect, message, length);
  check_list(&policy->hide, message, length);
  check_list(&policy->cgroups, message, length);
  check_list(&policy->require, message, length);
  for (size_t i = 0; i < policy->mount_count; i++) {
    check_text(policy->mounts[i].inside, message, length);
    check_text(policy->mounts[i].outside, message, length);
    if (policy->mounts[i].inside[0] != '/' || strstr(policy->mounts[i].inside, "/../") != NULL)
      abort();
  }
}

static void release(struct policy *policy) {
  struct text_list *lists[] = {&policy->protect,   &policy->hide,    &policy->environment,
                               &policy->arguments, &policy->require, &policy->cgroups};
  for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) free(lists[i]->items);
}

int LLVMFuzzerTestOneInput(const unsigned char *bytes, size_t length) {
  /* An exact copy, so that the sanitizer sees a read behind the end. */
  unsigned char *message = malloc(length == 0 ? 1 : length);
  if (message == NULL) return 0;
  memcpy(message, bytes, length);
  struct policy policy, holder;
  struct policy_error error;
  if (parse_policy(message, length, false, &policy, &error)) check(&policy, message, length);
  release(&policy);
  memset(&holder, 0, sizeof holder);
  holder.tier = TIER_NAMESPACES;
  holder.holder = true;
  holder.directory = "/";
  if (parse_policy(message, length, true, &holder, &error)) {
    if (holder.tier != TIER_NAMESPACES || holder.mount_count != 0 || holder.network != 0) abort();
    if (holder.cgroups.count != 0 || holder.run_as || holder.debugger || holder.system) abort();
    check_list(&holder.arguments, message, length);
  }
  release(&holder);
  free(message);
  return 0;
}
