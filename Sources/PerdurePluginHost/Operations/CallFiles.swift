import PerdureModel
import Synchronization

/// The files that a call has open, by their handles.
final class CallFiles: Sendable {
  private struct State {
    var files: [String: any FileReader] = [:]
    var count = 0
    var isClosed = false
  }

  private static let limit = 256

  private let state = Mutex(State())

  /// Keeps an open file and gives its handle; `nil` if there are too many or the call is over.
  func open(_ file: any FileReader) -> String? {
    state.withLock { state in
      guard !state.isClosed, state.files.count < Self.limit else { return nil }
      state.count += 1
      // No path that somebody would write by chance.
      let handle = "perdure-file:\(state.count)"
      state.files[handle] = file
      return handle
    }
  }

  func file(_ handle: String) -> (any FileReader)? { state.withLock { $0.files[handle] } }

  func remove(_ handle: String) -> (any FileReader)? {
    state.withLock { $0.files.removeValue(forKey: handle) }
  }

  /// Closes all of them, because the call is over.
  func closeAll() {
    let files = state.withLock { state in
      state.isClosed = true
      defer { state.files = [:] }
      return Array(state.files.values)
    }
    guard !files.isEmpty else { return }
    // Nobody waits for it: a file is let go of whatever happens.
    Task { for file in files { await file.close() } }
  }
}
