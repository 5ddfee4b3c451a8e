package import PerdureValue
import Synchronization

/// The value of one incarnation of a document, and the ways to follow it.
///
/// It keeps its last value when it is disposed of and when the session ends.
package final class DocumentState: Sendable {
  private struct State {
    var mount: Mount<DocumentFold>
    var readers: Set<Int> = []
    var isDisposed = false
  }

  private let state: Mutex<State>
  private let leave: @Sendable () -> Void

  init(_ attachment: Attachment<DocumentFold>) {
    state = Mutex(State(mount: attachment.mount))
    leave = attachment.leave
  }

  deinit { leave() }

  private var mount: Mount<DocumentFold> { state.withLock { $0.mount } }

  /// The value as it is on disk; `nil` once the document is retired.
  package var value: JSON? { mount.current.value }

  /// Why it changes no more, or `nil` as long as it may.
  package var ending: WatchEnd? { mount.ending }

  /// Follows the newest value from now on.
  package func latest() -> Latest<DocumentFold> {
    state.withLock { state in
      // Whoever follows it keeps it, and with it its place among those who look.
      let (latest, reader) = Latest.make(on: state.mount) { [self, mount = state.mount] reader in
        _ = mount.remove(reader)
        forget(reader)
      }
      state.readers.insert(reader)
      return latest
    }
  }

  /// Follows every change from now on.
  package func frames() -> Watch<DocumentFold> {
    state.withLock { state in
      // Whoever follows it keeps it, and with it its place among those who look.
      let (watch, reader) = Watch.make(on: state.mount) { [self, mount = state.mount] reader in
        _ = mount.remove(reader)
        forget(reader)
      }
      state.readers.insert(reader)
      return watch
    }
  }

  private func forget(_ reader: Int) { state.withLock { _ = $0.readers.remove(reader) } }

  /// Ends it and all who follow it; the last value stays, and further calls do nothing.
  package func dispose() {
    let dismissal = state.withLock { state -> (mount: Mount<DocumentFold>, readers: Set<Int>)? in
      guard !state.isDisposed else { return nil }
      state.isDisposed = true
      defer { state.readers = [] }
      let mount = state.mount
      let (value, sequence) = mount.revision
      state.mount = Mount(value, at: sequence)
      state.mount.end(mount.ending ?? .stopped)
      return (mount, state.readers)
    }
    guard let (mount, readers) = dismissal else { return }
    for reader in readers { mount.dismiss(reader, .stopped) }
    leave()
  }
}
