#ifndef PERDURE_SHA256_H
#define PERDURE_SHA256_H

/* Writes the SHA-256 digest (FIPS 180-4) of count bytes. Own code: libcrypto would add more to the
 * start of the process than hashing the plugins takes. */
void perdure_sha256(const void *bytes, unsigned long count, unsigned char digest[32]);

#endif
