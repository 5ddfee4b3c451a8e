import PerdureModel
import PerdureValue
import Synchronization

/// What the readers of a mount are told.
enum MountSignal<Value: Fold>: Sendable {
  /// It changed in the commit of this number, to this.
  case changed([Value.Step], sequence: Int64, Value)
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

  /// The view, and the commit of its last change.
  var revision: (value: Value, sequence: Int64) { state.withLock { ($0.fold, $0.sequence) } }

  /// Why it ended, or `nil` as long as it has not.
  var ending: WatchEnd? { state.withLock { $0.end } }

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

  /// Removes a reader and tells it why.
  func dismiss(_ id: Int, _ end: WatchEnd) {
    state.withLock { $0.readers.removeValue(forKey: id) }?(.ended(end))
  }

  /// Follows an event, of a commit where it has one, and returns whether the view goes on.
  func apply(_ event: Value.Event, at sequence: Int64?) -> Bool {
    state.withLock { state in
      if let sequence, sequence <= start { return true }
      guard state.end == nil else { return false }
      let steps = state.fold.apply(event)
      if !steps.isEmpty {
        if let sequence { state.sequence = sequence }
        for reader in state.readers.values {
          reader(.changed(steps, sequence: state.sequence, state.fold))
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

/// The mounts of one kind: at most one for each form in which a subject is looked at.
final class MountTable<Subject: Hashable & Sendable, Form: Hashable & Sendable, Value: Fold>:
  Sendable
{
  private struct State {
    var mounts: [Subject: [Form: Mount<Value>]] = [:]
    var end: WatchEnd?

    mutating func remove(_ subject: Subject, _ form: Form, _ mount: Mount<Value>) {
      guard mounts[subject]?[form] === mount else { return }
      mounts[subject]?[form] = nil
      if mounts[subject]?.isEmpty == true { mounts[subject] = nil }
    }
  }

  private let state = Mutex(State())

  var count: Int { state.withLock { $0.mounts.values.reduce(0) { $0 + $1.count } } }

  /// Adds a reader to a mount, or returns `nil` if nobody looks at the subject like that yet.
  func join(
    _ subject: Subject,
    as form: Form,
    _ makeReader: Mount<Value>.Joining
  ) -> (mount: Mount<Value>, reader: Int)? {
    state.withLock { state in
      state.mounts[subject]?[form].map { ($0, $0.add(makeReader)) }
    }
  }

  /// Adds a mount with its first reader, unless the session ended meanwhile; then returns why.
  func insert(
    _ subject: Subject,
    as form: Form,
    _ mount: Mount<Value>,
    _ makeReader: Mount<Value>.Joining
  ) -> Result<Int, MountRefusal> {
    state.withLock { state in
      if let end = state.end { return .failure(MountRefusal(end: end)) }
      state.mounts[subject, default: [:]][form] = mount
      return .success(mount.add(makeReader))
    }
  }

  /// Removes a reader, and the mount with its last.
  func leave(_ subject: Subject, as form: Form, _ mount: Mount<Value>, _ reader: Int) {
    state.withLock { state in
      if mount.remove(reader) { state.remove(subject, form, mount) }
    }
  }

  func apply(_ event: Value.Event, to subject: Subject, at sequence: Int64?) {
    let mounts = state.withLock { $0.mounts[subject] } ?? [:]
    for (form, mount) in mounts where !mount.apply(event, at: sequence) {
      state.withLock { $0.remove(subject, form, mount) }
    }
  }

  func end(_ end: WatchEnd) {
    let mounts = state.withLock { state in
      defer { state.mounts = [:] }
      if state.end == nil { state.end = end }
      return state.mounts.values.flatMap { $0.values }
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
