import PerdureEngine
public import PerdureModel

/// How long a store keeps what is over and nothing refers to any more.
public struct Retention: Sendable, Equatable {
  /// Ended tasks go once they ended this long ago; absent, they stay.
  public var endedTasks: Duration?
  /// Settled submissions without a request id go once they were made this long ago; absent, they
  /// stay.
  public var settledSubmissions: Duration?

  /// Makes a policy that keeps everything unless told otherwise.
  public init(endedTasks: Duration? = nil, settledSubmissions: Duration? = nil) {
    self.endedTasks = endedTasks
    self.settledSubmissions = settledSubmissions
  }

  /// A policy with one time for both.
  public static func olderThan(_ age: Duration) -> Retention {
    Retention(endedTasks: age, settledSubmissions: age)
  }
}

/// What a compaction removed.
public struct CompactionSummary: Sendable, Equatable {
  public var tasks: Int
  public var submissions: Int
  /// The documents that went with tasks.
  public var documents: Int
}

/// What a deletion removed.
public struct DeletionSummary: Sendable, Equatable {
  /// The conversations, with those that went with the one that was asked for.
  public var conversations: [ConversationID]
  public var entries: Int
  public var tasks: Int
  public var submissions: Int
  public var documents: Int
  /// The submissions with a request id, which stay so that a repeated one is recognised.
  public var keptSubmissions: Int

  init(_ summary: PerdureEngine.DeletionSummary) {
    conversations = summary.conversations
    entries = summary.entries
    tasks = summary.tasks
    submissions = summary.submissions
    documents = summary.documents
    keptSubmissions = summary.keptSubmissions
  }
}

/// What was decided about a conversation as a whole.
public enum ConversationStatus: Sendable, Equatable {
  case open
  /// It is only read, since this time in milliseconds since 1970.
  case archived(since: Int64)
  /// Its record is all that is left of it, since this time.
  case deleted(since: Int64)

  init(_ mark: ConversationMark) {
    switch mark {
    case .open: self = .open
    case .archived(let at): self = .archived(since: at)
    case .deleted(let at): self = .deleted(since: at)
    }
  }
}

extension Session {
  /// Removes what a policy does not keep, and gives the space of what was removed back.
  func compact(_ retention: Retention) async throws -> CompactionSummary {
    let now = clock.now()
    func before(_ age: Duration?) -> Int64? {
      age.map { now.subtractingReportingOverflow($0.milliseconds).partialValue }
    }
    let removed = try await removeExpired(
      tasksEndedBefore: before(retention.endedTasks),
      submissionsBefore: before(retention.settledSubmissions)
    )
    try await store.compact()
    return CompactionSummary(
      tasks: removed.tasks,
      submissions: removed.submissions,
      documents: removed.documents
    )
  }
}

extension Harness {
  /// Removes what `retention` does not keep, and rewrites the store without what was removed.
  ///
  /// What is removed goes in many small commits, so that work goes on meanwhile; a crash leaves a
  /// store from which some of it is gone. Without a policy nothing is removed. Throws `storeBusy`,
  /// with the removal done, if another process reads a store of JSON lines at that moment.
  @discardableResult
  public func compact(retention: Retention = Retention()) async throws -> CompactionSummary {
    try await engine.session.compact(retention)
  }
}

extension Conversation {
  /// Whether it is archived.
  public var status: ConversationStatus {
    get async throws { ConversationStatus(try await engine.session.mark(of: id)) }
  }

  /// Lets the conversation only be read: submissions to it throw `conversationArchived`.
  ///
  /// It can still be forked. Throws `conversationBusy` while it has unfinished work.
  public func archive() async throws { try await engine.session.archive(id) }

  /// Lets the conversation take submissions again.
  public func unarchive() async throws { try await engine.session.unarchive(id) }

  /// Deletes the conversation with its entries, tasks, submissions and documents, in one commit.
  ///
  /// The conversations that its tasks own go with it, and its forks only if they are to. Submissions
  /// with a request id stay, and with them the bare record of the conversation. Throws
  /// `conversationBusy` while there is unfinished work, and `conversationInUse` for the root
  /// conversation and while something that stays refers to what would go.
  @discardableResult
  public func delete(includingForks: Bool = false) async throws -> DeletionSummary {
    DeletionSummary(try await engine.session.delete(id, includingForks: includingForks))
  }
}

extension OpenStore {
  /// A session that only decides about conversations; no task runs, and none is taken over.
  private func session() async throws -> Session {
    try await Session.open(storage, clock: SystemClock())
  }

  /// Removes what `retention` does not keep, as `Harness.compact` does.
  @discardableResult
  public func compact(retention: Retention = Retention()) async throws -> CompactionSummary {
    try await session().compact(retention)
  }

  /// Lets a conversation only be read, as `Conversation.archive` does.
  public func archive(_ id: ConversationID) async throws { try await session().archive(id) }

  /// Lets a conversation take submissions again.
  public func unarchive(_ id: ConversationID) async throws { try await session().unarchive(id) }

  /// Deletes a conversation, as `Conversation.delete` does.
  @discardableResult
  public func delete(
    _ id: ConversationID,
    includingForks: Bool = false
  ) async throws -> DeletionSummary {
    DeletionSummary(try await session().delete(id, includingForks: includingForks))
  }
}

extension StoreReader {
  /// Returns whether a conversation is open, archived, or but the rest of a deleted one.
  public func status(of id: ConversationID) async throws -> ConversationStatus {
    ConversationStatus(
      ConversationMark(try await storage.extra(scope: ConversationMark.scope, id: id.value))
    )
  }
}
