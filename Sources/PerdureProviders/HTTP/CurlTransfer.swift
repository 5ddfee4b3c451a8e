import CCurl
import CPerdureCurl
import Glibc

/// A running transfer; lives on the thread of the loop and never leaves it.
///
/// Safe to use there, since it owns what its pointers point to.
@safe
final class CurlTransfer {
  let exchange: HTTPExchange
  let easy: UnsafeMutableRawPointer
  /// When nobody listens any more and the transfer only runs on to keep its connection, in
  /// nanoseconds of the monotonic clock.
  var discardedAt: Int64?

  private var headers: UnsafeMutablePointer<curl_slist>?
  private let errorText: UnsafeMutablePointer<CChar>
  private var head: HTTPHead?
  private var isHeadDelivered = false
  private var parts: [HTTPPart] = []
  private var body: [UInt8] = []

  init(_ exchange: HTTPExchange, easy: UnsafeMutableRawPointer) {
    self.exchange = exchange
    unsafe self.easy = easy
    unsafe errorText = .allocate(capacity: 256)
    unsafe errorText.initialize(repeating: 0, count: 256)
  }

  deinit {
    unsafe curl_easy_cleanup(easy)
    unsafe curl_slist_free_all(headers)
    unsafe errorText.deallocate()
  }

  /// Sets the options of the handle; returns 0 or what libcurl objects to.
  func prepare(_ trust: HTTPClient.Trust) -> Int32 {
    let request = exchange.request
    for (name, value) in request.headers {
      // libcurl copies the line. An empty value would remove the field, which nobody asks for.
      unsafe headers = curl_slist_append(headers, "\(name): \(value)")
    }
    // libcurl would wait for leave to send a large body, which few servers give.
    unsafe headers = curl_slist_append(headers, "Expect:")
    return unsafe withOptional(trust.file) { file in
      unsafe withOptional(trust.directory) { directory in
        unsafe request.url.withCString { url in
          unsafe withBody(request.body) { body, count in
            var options = unsafe perdure_curl_request(
              url: url,
              body: body,
              body_length: UInt(count),
              headers: headers,
              connect_timeout_ms: Int(clamping: request.connectTimeoutMs),
              ca_file: file,
              ca_directory: directory,
              error_text: errorText,
              on_header: receiveHeader,
              on_body: receiveBody,
              context: Unmanaged.passUnretained(self).toOpaque()
            )
            return unsafe perdure_curl_prepare(easy, &options)
          }
        }
      }
    }
  }

  /// Hands over what arrived since the last call.
  func flush() {
    if !body.isEmpty {
      parts.append(.body(body))
      body = []
    }
    exchange.deliver(parts)
    parts = []
  }

  /// Hands over the last parts.
  func finish(code: CURLcode) {
    if !body.isEmpty {
      parts.append(.body(body))
      body = []
    }
    parts.append(code == CURLE_OK ? .end : .failed(failure(code)))
    exchange.deliver(parts)
    exchange.finish()
    parts = []
  }

  private func failure(_ code: CURLcode) -> HTTPFailure {
    var message = unsafe String(cString: errorText)
    if message.isEmpty { message = unsafe String(cString: curl_easy_strerror(code)) }
    if code == CURLE_PEER_FAILED_VERIFICATION || code == CURLE_SSL_CACERT_BADFILE {
      message += "; SSL_CERT_FILE or SSL_CERT_DIR names the authorities to trust"
    }
    return HTTPFailure(kind: kind(of: code), message: message)
  }

  private func kind(of code: CURLcode) -> HTTPFailure.Kind {
    switch code {
    case CURLE_PARTIAL_FILE, CURLE_RECV_ERROR, CURLE_HTTP2, CURLE_HTTP2_STREAM:
      isHeadDelivered ? .broken : .transient
    case CURLE_COULDNT_RESOLVE_HOST, CURLE_COULDNT_RESOLVE_PROXY, CURLE_COULDNT_CONNECT,
      CURLE_OPERATION_TIMEDOUT, CURLE_GOT_NOTHING, CURLE_SEND_ERROR, CURLE_SSL_CONNECT_ERROR,
      CURLE_PROXY, CURLE_WEIRD_SERVER_REPLY:
      .transient
    default: .permanent
    }
  }

  fileprivate func receive(header line: some Collection<UInt8>) {
    guard !isHeadDelivered else { return }
    let text =
      String(decoding: line, as: UTF8.self)
      .split(separator: "\r\n", omittingEmptySubsequences: false).first.map(String.init) ?? ""
    if text.hasPrefix("HTTP/") {
      let words = text.split(separator: " ")
      head = HTTPHead(status: words.count > 1 ? Int(words[1]) ?? 0 : 0)
    } else if text.isEmpty || text == "\n" {
      // 1xx answers announce the real one.
      if let head, head.status >= 200 {
        parts.append(.head(head))
        isHeadDelivered = true
      }
    } else if let colon = text.firstIndex(of: ":") {
      let value = text[text.index(after: colon)...].trimmed
      head?.fields.append((name: String(text[..<colon]), value: value))
    }
  }

  fileprivate func receive(body bytes: UnsafeRawBufferPointer) -> UInt {
    let count = bytes.count
    if discardedAt != nil { return UInt(count) }
    guard exchange.reserve(count) else { return UInt(PERDURE_CURL_PAUSE) }
    unsafe body.append(contentsOf: bytes)
    return UInt(count)
  }
}

private func receiveHeader(
  bytes: UnsafeMutablePointer<CChar>?,
  size: UInt,
  length: UInt,
  context: UnsafeMutableRawPointer?
) -> UInt {
  guard let bytes = unsafe bytes, let context = unsafe context else { return 0 }
  // The loop keeps the transfer alive for as long as its handle.
  let transfer = unsafe Unmanaged<CurlTransfer>.fromOpaque(context).takeUnretainedValue()
  unsafe transfer.receive(header: UnsafeRawBufferPointer(start: bytes, count: Int(length)))
  return length
}

private func receiveBody(
  bytes: UnsafeMutablePointer<CChar>?,
  size: UInt,
  length: UInt,
  context: UnsafeMutableRawPointer?
) -> UInt {
  guard let bytes = unsafe bytes, let context = unsafe context else { return length }
  // The loop keeps the transfer alive for as long as its handle.
  let transfer = unsafe Unmanaged<CurlTransfer>.fromOpaque(context).takeUnretainedValue()
  return unsafe transfer.receive(body: UnsafeRawBufferPointer(start: bytes, count: Int(length)))
}

private func withOptional<Result>(
  _ text: String?,
  _ body: (UnsafePointer<CChar>?) -> Result
) -> Result {
  guard let text else { return body(nil) }
  return unsafe text.withCString { unsafe body($0) }
}

private func withBody<Result>(
  _ bytes: [UInt8]?,
  _ body: (UnsafePointer<CChar>?, Int) -> Result
) -> Result {
  guard let bytes else { return body(nil, 0) }
  // One byte more, since an empty body must not look like none.
  return unsafe (bytes + [0]).withUnsafeBytes { buffer in
    unsafe body(buffer.baseAddress?.assumingMemoryBound(to: CChar.self), bytes.count)
  }
}
