package import PerdureModel
import PerdureValue

/// What a deletion took away.
package struct DeletionSummary: Sendable, Equatable {
  /// The conversations, those that went with the one that was asked for included.
  package var conversations: [ConversationID] = []
  package var entries = 0
  package var tasks = 0
  package var submissions = 0
  package var documents = 0
  /// The submissions that stay, with the records of their conversations, because of a request id.
  package var keptSubmissions = 0
}

extension Session {
  /// Deletes a conversation with all that belongs to it, in one commit; returns when that is on
  /// disk.
  ///
  /// Conversations that its tasks own go with it, and with `includingForks` its forks. Throws
  /// `conversationBusy` for unfinished work and `conversationInUse` if something that stays refers
  /// to what goes; both name it.
  @discardableResult
  package func delete(
    _ id: ConversationID,
    includingForks: Bool = false
  ) async throws -> DeletionSummary {
    try await commit(conversation: id) { tx in
      try await requireConversation(id)
      guard id != .root else {
        throw PerdureError(
          .conversationInUse,
          "the root conversation cannot be deleted, because its id is fixed and no id is used twice",
          hint: "archive it and go on in a new conversation, or begin a new store"
        )
      }
      var deletion = Deletion(session: self, transaction: tx, target: id)
      return try await deletion.run(includingForks: includingForks)
    }
  }
}

/// One deletion, found out and written on the line.
private struct Deletion {
  let session: Session
  let transaction: Transaction
  let target: ConversationID

  /// The forks of each conversation, as long as they are not deleted.
  private var forks: [ConversationID: [ConversationID]] = [:]
  /// What the tasks of each conversation own.
  private var owned: [ConversationID: [ConversationID]] = [:]
  private var owners: [ConversationID: ConversationRecord.Owner] = [:]
  private var parents: [ConversationID: ConversationRecord.Parent] = [:]
  /// Deleted forks, whose records still name their parents.
  private var remains: [ConversationID: Int] = [:]
  private var members: Set<ConversationID> = []
  private var summary = DeletionSummary()

  private var store: StagedStore { session.store }

  init(session: Session, transaction: Transaction, target: ConversationID) {
    self.session = session
    self.transaction = transaction
    self.target = target
  }

  mutating func run(includingForks: Bool) async throws -> DeletionSummary {
    try await survey()
    gather(includingForks: includingForks)
    try checkForks()
    try await checkOwners()
    try await session.requireIdle(members, for: "deleted")
    // Forks come after what they were forked from, and their remains keep its record.
    for id in members.sorted().reversed() { try await remove(id) }
    try await checkMentions()
    summary.conversations = members.sorted()
    transaction.removals.conversations = summary.conversations
    return summary
  }

  // MARK: What goes

  private mutating func survey() async throws {
    var cursor: Cursor?
    repeat {
      let page = try await store.scanConversations(
        ConversationQuery(),
        PageRequest(limit: 256, cursor: cursor)
      )
      for record in page.items where record.parent != nil || record.owner != nil {
        try await note(record)
      }
      cursor = page.next
    } while cursor != nil
  }

  private mutating func note(_ record: ConversationRecord) async throws {
    if case .deleted = try await session.mark(of: record.id) {
      if let parent = record.parent { remains[parent.conversationId, default: 0] += 1 }
      return
    }
    if let parent = record.parent {
      parents[record.id] = parent
      forks[parent.conversationId, default: []].append(record.id)
    }
    if let owner = record.owner {
      owners[record.id] = owner
      owned[owner.conversationId, default: []].append(record.id)
    }
  }

  private mutating func gather(includingForks: Bool) {
    var next = [target]
    while let id = next.popLast() {
      guard members.insert(id).inserted else { continue }
      next += owned[id] ?? []
      if includingForks { next += forks[id] ?? [] }
    }
  }

  // MARK: What forbids it

  private func inUse(_ reason: String, _ hint: String) -> PerdureError {
    PerdureError(
      .conversationInUse,
      "conversation \(target) cannot be deleted, because \(reason)",
      hint: hint,
      details: ["conversation": target.json]
    )
  }

