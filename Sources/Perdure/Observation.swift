import PerdureEngine
public import PerdureModel
public import PerdureValue

extension Conversation {
  /// The conversation as it is on disk, with its built-in documents and those of `mounting`.
  public func view(mounting tokens: [DocumentToken] = []) async throws -> ConversationView {
    try await engine.views.watch(id, mounting: tokens.map { $0.definition }).initial.value
  }

  /// The conversation as it is, and then its newest view whenever it has changed.
  ///
  /// Documents of the application that are named in `mounting` are a part of it: what one commit
  /// changed in entries and documents is seen together.
  public func views(
    mounting tokens: [DocumentToken] = []
  ) async throws -> Updates<ConversationView> {
    Updates(
      try await engine.views.latest(id, mounting: tokens.map { $0.definition }),
      of: engine
    ) { (view) throws(PerdureError) in view }
  }

  /// The conversation as it is, and then every change of it, each commit as one.
  ///
  /// Documents of the application that are named in `mounting` are a part of it, at
  /// `["docs", kind]`, and those of a family at `["docs", kind, key]`.
  public func changes(mounting tokens: [DocumentToken] = []) async throws -> Updates<Change> {
    Updates(
      try await engine.views.watch(id, mounting: tokens.map { $0.definition }),
      of: engine
    )
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
    return Updates(latest, of: engine) { (value) throws(PerdureError) in value }
  }
}

extension Harness {
  /// The tasks that have not ended, as they are on disk.
  public func taskGraph() async throws -> TaskGraph {
    try await engine.views.watchTasks().initial.value
  }

  /// The graph of tasks as it is, and then the newest one whenever it has changed.
  public func taskGraphs() async throws -> Updates<TaskGraph> {
    Updates(try await engine.views.latestTasks(), of: engine) { (graph) throws(PerdureError) in
      graph
    }
  }

  /// Every task graph from now on: the graph as it is, and then every change of it.
  public func taskChanges() async throws -> Updates<Change> {
    Updates(try await engine.views.watchTasks(), of: engine)
  }

  /// Every commit from now on, once it is on disk.
  ///
  /// A reader who falls more than 100 commits behind misses the oldest of them: then the sequence
  /// numbers, which are otherwise without a gap, show how many.
  public func commits() -> Updates<CommitSummary> {
    let reader = CommitReader(engine.session)
    return Updates(
      next: { () async throws(PerdureError) in
        if let summary = await reader.mailbox.next() { return summary }
        if let error = reader.mailbox.ending?.error { throw error }
        return nil
      },
      observer: reader,
      report: engine.session.report
    )
  }

  /// How the store came to its end; returns once it is released and may be opened again.
  ///
  /// A store that failed is released without `close`.
  ///
  /// Throws `cancelled` if the calling task is cancelled first.
  public var closed: HarnessEnd {
    get async throws(PerdureError) {
      let mailbox = Mailbox<HarnessEnd>()
      let forget = engine.session.onRelease { error in
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

extension Harness {
  /// Returns how the store came to its end, once it is released, as `closed` does.
  public func closing() async throws(PerdureError) -> HarnessEnd { try await closed }
}

/// How an open store came to its end.
public enum HarnessEnd: Sendable {
  /// It was closed, with everything on disk.
  case closed
  /// It failed; it must be opened again.
  case failed(PerdureError)
}

/// Collects commits for one reader.
private final class CommitReader: Observing {
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

  var ending: WatchEnd? { mailbox.ending }

  func waitForEnd() async -> WatchEnd { await mailbox.waitForEnd() }

  func end(_ end: WatchEnd) {
    mailbox.end(end, discarding: true)
    for body in leave { body() }
  }
}
