import PerdureEngine
public import PerdureModel
public import PerdureValue

/// What is observed of an open store, for one loop that may be slow.
///
/// It costs the store nothing but what waits to be read, and that is bounded. Cancelling the task
/// that reads ends only the sequence, and so does dropping it; it ends by itself when the store is
/// being closed, and throws `sessionFailed` when the store failed.
public struct Updates<Element: Sendable>: AsyncSequence, Sendable {
  typealias Next = @Sendable () async throws(PerdureError) -> Element?

  let next: Next

  /// Takes the elements one by one.
  public struct Iterator: AsyncIteratorProtocol {
    let take: Next

    /// Returns the next element, waiting for it, or `nil` after the last.
    public mutating func next() async throws(PerdureError) -> Element? { try await take() }
  }

  /// Begins to read; only one loop may.
  public func makeAsyncIterator() -> Iterator { Iterator(take: next) }
}

/// One change of what is observed.
public struct Change: Sendable, Equatable {
  /// The whole value after the change.
  public var value: JSON
  /// What leads there from the value of the change before.
  ///
  /// The first change, and one that stands for several because the reader was more than 100
  /// behind, is one replacement of the whole value.
  public var operations: [PerdureValue.Operation]
  /// The number of the commit.
  public var sequence: Int64
}

extension Updates {
  init<Value: Fold>(
    _ latest: Latest<Value>,
    _ transform: @escaping @Sendable (Value.Value) -> Element
  ) {
    next = { () async throws(PerdureError) in
      if let value = await latest.next() { return transform(value.value) }
      if let error = latest.ending?.error { throw error }
      return nil
    }
  }
}

extension Updates<Change> {
  init<Value: Fold>(_ watch: Watch<Value>) {
    let first = Mailbox<Bool>()
    first.change { $0 = [true] }
    first.end(.stopped)
    next = { () async throws(PerdureError) in
      if await first.next() != nil {
        let json = watch.initial.json
        return Change(
          value: json,
          operations: [.replace(json)],
          sequence: watch.initialSequence
        )
      }
      if let frame = await watch.next() {
        return Change(value: frame.value, operations: frame.operations, sequence: frame.sequence)
      }
      if let error = watch.ending?.error { throw error }
      return nil
    }
  }
}

extension Conversation {
  /// The conversation as it is on disk.
  public func view() async throws -> ConversationView {
    try await engine.views.watch(id).initial.value
  }

  /// The conversation as it is, and then its newest view whenever it has changed.
  public func views() async throws -> Updates<ConversationView> {
    Updates(try await engine.views.latest(id)) { $0 }
  }

  /// The conversation as it is, and then every change of it.
  public func changes() async throws -> Updates<Change> {
    Updates(try await engine.views.watch(id))
  }

  /// The value of a built-in document, and then its newest value whenever it has changed; `nil`
  /// once it is gone.
  ///
  /// Throws `notFound` if there is no such document.
  public func documentValues(kind: String) async throws -> Updates<JSON?> {
    let kind = JSONString(kind)
    guard let definition = ConversationFold.definitions.first(where: { $0.kind == kind }),
      let latest = try await engine.views.latest(definition, at: definition.address(in: id))
    else {
      throw PerdureError(
        .notFound,
        "conversation \(id) has no document '\(kind.string)'",
        hint: "the documents are "
          + ConversationFold.definitions.map { $0.kind.string }.joined(separator: ", ")
      )
    }
    return Updates(latest) { $0 }
  }
}

extension Harness {
  /// The tasks that have not ended, as they are on disk.
  public func taskGraph() async throws -> TaskGraph {
    try await engine.views.watchTasks().initial.value
  }

  /// The graph of tasks as it is, and then the newest one whenever it has changed.
  public func taskGraphs() async throws -> Updates<TaskGraph> {
    Updates(try await engine.views.latestTasks()) { $0 }
  }

  /// Every commit from now on, once it is on disk.
  ///
  /// A reader who falls more than 100 commits behind misses the oldest of them: then the sequence
  /// numbers, which are otherwise without a gap, show how many.
  public func commits() -> Updates<CommitSummary> {
    let reader = CommitReader(engine.session)
    return Updates { () async throws(PerdureError) in
      if let summary = await reader.mailbox.next() { return summary }
      if let error = reader.mailbox.ending?.error { throw error }
      return nil
    }
  }

  /// How the store came to its end; returns once it is released or has failed.
  ///
  /// Throws `cancelled` if the calling task is cancelled first.
  public var closed: HarnessEnd {
    get async throws(PerdureError) {
      let mailbox = Mailbox<HarnessEnd>()
      let forget = engine.session.onEnd { error in
        mailbox.change { $0 = [error.map { .failed($0) } ?? .closed] }
      }
      defer { forget() }
      guard let end = await mailbox.next() else {
        throw PerdureError(.cancelled, "the wait was cancelled")
      }
      return end
    }
  }
}

/// How an open store came to its end.
public enum HarnessEnd: Sendable {
  /// It was closed, with everything on disk.
  case closed
  /// It failed; it must be opened again.
  case failed(PerdureError)
}

/// Collects commits for one reader.
private final class CommitReader: Sendable {
  let mailbox = Mailbox<CommitSummary>()
  private let leave: [@Sendable () -> Void]

  init(_ session: Session) {
    leave = [
      session.publications.subscribe { [mailbox] publication in
        mailbox.change { waiting in
          if waiting.count >= Mailbox<CommitSummary>.capacity { waiting.removeFirst() }
          waiting.append(CommitSummary(publication))
        }
      },
      session.onEnd { [mailbox] in mailbox.end(WatchEnd($0)) },
    ]
  }

  deinit { for body in leave { body() } }
}
