import PerdureModel
import PerdureValue
import Synchronization

/// What the readers of a mount are told.
enum MountSignal<Value: Fold>: Sendable {
  /// It changed in the commit of this number, to this.
  case changed([Operation], sequence: Int64, Value)
  case ended(WatchEnd)
}

/// A view that is kept up to date once for all who look at it.
final class Mount<Value: Fold>: Sendable {
  /// Only enqueues.
  typealias Reader = @Sendable (MountSignal<Value>) -> Void
  /// Makes a reader that is told of everything after this view, which is of this commit.
  typealias Joining = @Sendable (Value, Int64) -> Reader

  private struct State {
    var fold: Value
    var sequence: Int64
    var readers: [Int: Reader] = [:]
    var nextReader = 1
    var end: WatchEnd?
  }

  /// Everything up to this commit was in the view from the start.
  private let start: Int64
  private let state: Mutex<State>

  init(_ fold: Value, at sequence: Int64) {
    start = sequence
    state = Mutex(State(fold: fold, sequence: sequence))
  }

  var current: Value { state.withLock { $0.fold } }

  /// Adds a reader who is told of everything after the view that it is made with.
  func add(_ makeReader: Joining) -> Int {
    state.withLock { state in
      defer { state.nextReader += 1 }
      let reader = makeReader(state.fold, state.sequence)
      if let end = state.end {
        reader(.ended(end))
      } else {
        state.readers[state.nextReader] = reader
      }
      return state.nextReader
    }
  }

  /// Removes a reader and returns whether nobody is left.
  func remove(_ id: Int) -> Bool {
    state.withLock { state in
      state.readers[id] = nil
      return state.readers.isEmpty
    }
  }

  /// Follows an event, of a commit where it has one, and returns whether the view goes on.
  func apply(_ event: Value.Event, at sequence: Int64?) -> Bool {
    state.withLock { state in
      if let sequence, sequence <= start { return true }
      guard state.end == nil else { return false }
      let operations = state.fold.apply(event)
      if !operations.isEmpty {
        if let sequence { state.sequence = sequence }
        for reader in state.readers.values {
          reader(.changed(operations, sequence: state.sequence, state.fold))
        }
      }
      guard let end = state.fold.end else { return true }
      Self.end(&state, end)
      return false
    }
  }

  func end(_ end: WatchEnd) { state.withLock { Self.end(&$0, end) } }

  private static func end(_ state: inout State, _ end: WatchEnd) {
    guard state.end == nil else { return }
    state.end = end
    for reader in state.readers.values { reader(.ended(end)) }
    state.readers = [:]
  }
}

/// The mounts of one kind: at most one for each thing that is looked at.
final class MountTable<Key: Hashable & Sendable, Value: Fold>: Sendable {
  private struct State {
    var mounts: [Key: Mount<Value>] = [:]
    var end: WatchEnd?
  }

  private let state = Mutex(State())

  var count: Int { state.withLock { $0.mounts.count } }

  /// Adds a reader to the mount of `key`, or returns `nil` if nobody looks at it yet.
  func join(
    _ key: Key,
    _ makeReader: Mount<Value>.Joining
  ) -> (mount: Mount<Value>, reader: Int)? {
    state.withLock { state in state.mounts[key].map { ($0, $0.add(makeReader)) } }
  }

  /// Adds a mount with its first reader, unless the session ended meanwhile; then returns why.
  func insert(
    _ key: Key,
    _ mount: Mount<Value>,
    _ makeReader: Mount<Value>.Joining
  ) -> Result<Int, MountRefusal> {
    state.withLock { state in
      if let end = state.end { return .failure(MountRefusal(end: end)) }
      state.mounts[key] = mount
      return .success(mount.add(makeReader))
    }
  }

  /// Removes a reader, and the mount with its last.
  func leave(_ key: Key, _ mount: Mount<Value>, _ reader: Int) {
    state.withLock { state in
      if mount.remove(reader), state.mounts[key] === mount { state.mounts[key] = nil }
    }
  }

  func apply(_ event: Value.Event, to key: Key, at sequence: Int64?) {
    guard let mount = state.withLock({ $0.mounts[key] }) else { return }
    if mount.apply(event, at: sequence) { return }
    state.withLock { state in if state.mounts[key] === mount { state.mounts[key] = nil } }
  }

  func end(_ end: WatchEnd) {
    let mounts = state.withLock { state in
      defer { state.mounts = [:] }
      if state.end == nil { state.end = end }
      return Array(state.mounts.values)
    }
    for mount in mounts { mount.end(end) }
  }
}

struct MountRefusal: Error {
  var end: WatchEnd
}

/// A reader's place at a mount.
struct Attachment<Value: Fold>: Sendable {
  var mount: Mount<Value>
  /// Gives the place back; may be called more than once.
  var leave: @Sendable () -> Void
}
