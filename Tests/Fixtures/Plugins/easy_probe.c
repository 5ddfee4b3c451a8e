/* Tries the readers of perdure_easy.h on good and damaged JSON; built with sanitizers. */
#include <assert.h>
#include <stdlib.h>

#include "perdure_easy.h"

/* A heap copy of exact size, so that a byte read too far is noticed. */
static pdr_easy_call with(const char *json, uint8_t **copy) {
  pdr_easy_call call;
  size_t length = strlen(json);
  memset(&call, 0, sizeof call);
  *copy = malloc(length ? length : 1);
  memcpy(*copy, json, length);
  call.arguments.ptr = *copy;
  call.arguments.len = length;
  return call;
}

static int is(const char *json, const char *expected) {
  uint8_t *copy;
  char buffer[16];
  pdr_easy_call call = with(json, &copy);
  int found = pdr_easy_string(&call, "s", buffer, sizeof buffer);
  int right = expected ? found && !strcmp(buffer, expected) : !found && !buffer[0];
  free(copy);
  return right;
}

static int number(const char *json, int64_t expected, int exists) {
  uint8_t *copy;
  int64_t value = 42;
  pdr_easy_call call = with(json, &copy);
  int found = pdr_easy_integer(&call, "n", &value);
  free(copy);
  return found == exists && value == (exists ? expected : 42);
}

int main(void) {
  static const char *const all[] = {
      "{\"s\":\"a\\u00e9\\ud83d\\ude00\\n\\\"\"}", "{\"o\":{\"s\":1},\"n\":[1,{\"s\":\"]\"}],\"s\":\"x\"}",
      "{ \"s\" : \"y\" , \"n\" : -12 }"};
  size_t i, cut;
  assert(is("{\"s\":\"plain\"}", "plain"));
  assert(is(all[0], "a\xc3\xa9\xf0\x9f\x98\x80\n\""));
  assert(is("{\"s\":\"\\ud800x\"}", "\xef\xbf\xbdx"));
  assert(is("{\"s\":\"\\udc00\"}", "\xef\xbf\xbd"));
  assert(is("{\"s\":\"\"}", ""));
  assert(is(all[1], "x"));
  assert(is(all[2], "y"));
  assert(is("{\"s\":\"123456789012345\"}", "123456789012345"));
  assert(is("{\"s\":\"1234567890123456\"}", NULL));
  assert(is("{\"s\":\"\\u0000\"}", NULL));
  assert(is("{\"s\":5}", NULL) && is("{}", NULL) && is("", NULL) && is("[]", NULL));
  assert(is("{\"o\":{\"s\":\"inner\"}}", NULL));
  assert(number("{\"n\":0}", 0, 1) && number("{\"n\":-7}", -7, 1));
  assert(number("{\"n\":9223372036854775807}", INT64_MAX, 1));
  assert(number("{\"n\":-9223372036854775808}", INT64_MIN, 1));
  assert(number("{\"n\":9223372036854775808}", 0, 0));
  assert(number("{\"n\":-9223372036854775809}", 0, 0));
  assert(number("{\"n\":1.5}", 0, 0) && number("{\"n\":1e3}", 0, 0));
  assert(number("{\"n\":\"1\"}", 0, 0) && number("{\"n\":-}", 0, 0));
  for (i = 0; i < sizeof all / sizeof all[0]; i++)
    for (cut = 0; cut < strlen(all[i]); cut++) {
      char part[128], buffer[16];
      uint8_t *copy;
      int64_t value;
      int flag;
      pdr_easy_call call;
      memcpy(part, all[i], cut);
      part[cut] = 0;
      call = with(part, &copy);
      pdr_easy_string(&call, "s", buffer, sizeof buffer);
      pdr_easy_integer(&call, "n", &value);
      pdr_easy_boolean(&call, "s", &flag);
      free(copy);
    }
  puts("ok");
  return 0;
}
