import CCurl
import CPerdureCurl
import Glibc

/// libcurl's multi interface; all of it happens on one thread of its own.
///
/// Safe to use there, since the handle lives as long as the loop.
@safe
final class CurlLoop {
  /// How long a transfer whose rest nobody wants may go on, so that its connection can be reused.
  private static let discardNanoseconds: Int64 = 1_000_000_000

  private let inbox: CurlInbox
  private let trust: HTTPClient.Trust
  private let multi: UnsafeMutableRawPointer
  private var transfers: [ObjectIdentifier: CurlTransfer] = [:]
  private var isStopping = false

  private init(inbox: CurlInbox, trust: HTTPClient.Trust, multi: UnsafeMutableRawPointer) {
    self.inbox = inbox
    self.trust = trust
    unsafe self.multi = multi
  }

  /// Starts a thread that serves `inbox` until it is told to stop; `false` if there is none.
  static func start(_ inbox: CurlInbox, trust: HTTPClient.Trust) -> Bool {
    let start = unsafe Unmanaged.passRetained(Start(inbox: inbox, trust: trust))
    var everything = sigset_t()
    var before = sigset_t()
    var thread = pthread_t()
    // A new thread inherits the mask: signals are for the threads that expect them, and a broken
    // connection inside OpenSSL must not raise SIGPIPE.
    unsafe sigfillset(&everything)
    unsafe pthread_sigmask(SIG_BLOCK, &everything, &before)
    let code = unsafe pthread_create(
      &thread,
      nil,
      { context in
        guard let context = unsafe context else { return nil }
        // Balances the `passRetained` above, once.
        let start = unsafe Unmanaged<Start>.fromOpaque(context).takeRetainedValue()
        CurlLoop.run(start.inbox, trust: start.trust)
        return nil
      },
      start.toOpaque()
    )
    unsafe pthread_sigmask(SIG_SETMASK, &before, nil)
    guard code == 0 else {
      unsafe start.release()
      return false
    }
    pthread_detach(thread)
    return true
  }

  private final class Start {
    let inbox: CurlInbox
    let trust: HTTPClient.Trust
    init(inbox: CurlInbox, trust: HTTPClient.Trust) {
      self.inbox = inbox
      self.trust = trust
    }
  }

  private static func run(_ inbox: CurlInbox, trust: HTTPClient.Trust) {
    guard perdure_curl_initialise() == 0, let multi = unsafe curl_multi_init() else {
      refuse(inbox.close(), "libcurl could not be started")
      return
    }
    unsafe inbox.open(multi)
    let loop = unsafe CurlLoop(inbox: inbox, trust: trust, multi: multi)
    loop.serve()
    refuse(inbox.close(), "the client was closed")
    unsafe curl_multi_cleanup(multi)
  }

  private static func refuse(_ commands: [CurlInbox.Command], _ message: String) {
    for case .start(let exchange) in commands {
      exchange.deliver([.failed(HTTPFailure(kind: .permanent, message: message))])
      exchange.finish()
    }
  }

  private func serve() {
    while true {
      for command in inbox.take() { obey(command) }
      if isStopping { break }
      var running: Int32 = 0
      _ = unsafe curl_multi_perform(multi, &running)
      collectFinished()
      for transfer in transfers.values { transfer.flush() }
      dropDiscarded()
      let isDiscarding = transfers.values.contains { $0.discardedAt != nil }
      let timeout: Int32 = transfers.isEmpty ? 3_600_000 : isDiscarding ? 100 : 1000
      _ = unsafe curl_multi_poll(multi, nil, 0, timeout, nil)
    }
    for transfer in Array(transfers.values) {
      remove(transfer)
      transfer.exchange.finish()
    }
  }

  private func obey(_ command: CurlInbox.Command) {
    switch command {
    case .start(let exchange): start(exchange)
    case .resume(let exchange):
      if let transfer = transfers[ObjectIdentifier(exchange)] {
        _ = unsafe perdure_curl_resume(transfer.easy)
      }
    case .cancel(let exchange):
      if let transfer = transfers[ObjectIdentifier(exchange)] { remove(transfer) }
    case .discard(let exchange):
      if let transfer = transfers[ObjectIdentifier(exchange)] {
        transfer.discardedAt = Self.monotonic()
        _ = unsafe perdure_curl_resume(transfer.easy)
      }
    case .stop: isStopping = true
    }
  }

  private func start(_ exchange: HTTPExchange) {
    guard let easy = unsafe curl_easy_init() else {
      exchange.deliver([.failed(HTTPFailure(kind: .permanent, message: "out of memory"))])
      exchange.finish()
      return
    }
    let transfer = unsafe CurlTransfer(exchange, easy: easy)
    let code = transfer.prepare(trust)
    guard code == 0 else {
      transfer.finish(code: CURLcode(rawValue: UInt32(bitPattern: code)))
      return
    }
    transfers[ObjectIdentifier(exchange)] = transfer
    _ = unsafe curl_multi_add_handle(multi, easy)
  }

  private func collectFinished() {
    var left: Int32 = 0
    while let message = unsafe curl_multi_info_read(multi, &left) {
      guard unsafe message.pointee.msg == CURLMSG_DONE else { continue }
      // Both are read before the handle is removed, which frees the message.
      let easy = unsafe message.pointee.easy_handle
      let code = unsafe message.pointee.data.result
      guard let transfer = transfers.values.first(where: { unsafe $0.easy == easy }) else {
        continue
      }
      remove(transfer)
      transfer.finish(code: code)
    }
  }

  private func dropDiscarded() {
    let now = Self.monotonic()
    for transfer in Array(transfers.values) {
      guard let since = transfer.discardedAt, now - since > Self.discardNanoseconds else {
        continue
      }
      remove(transfer)
    }
  }

  private func remove(_ transfer: CurlTransfer) {
    _ = unsafe curl_multi_remove_handle(multi, transfer.easy)
    transfers[ObjectIdentifier(transfer.exchange)] = nil
  }

  private static func monotonic() -> Int64 {
    var time = timespec()
    unsafe clock_gettime(CLOCK_MONOTONIC, &time)
    return Int64(time.tv_sec) * 1_000_000_000 + Int64(time.tv_nsec)
  }
}
