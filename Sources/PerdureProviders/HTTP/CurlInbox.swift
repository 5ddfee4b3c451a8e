import CCurl
import Synchronization

/// What other threads ask of the thread that runs libcurl.
final class CurlInbox: Sendable {
  enum Command: Sendable {
    case start(HTTPExchange)
    case resume(HTTPExchange)
    case cancel(HTTPExchange)
    case discard(HTTPExchange)
    case stop
  }

  /// A multi handle as other threads may use it: only to wake its loop, which libcurl allows from
  /// any thread, and only under the lock that `close` takes before the handle is freed.
  @safe
  private struct Bell: @unchecked Sendable {
    let multi: UnsafeMutableRawPointer

    func ring() { _ = unsafe curl_multi_wakeup(multi) }
  }

  private struct State {
    var commands: [Command] = []
    // Present while the loop runs.
    var bell: Bell?
    var isClosed = false
  }

  private let state = Mutex(State())

  /// Queues a command and wakes the loop.
  ///
  /// Returns `false` if the loop has ended.
  @discardableResult
  func post(_ command: Command) -> Bool {
    state.withLock { state in
      guard !state.isClosed else { return false }
      state.commands.append(command)
      if state.commands.count == 1 { state.bell?.ring() }
      return true
    }
  }

  /// Names the handle to wake.
  func open(_ multi: UnsafeMutableRawPointer) {
    let bell = unsafe Bell(multi: multi)
    state.withLock { $0.bell = bell }
  }

  /// Returns what was queued since the last call.
  func take() -> [Command] {
    state.withLock { state in
      defer { state.commands = [] }
      return state.commands
    }
  }

  /// Refuses further commands and returns the last ones; afterwards the handle may be freed.
  func close() -> [Command] {
    state.withLock { state in
      state.isClosed = true
      state.bell = nil
      defer { state.commands = [] }
      return state.commands
    }
  }
}
