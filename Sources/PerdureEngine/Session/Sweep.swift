import PerdureModel
import PerdureValue

/// What a sweep took away.
package struct SweepSummary: Sendable, Equatable {
  package var tasks = 0
  package var submissions = 0
  package var documents = 0
}

extension Session {
  /// Removes ended tasks and settled submissions from before these times, as far as nothing that
  /// stays refers to them; each part in a commit of its own, so that nobody waits long.
  ///
  /// A submission with a request id stays, and so does a task that owns a conversation or a task
  /// that stays. A time that is not known counts as now.
  package func removeExpired(
    tasksEndedBefore: Int64?,
    submissionsBefore: Int64?
  ) async throws -> SweepSummary {
    var sweep = Sweep(session: self)
    if let tasksEndedBefore { try await sweep.removeTasks(endedBefore: tasksEndedBefore) }
    if let submissionsBefore { try await sweep.removeSubmissions(before: submissionsBefore) }
    try await barrier()
    return sweep.summary
  }
}

/// One run over a store.
///
/// What ended tasks own cannot grow any more, so it is found out off the line.
private struct Sweep {
  private static let batchSize = 128

  let session: Session
  var summary = SweepSummary()

  private var children: [TaskID: [TaskID]] = [:]
  private var ownsConversation: Set<TaskID> = []
  private var removedTasks: Set<TaskID> = []

  private var store: StagedStore { session.store }

  init(session: Session) { self.session = session }

  // MARK: Tasks

  mutating func removeTasks(endedBefore cutoff: Int64) async throws {
    var candidates = try await ownership(endedBefore: cutoff)
    candidates.removeAll { ownsConversation.contains($0) }
    // Children have greater ids than their owners, and go first.
    candidates.sort(by: >)
    for start in stride(from: 0, to: candidates.count, by: Self.batchSize) {
      let part = candidates[start..<min(start + Self.batchSize, candidates.count)]
      try await remove(Array(part))
    }
  }

  private mutating func ownership(endedBefore cutoff: Int64) async throws -> [TaskID] {
    var candidates: [TaskID] = []
    var cursor: Cursor?
    repeat {
      let page = try await store.scanTasks(TaskQuery(), PageRequest(limit: 256, cursor: cursor))
      for record in page.items {
        if let owner = record.owner { children[owner, default: []].append(record.id) }
        if !record.isLive, let endedAt = record.endedAt, endedAt < cutoff {
          candidates.append(record.id)
        }
      }
      cursor = page.next
    } while cursor != nil
    cursor = nil
    repeat {
      let page = try await store.scanConversations(
        ConversationQuery(),
        PageRequest(limit: 256, cursor: cursor)
      )
      ownsConversation.formUnion(page.items.compactMap { $0.owner?.taskId })
      cursor = page.next
    } while cursor != nil
    return candidates
  }

  private mutating func remove(_ ids: [TaskID]) async throws {
    let (known, children) = (removedTasks, children)
    let (removed, documents) = try await session.stage { tx in
      var removed = known
      var documents = 0
      var records: [TaskRecord] = []
      for id in ids {
        // Its conversation may have been deleted meanwhile.
        if let record = try await store.task(id), !record.isLive { records.append(record) }
      }
      let mentions = try await mentions(around: records.map { $0.conversationId })
      for record in records where !mentions.contains(record.id.value) {
        guard children[record.id]?.allSatisfy({ removed.contains($0) }) ?? true else { continue }
        for document in try await self.documents(of: record.id) {
          try tx.remove(document)
          documents += 1
        }
        try tx.remove(RecordReference(record.id))
        removed.insert(record.id)
      }
      return (removed, documents)
    }.result
    summary.tasks += removed.count - known.count
    summary.documents += documents
    removedTasks = removed
  }

  private func documents(of task: TaskID) async throws -> [DocumentRecord] {
    try await Page.all {
      try await store.scanDocuments(
        DocumentQuery(scope: .task(task), includesRetired: true),
        $0
      )
    }
  }

  /// What live tasks, and the runs and queues of these conversations, may refer to.
  private func mentions(around conversations: [ConversationID]) async throws -> Set<Int64> {
    var mentions = Mentions()
    var ids = Set(conversations)
    try await session.forEachLiveTask { task in
      mentions.add(task.json)
      ids.insert(task.conversationId)
    }
    for id in ids {
      for definition in [DocumentDefinition.live, .inbox] {
        mentions.add(try await session.revision(at: definition.address(in: id))?.value)
      }
    }
    return mentions.ids
  }

  // MARK: Submissions

  mutating func removeSubmissions(before cutoff: Int64) async throws {
    var candidates: [SubmissionID] = []
    for status in [SubmissionRecord.Status.done, .unanswered] {
      var cursor: Cursor?
      repeat {
        let page = try await store.scanSubmissions(
          SubmissionQuery(status: status),
          PageRequest(limit: 256, cursor: cursor)
        )
        for record in page.items where record.requestId == nil {
          let fact = try await store.flushedExtra(scope: "submission", id: record.id.value)
          if let at = fact?["at"]?.int, at < cutoff { candidates.append(record.id) }
        }
        cursor = page.next
      } while cursor != nil
    }
    candidates.sort(by: >)
    for start in stride(from: 0, to: candidates.count, by: Self.batchSize) {
      try await remove(candidates[start..<min(start + Self.batchSize, candidates.count)])
    }
  }

  private mutating func remove(_ ids: ArraySlice<SubmissionID>) async throws {
    summary.submissions += try await session.stage { tx in
      var records: [SubmissionRecord] = []
      for id in ids {
        if let record = try await store.submission(id), record.isSettled { records.append(record) }
      }
      let mentions = try await mentions(around: records.map { $0.conversationId })
      let removed = records.filter { !mentions.contains($0.id.value) }
      for record in removed { try tx.remove(RecordReference(record.id)) }
      return removed.count
    }.result
  }
}
