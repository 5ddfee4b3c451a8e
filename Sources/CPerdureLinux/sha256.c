#include "perdure_sha256.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static const uint32_t round_constants[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

static uint32_t rotate(uint32_t word, int count) { return word >> count | word << (32 - count); }

static void add_block(uint32_t state[8], const unsigned char *block) {
  uint32_t w[64], v[8];
  for (int i = 0; i < 16; i++)
    w[i] = (uint32_t)block[4 * i] << 24 | (uint32_t)block[4 * i + 1] << 16 |
           (uint32_t)block[4 * i + 2] << 8 | block[4 * i + 3];
  for (int i = 16; i < 64; i++) {
    uint32_t a = rotate(w[i - 15], 7) ^ rotate(w[i - 15], 18) ^ w[i - 15] >> 3;
    uint32_t b = rotate(w[i - 2], 17) ^ rotate(w[i - 2], 19) ^ w[i - 2] >> 10;
    w[i] = w[i - 16] + a + w[i - 7] + b;
  }
  memcpy(v, state, sizeof v);
  for (int i = 0; i < 64; i++) {
    uint32_t e = rotate(v[4], 6) ^ rotate(v[4], 11) ^ rotate(v[4], 25);
    uint32_t one = v[7] + e + ((v[4] & v[5]) ^ (~v[4] & v[6])) + round_constants[i] + w[i];
    uint32_t a = rotate(v[0], 2) ^ rotate(v[0], 13) ^ rotate(v[0], 22);
    uint32_t two = a + ((v[0] & v[1]) ^ (v[0] & v[2]) ^ (v[1] & v[2]));
    memmove(v + 1, v, 7 * sizeof v[0]);
    v[4] += one;
    v[0] = one + two;
  }
  for (int i = 0; i < 8; i++) state[i] += v[i];
}

static const uint32_t start[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                  0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};

/* Adds the last bytes, fewer than 64, of `total`. */
static void end(uint32_t state[8], const unsigned char *at, unsigned long left, uint64_t total,
                unsigned char digest[32]) {
  unsigned char tail[128] = {0};
  if (left) memcpy(tail, at, left);
  tail[left] = 0x80;
  unsigned long size = left < 56 ? 64 : 128;
  uint64_t bits = total * 8;
  for (int i = 0; i < 8; i++) tail[size - 1 - (unsigned long)i] = (unsigned char)(bits >> 8 * i);
  for (unsigned long i = 0; i < size; i += 64) add_block(state, tail + i);

  for (int i = 0; i < 32; i++) digest[i] = (unsigned char)(state[i / 4] >> (24 - 8 * (i % 4)));
}

void perdure_sha256(const void *bytes, unsigned long count, unsigned char digest[32]) {
  uint32_t state[8];
  memcpy(state, start, sizeof state);
  const unsigned char *at = bytes;
  unsigned long left = count;
  for (; left >= 64; left -= 64, at += 64) add_block(state, at);
  end(state, at, left, count, digest);
}

struct perdure_sha256_stream {
  uint32_t state[8];
  uint64_t total;
  unsigned char rest[64];
};

struct perdure_sha256_stream *perdure_sha256_begin(void) {
  struct perdure_sha256_stream *stream = calloc(1, sizeof *stream);
  if (stream) memcpy(stream->state, start, sizeof stream->state);
  return stream;
}

void perdure_sha256_add(struct perdure_sha256_stream *stream, const void *bytes,
                        unsigned long count) {
  const unsigned char *at = bytes;
  while (count > 0) {
    unsigned long held = stream->total % 64;
    unsigned long taken = count < 64 - held ? count : 64 - held;
    memcpy(stream->rest + held, at, taken);
    stream->total += taken;
    at += taken;
    count -= taken;
    if (held + taken == 64) add_block(stream->state, stream->rest);
  }
}

void perdure_sha256_end(struct perdure_sha256_stream *stream, unsigned char digest[32]) {
  end(stream->state, stream->rest, stream->total % 64, stream->total, digest);
  free(stream);
}