  private func checkForks() throws {
    for id in members.sorted() {
      guard let fork = forks[id]?.filter({ !members.contains($0) }).min() else { continue }
      let origin = id == target ? "it" : "conversation \(id), which goes with it"
      throw inUse(
        "conversation \(fork) is a fork of \(origin)",
        "delete the fork before, or both at once"
      )
    }
  }

  private func checkOwners() async throws {
    for id in members.sorted() {
      guard let owner = owners[id], !members.contains(owner.conversationId),
        try await session.task(owner.taskId)?.isLive == true
      else { continue }
      let owned = id == target ? "it" : "conversation \(id), which goes with it,"
      throw inUse(
        "\(owned) belongs to task \(owner.taskId) of conversation \(owner.conversationId)",
        "wait until the task has ended, or abort it"
      )
    }
  }

  /// Edits count only where their target is visible, which forks are; so only tasks are left.
  private func checkMentions() async throws {
    let gone = Set(transaction.removals.references.map { $0.id })
    try await session.forEachLiveTask { task in
      var mentions = Mentions()
      mentions.addWaits(of: task)
      for json in [task.input, task.state.checkpoint, task.memos.map { .object($0) }] {
        mentions.addNamed(json)
      }
      guard let id = mentions.ids.intersection(gone).min() else { return }
      throw inUse(
        "task \(task.id) of conversation \(task.conversationId) refers to \(id), which goes with it",
        "wait until the task has ended, or abort it"
      )
    }
  }

  // MARK: Removal

  private mutating func remove(_ id: ConversationID) async throws {
    try await removeEntries(of: id)
    let isKept = try await removeSubmissions(of: id)
    let tasks = try await Page.all {
      try await self.store.scanTasks(TaskQuery(conversationId: id), $0)
    }
    for task in tasks.reversed() {
      try await removeDocuments(of: .task(task.id))
      try transaction.remove(RecordReference(task.id))
    }
    summary.tasks += tasks.count
    try await removeDocuments(of: .conversation(id))
    guard isKept || remains[id] != nil else {
      return try transaction.remove(RecordReference(id))
    }
    try transaction.setMark(.deleted(at: transaction.now), of: id)
    if let parent = parents[id] { remains[parent.conversationId, default: 0] += 1 }
  }

  private mutating func removeEntries(of id: ConversationID) async throws {
    // Nothing of its own is older than what it inherits.
    let start = parents[id].flatMap { EntryID($0.at.value + 1) }
    var cursor: Cursor?
    repeat {
      let page = try await store.scanEntries(
        EntryQuery(conversationId: id, minEntry: start),
        PageRequest(limit: 256, cursor: cursor)
      )
      for entry in page.items where entry.conversationId == id {
        try transaction.remove(RecordReference(entry.id))
        summary.entries += 1
      }
      cursor = page.next
    } while cursor != nil
  }

  /// Returns whether some stay.
  private mutating func removeSubmissions(of id: ConversationID) async throws -> Bool {
    let submissions = try await Page.all {
      try await self.store.scanSubmissions(SubmissionQuery(conversationId: id), $0)
    }
    let kept = submissions.filter { $0.requestId != nil }
    for record in submissions.reversed() where record.requestId == nil {
      try transaction.remove(RecordReference(record.id))
    }
    for record in kept {
      // What it failed of is content, which goes; that it was there stays.
      try transaction.put(extra: ExtraWrite(scope: "failure", id: record.id.value, value: nil))
    }
    summary.submissions += submissions.count - kept.count
    summary.keptSubmissions += kept.count
    return !kept.isEmpty
  }

  private mutating func removeDocuments(of scope: DocumentScope) async throws {
    let documents = try await Page.all {
      try await self.store.scanDocuments(DocumentQuery(scope: scope, includesRetired: true), $0)
    }
    for record in documents.reversed() { try transaction.remove(record) }
    summary.documents += documents.count
  }
}
