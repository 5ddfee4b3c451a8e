import Synchronization

/// Whether somebody has lost interest, for code on other threads.
final class CancellationMark: Sendable {
  private let mark = Mutex(false)

  var isSet: Bool { mark.withLock { $0 } }

  func set() { mark.withLock { $0 = true } }
}
