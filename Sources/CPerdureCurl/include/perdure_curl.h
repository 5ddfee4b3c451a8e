#ifndef PERDURE_CURL_H
#define PERDURE_CURL_H

#ifdef __cplusplus
extern "C" {
#endif

/* libcurl's variadic setters behind plain types. A handle is a `CURL *` as a pointer to void. */

/* Called with `length` bytes; returns `length` to go on or PERDURE_CURL_PAUSE to be called again
   with the same bytes after the transfer was resumed. Any other value ends the transfer. */
typedef unsigned long (*perdure_curl_bytes)(
    char *bytes, unsigned long size, unsigned long length, void *context);

#define PERDURE_CURL_PAUSE 0x10000001UL

/* What one request needs. The strings may go away after the call, except for `headers` and
   `error_text`, which must live as long as the handle. */
struct perdure_curl_request {
  const char *url;
  /* Null makes it a GET request. */
  const char *body;
  unsigned long body_length;
  /* A `struct curl_slist *`, or null. */
  void *headers;
  long connect_timeout_ms;
  /* Null leaves libcurl's own. */
  const char *ca_file;
  const char *ca_directory;
  /* At least 256 bytes. */
  char *error_text;
  perdure_curl_bytes on_header;
  perdure_curl_bytes on_body;
  void *context;
};

/* Sets all options of a new handle; returns 0 or a CURLcode. */
int perdure_curl_prepare(void *easy, const struct perdure_curl_request *request);

/* Resumes a paused transfer; may call `on_body` before it returns. Returns 0 or a CURLcode. */
int perdure_curl_resume(void *easy);

/* Initialises libcurl once for the process; returns 0 or a CURLcode. */
int perdure_curl_initialise(void);

#ifdef __cplusplus
}
#endif

#endif
