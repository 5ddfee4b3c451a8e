/* A library that knows nothing of Perdure: functions of every kind that a manifest can describe, and
 * such that nobody survives. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define API __attribute__((visibility("default")))

API int variable = 1;

API int8_t negate_i8(int8_t n) { return (int8_t)-n; }
API int16_t negate_i16(int16_t n) { return (int16_t)-n; }
API int32_t negate_i32(int32_t n) { return -n; }
API int64_t negate_i64(int64_t n) { return -n; }
API uint8_t flip_u8(uint8_t n) { return (uint8_t)~n; }
API uint16_t flip_u16(uint16_t n) { return (uint16_t)~n; }
API uint32_t flip_u32(uint32_t n) { return ~n; }
API uint64_t flip_u64(uint64_t n) { return ~n; }
API float half_f32(float n) { return n / 2; }
API double half_f64(double n) { return n / 2; }

/* Arguments of all registers and some of the stack. */
API double all(int8_t a, uint16_t b, float c, int64_t d, double e, uint32_t f, int32_t g, uint8_t h,
               double i, int16_t j) {
  return a + b + c + (double)d + e + f + g + h + i + j;
}

struct point {
  int8_t tag;
  double x;
  int32_t y;
};
API struct point mirror(struct point p) {
  struct point q = {(int8_t)-p.tag, -p.x, -p.y};
  return q;
}

API void nothing(const void *none) {
  if (none) abort();
}

API uint32_t count(const char *text) { return (uint32_t)strlen(text); }
API const char *name(void) { return "caf\xc3\xa9"; }
API const char *no_name(void) { return NULL; }

static int given;
API char *twice(const char *text) {
  char *both = malloc(2 * strlen(text) + 1);
  if (!both) return NULL;
  given++;
  strcpy(both, text);
  strcat(both, text);
  return both;
}
API void give_back(char *text) {
  given--;
  free(text);
}
API int32_t not_given_back(void) { return given; }

/* Three ways to say how much was written. */
API int32_t reversed(uint8_t *out, uint64_t *length, const uint8_t *bytes, uint32_t count) {
  uint32_t i;
  if (*length < count) return -5;
  for (i = 0; i < count; i++) out[i] = bytes[count - 1 - i];
  *length = count;
  return 0;
}
API int32_t say(char *out, int32_t room, int32_t number) {
  return snprintf(out, (size_t)room, "%d", number);
}
API void fill(char *out, uint64_t room) { memset(out, 'x', room); }
API int32_t lie(char *out, int32_t room) {
  (void)out;
  return room + 1;
}

API int32_t divide(int32_t a, int32_t b, int32_t *quotient, int32_t *rest) {
  if (b == 0) return 7;
  *quotient = a / b;
  *rest = a % b;
  return 0;
}

API int32_t crash(int32_t n) { return *(volatile int32_t *)(intptr_t)n; }
API int32_t leave(int32_t n) { exit(n); }
API int32_t stop(int32_t n) { abort(); return n; }
API int32_t deep(int32_t n) {
  volatile char room[4096];
  room[0] = (char)n;
  return deep(n + 1) + room[0];
}
/* Makes a file, so that somebody knows that it was called. */
API int32_t hang(const char *path) {
  FILE *file = fopen(path, "w");
  if (file) fclose(file);
  for (;;) pause();
  return 0;
}
