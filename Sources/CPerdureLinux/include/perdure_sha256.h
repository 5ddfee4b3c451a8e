#ifndef PERDURE_SHA256_H
#define PERDURE_SHA256_H

/* Writes the SHA-256 digest (FIPS 180-4) of count bytes. Own code: libcrypto would add more to the
 * start of the process than hashing the plugins takes. */
void perdure_sha256(const void *bytes, unsigned long count, unsigned char digest[32]);

/* The same of bytes that come in parts. */
struct perdure_sha256_stream;

/* NULL if there is no memory. */
struct perdure_sha256_stream *perdure_sha256_begin(void);

void perdure_sha256_add(struct perdure_sha256_stream *stream, const void *bytes,
                        unsigned long count);

/* Writes the digest and frees the stream. */
void perdure_sha256_end(struct perdure_sha256_stream *stream, unsigned char digest[32]);

#endif
