package import PerdureModel
package import PerdureValue
import Synchronization

/// What was decided about a conversation as a whole, kept beside its record.
package enum ConversationMark: Sendable, Equatable {
  case open
  /// It is only read from then on.
  case archived(at: Int64)
  /// Only its record and what recognises repeated submissions are left.
  case deleted(at: Int64)

  /// The scope of the fact.
  package static let scope = "conversation"

  /// Reads the fact; without one the conversation is open.
  package init(_ fact: JSON?) {
    if let at = fact?["deletedAt"]?.int {
      self = .deleted(at: at)
    } else if let at = fact?["archivedAt"]?.int {
      self = .archived(at: at)
    } else {
      self = .open
    }
  }

  /// The fact; `nil` for an open conversation.
  var fact: JSON? {
    switch self {
    case .open: nil
    case .archived(let at): ["archivedAt": .int(at)]
    case .deleted(let at): ["deletedAt": .int(at)]
    }
  }

  /// Throws `conversationDeleted` for what is left of a deleted conversation.
  func requireRecord(of id: ConversationID) throws {
    guard case .deleted = self else { return }
    throw PerdureError(
      .conversationDeleted,
      "conversation \(id) was deleted",
      details: ["conversation": id.json]
    )
  }

  /// Throws `conversationArchived` for a conversation that is only read.
  func requireOpen(_ id: ConversationID) throws {
    guard case .archived = self else { return }
    throw PerdureError(
      .conversationArchived,
      "conversation \(id) is archived and takes no submissions",
      hint: "unarchive it, or go on in a fork of it",
      details: ["conversation": id.json]
    )
  }
}

extension Session {
  /// Returns what was decided about a conversation, as staged.
  package func mark(of id: ConversationID) async throws -> ConversationMark {
    if let known = marks.withLock({ $0[id] }) { return known }
    // Whatever this session decided is known, so storage need not be brought up to date.
    if id.value >= firstOwnId { return .open }
    let mark = ConversationMark(
      try await store.flushedExtra(scope: ConversationMark.scope, id: id.value)
    )
    return marks.withLock { marks in
      if let staged = marks[id] { return staged }
      marks[id] = mark
      return mark
    }
  }

  /// Lets a conversation only be read; returns when that is on disk.
  ///
  /// Throws `conversationBusy` while it has unfinished work.
  package func archive(_ id: ConversationID) async throws {
    try await commit(conversation: id) { tx in
      try await requireConversation(id)
      if case .archived = try await mark(of: id) { return }
      try await requireIdle([id], for: "archived")
      try tx.setMark(.archived(at: tx.now), of: id)
    }
  }

  /// Lets an archived conversation take submissions again; returns when that is on disk.
  package func unarchive(_ id: ConversationID) async throws {
    try await commit(conversation: id) { tx in
      try await requireConversation(id)
      if case .archived = try await mark(of: id) { try tx.setMark(.open, of: id) }
    }
  }

  /// Throws `notFound` or `conversationDeleted` unless there is such a conversation.
  func requireConversation(_ id: ConversationID) async throws {
    guard try await store.conversation(id) != nil else {
      throw PerdureError(.notFound, "conversation \(id) does not exist")
    }
    try await mark(of: id).requireRecord(of: id)
  }

  /// Throws `conversationBusy` if one of the conversations has unfinished work.
  func requireIdle(_ ids: Set<ConversationID>, for purpose: String) async throws {
    func busy(_ id: ConversationID, _ work: String) -> PerdureError {
      PerdureError(
        .conversationBusy,
        "conversation \(id) cannot be \(purpose) before \(work) is done",
        hint: "wait until it is, or abort it",
        details: ["conversation": id.json]
      )
    }
    var first: TaskRecord?
    try await forEachLiveTask { task in
      guard ids.contains(task.conversationId), first.map({ task.id < $0.id }) ?? true else {
        return
      }
      first = task
    }
    if let first { throw busy(first.conversationId, "its task \(first.id)") }
    for id in ids.sorted() {
      for status in [SubmissionRecord.Status.queued, .placed] {
        let page = try await store.scanSubmissions(
          SubmissionQuery(conversationId: id, status: status),
          PageRequest(limit: 1)
        )
        if let first = page.items.first { throw busy(id, "its submission \(first.id)") }
      }
    }
  }
}
