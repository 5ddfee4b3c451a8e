import Synchronization

/// An HTTP client over libcurl: HTTP/1.1 and 2, proxies as curl reads them from the environment,
/// streaming bodies, no redirects, no retries.
final class HTTPClient: Sendable {
  /// Which certificate authorities to trust instead of the system's.
  struct Trust: Sendable {
    var file: String?
    var directory: String?

    init() {}

    /// Reads `SSL_CERT_FILE` and `SSL_CERT_DIR`.
    init(environment: [String: String]) {
      file = environment["SSL_CERT_FILE"].flatMap { $0.isEmpty ? nil : $0 }
      directory = environment["SSL_CERT_DIR"].flatMap { $0.isEmpty ? nil : $0 }
    }
  }

  private let inbox = CurlInbox()
  private let trust: Trust
  private let isRunning = Mutex(false)

  /// Makes a client; its thread starts with the first request.
  init(trust: Trust) { self.trust = trust }

  deinit { inbox.post(.stop) }

  /// Starts a request and returns at once.
  func start(_ request: HTTPRequest) -> HTTPExchange {
    let exchange = HTTPExchange(request, inbox: inbox, client: self)
    let runs = isRunning.withLock { isRunning in
      if !isRunning { isRunning = CurlLoop.start(inbox, trust: trust) }
      return isRunning
    }
    let message = runs ? "the client was closed" : "no thread could be started for HTTP"
    guard runs, inbox.post(.start(exchange)) else {
      exchange.deliver([.failed(HTTPFailure(kind: .permanent, message: message))])
      exchange.finish()
      return exchange
    }
    return exchange
  }
}
