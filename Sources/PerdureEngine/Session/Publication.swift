package import PerdureModel
package import PerdureValue
import Synchronization

/// What one commit changed, for observers.
package struct Publication: Sendable {
  /// One change, in the order of the commit: tables first, then documents.
  package enum Change: Sendable {
    case conversation(ConversationRecord)
    case entry(EntryRecord)
    case task(TaskRecord)
    case submission(SubmissionRecord)
    /// A created document has a value and no operations, a changed one both, a retired one neither.
    ///
    /// Its operations lead from the value before to the new one, also where the version changed.
    case document(DocumentRecord, version: Int64?, value: JSON?, operations: [Operation])
    /// A fork's copy of a document that nobody opened.
    case documentCopy(DocumentRecord, CopySource)
    /// A record that is gone; a living document also retires, in a change of its own before.
    case removal(RecordReference)
    /// A conversation that was deleted, whether or not its record is kept.
    case deletion(ConversationID)
  }

  package var sequence: Int64
  package var changes: [Change]
  /// When it was staged, in milliseconds since 1970.
  package var at: Int64
  /// The records of replaced tasks as they were before.
  var replaced: [TaskID: TaskRecord] = [:]

  package init(sequence: Int64, changes: [Change], at: Int64) {
    self.sequence = sequence
    self.changes = changes
    self.at = at
  }

  /// The tasks that became terminal.
  var endedTasks: [TaskID] {
    changes.compactMap { change in
      if case .task(let record) = change, !record.isLive { record.id } else { nil }
    }
  }

  /// The submissions that are settled.
  var settledSubmissions: [SubmissionID] {
    changes.compactMap { change in
      if case .submission(let record) = change, record.isSettled { record.id } else { nil }
    }
  }

  /// Whether a task was created or replaced.
  var changesTasks: Bool {
    changes.contains { change in
      if case .task = change { return true }
      return false
    }
  }
}

/// Holds publications back until their commits are on disk, and hands them to those outside.
///
/// Subscribers are called in order of commits, one at a time, and only enqueue.
package final class PublicationQueue: Sendable {
  package typealias Subscriber = @Sendable (Publication) -> Void

  private struct State {
    var staged: [Publication] = []
    var ready: [Publication] = []
    var isDelivering = false
    var subscribers: [(id: Int, call: Subscriber)] = []
    var nextSubscriber = 1
    var isClosed = false
  }

  private let state = Mutex(State())

  // Told of every flushed commit before the subscribers are.
  private let first: Subscriber

  package init(first: @escaping Subscriber) { self.first = first }

  /// Whether anybody outside wants to see commits soon.
  package var hasSubscribers: Bool { state.withLock { !$0.subscribers.isEmpty } }

  /// Adds a subscriber; the returned closure removes it and may be called more than once.
  package func subscribe(_ subscriber: @escaping Subscriber) -> @Sendable () -> Void {
    let id = state.withLock { state in
      defer { state.nextSubscriber += 1 }
      state.subscribers.append((state.nextSubscriber, subscriber))
      return state.nextSubscriber
    }
    return { [weak self] in self?.state.withLock { $0.subscribers.removeAll { $0.id == id } } }
  }

  func stage(_ publication: Publication) {
    state.withLock { if !$0.isClosed { $0.staged.append(publication) } }
  }

  /// Delivers everything up to `sequence`.
  func release(through sequence: Int64) {
    state.withLock { state in
      let count = state.staged.prefix { $0.sequence <= sequence }.count
      state.ready.append(contentsOf: state.staged.prefix(count))
      state.staged.removeFirst(count)
    }
    deliver()
  }

  func close() {
    state.withLock { state in
      state.isClosed = true
      state.staged = []
      state.ready = []
      state.subscribers = []
    }
  }

  // Two flushes may end on two threads; one of them delivers for both, so the order holds.
  private func deliver() {
    while let (publications, subscribers) = take() {
      for publication in publications {
        first(publication)
        for subscriber in subscribers { subscriber(publication) }
      }
      state.withLock { $0.isDelivering = false }
    }
  }

  private func take() -> ([Publication], [Subscriber])? {
    state.withLock { state in
      guard !state.isDelivering, !state.ready.isEmpty else { return nil }
      state.isDelivering = true
      defer { state.ready = [] }
      return (state.ready, state.subscribers.map { $0.call })
    }
  }
}
