import Synchronization

/// One request and the answer that is arriving.
///
/// One task reads it.
final class HTTPExchange: Sendable {
  /// Bytes that may wait for the reader before the transfer is paused.
  static let highWater = 256 * 1024

  private struct Flow {
    var waiting = 0
    var isPaused = false
  }

  let request: HTTPRequest
  private let mailbox = Mailbox<HTTPPart>()
  private let flow = Mutex(Flow())
  private let inbox: CurlInbox
  // The client stops its thread when it goes away; it must outlive its exchanges.
  private let client: HTTPClient

  init(_ request: HTTPRequest, inbox: CurlInbox, client: HTTPClient) {
    self.request = request
    self.inbox = inbox
    self.client = client
  }

  /// Returns the parts that have arrived since the last call and waits for the first; none after
  /// the last part or after `cancel`.
  func next() async -> [HTTPPart] {
    let parts = await withTaskCancellationHandler {
      await mailbox.next()
    } onCancel: {
      cancel()
    }
    let wasPaused = flow.withLock { flow in
      flow.waiting = 0
      defer { flow.isPaused = false }
      return flow.isPaused
    }
    if wasPaused { inbox.post(.resume(self)) }
    return parts
  }

  /// Ends the transfer; idempotent.
  func cancel() {
    mailbox.finish(discarding: true)
    inbox.post(.cancel(self))
  }

  /// Says that the reader has all it needs: what still comes is dropped, and the connection is kept
  /// for the next request if the answer ends soon.
  func discardRest() {
    mailbox.finish(discarding: true)
    inbox.post(.discard(self))
  }

  // MARK: The transfer's side

  func deliver(_ parts: [HTTPPart]) { mailbox.send(parts) }

  func finish() { mailbox.finish() }

  /// Counts bytes that are about to be delivered; `false` says that the transfer must pause first.
  func reserve(_ count: Int) -> Bool {
    flow.withLock { flow in
      if flow.waiting >= Self.highWater {
        flow.isPaused = true
        return false
      }
      flow.waiting += count
      return true
    }
  }
}
