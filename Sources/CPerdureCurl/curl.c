#include "perdure_curl.h"

#include <curl/curl.h>

_Static_assert(PERDURE_CURL_PAUSE == CURL_WRITEFUNC_PAUSE, "the pause value is libcurl's");
_Static_assert(sizeof(unsigned long) == sizeof(size_t), "lengths are passed as unsigned long");

#define SET(option, value)                                             \
  do {                                                                 \
    CURLcode code = curl_easy_setopt((CURL *)easy, (option), (value)); \
    if (code != CURLE_OK) return (int)code;                            \
  } while (0)

static int set_limits(void *easy, const struct perdure_curl_request *request) {
  /* No signals: timeouts of name look-ups must not touch the process. */
  SET(CURLOPT_NOSIGNAL, 1L);
  SET(CURLOPT_CONNECTTIMEOUT_MS, request->connect_timeout_ms);
  SET(CURLOPT_PROTOCOLS_STR, "http,https");
  /* A redirect would carry the key and the conversation to an address that nobody chose. */
  SET(CURLOPT_FOLLOWLOCATION, 0L);
  SET(CURLOPT_SUPPRESS_CONNECT_HEADERS, 1L);
  SET(CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_2TLS);
  SET(CURLOPT_ACCEPT_ENCODING, "gzip");
  SET(CURLOPT_TCP_KEEPALIVE, 1L);
  return 0;
}

int perdure_curl_prepare(void *easy, const struct perdure_curl_request *request) {
  int code = set_limits(easy, request);
  if (code != 0) return code;
  SET(CURLOPT_ERRORBUFFER, request->error_text);
  SET(CURLOPT_URL, request->url);
  if (request->headers) SET(CURLOPT_HTTPHEADER, (struct curl_slist *)request->headers);
  if (request->ca_file) SET(CURLOPT_CAINFO, request->ca_file);
  if (request->ca_directory) SET(CURLOPT_CAPATH, request->ca_directory);
  if (request->body) {
    SET(CURLOPT_POST, 1L);
    SET(CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)request->body_length);
    SET(CURLOPT_COPYPOSTFIELDS, request->body);
  }
  SET(CURLOPT_HEADERFUNCTION, (curl_write_callback)request->on_header);
  SET(CURLOPT_HEADERDATA, request->context);
  SET(CURLOPT_WRITEFUNCTION, (curl_write_callback)request->on_body);
  SET(CURLOPT_WRITEDATA, request->context);
  return 0;
}

int perdure_curl_resume(void *easy) { return (int)curl_easy_pause((CURL *)easy, CURLPAUSE_CONT); }

int perdure_curl_initialise(void) { return (int)curl_global_init(CURL_GLOBAL_DEFAULT); }
