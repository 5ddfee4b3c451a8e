import PerdureModel
import PerdureValue
import Synchronization

/// What follows from marks and outcomes and is not written yet.
///
/// All of it is derived from records, so that a crash before it is written loses nothing.
struct ReconcilingWork: Sendable {
  /// Whether something below a cancelled task may be without a mark.
  var cascade = false
  /// Waiting tasks of which a member may have failed.
  var failFast: Set<TaskID> = []
  /// Tasks that hold an outcome and may have nothing live below them any more.
  var finals: Set<TaskID> = []

  var isEmpty: Bool { !cascade && failFast.isEmpty && finals.isEmpty }
}

/// How marks spread and held outcomes become final.
extension Scheduler {
  /// Writes what follows from the newest marks and outcomes, in a commit of its own.
  ///
  /// The commit that made them may have written the very tasks that are marked now.
  func reconcile() async throws {
    guard state.withLock({ !$0.changes.isEmpty || !$0.work.isEmpty }) else { return }
    try await session.stage { tx in
      if isClosing { return }
      try await catchUp()
      let work = state.withLock { state in
        defer { state.work = ReconcilingWork() }
        return state.work
      }
      if work.isEmpty { return }
      var marks = Marks()
      if work.cascade { try await spread(&marks) }
      for id in work.failFast.sorted() { try await failFast(id, &marks) }
      for record in marks.records { try await tx.replace(record) }
      if work.cascade { try await withdrawInputs(tx) }
      try await finalize(work.finals, tx)
    }
  }

  /// The abort marks of one commit.
  struct Marks {
    private(set) var records: [TaskRecord] = []
    private var places: [TaskID: Int] = [:]

    /// Marks a task; a request counts more than a restart.
    mutating func add(_ record: TaskRecord, reason: JSONString? = nil) {
      if record.abortRequested, record.abortReason == nil || reason != nil { return }
      if let place = places[record.id] {
        if reason == nil { records[place].abortReason = nil }
        return
      }
      places[record.id] = records.count
      records.append(record.marked(reason: reason))
    }
  }

  /// Marks everything ordinary below tasks that are cancelled.
  private func spread(_ marks: inout Marks) async throws {
    for (id, link) in state.withLock({ $0.forest.liveTasks }) where !link.isBackground {
      guard let parent = link.parent, let above = try await cancellingTask(from: parent),
        let owner = session.liveTask(above), owner.isCancelling
      else { continue }
      // Those with a mark are in memory, so most need not be read.
      let isRestart = owner.abortReason == "restart" && !owner.hasFailed
      guard let record = try await session.task(id), record.isLive else { continue }
      marks.add(record, reason: isRestart ? "restart" : nil)
    }
  }

  /// Marks the other members of a wait of which one has failed.
  private func failFast(_ id: TaskID, _ marks: inout Marks) async throws {
    guard let waiter = try await session.task(id),
      case .waiting(_, let on, .failFast) = waiter.state
    else { return }
    var live: [TaskRecord] = []
    var hasFailure = false
    for member in on {
      guard let record = try await session.task(member) else { continue }
      if record.hasFailed { hasFailure = true } else if record.isLive { live.append(record) }
    }
    if hasFailure { for record in live { marks.add(record) } }
  }

  /// Withdraws the queued inputs of conversations below tasks that are cancelled.
  private func withdrawInputs(_ tx: Transaction) async throws {
    for conversation in try await queuedConversations()
    where try await cancellingTask(from: .conversation(conversation)) != nil {
      try await tx.withdrawInputs(of: conversation, reason: "aborted")
    }
  }

  /// The conversations that have queued inputs, in order.
  func queuedConversations() async throws -> [ConversationID] {
    var conversations: Set<ConversationID> = []
    var cursor: Cursor?
    repeat {
      let page = try await session.store.scanSubmissions(
        SubmissionQuery(status: .queued),
        PageRequest(limit: 256, cursor: cursor)
      )
      for record in page.items where record.kind == .input {
        conversations.insert(record.conversationId)
      }
      cursor = page.next
    } while cursor != nil
    return conversations.sorted()
  }

  /// Makes held outcomes final below which nothing is live, from the bottom up.
  private func finalize(_ first: Set<TaskID>, _ tx: Transaction) async throws {
    var round = first
    while !round.isEmpty {
      var next: Set<TaskID> = []
      for id in round.sorted() {
        guard let record = tx.tasks[id] ?? session.liveTask(id),
          case .completing(let outcome) = record.state,
          try await !forest(after: tx).hasWork(below: .task(id))
        else { continue }
        try await finish(record, outcome, tx)
        if let above = try await liveTask(above: record, tx) { next.insert(above) }
      }
      round = next
    }
  }

  /// The nearest live task above one, unless a boundary lies between.
  private func liveTask(above record: TaskRecord, _ tx: Transaction) async throws -> TaskID? {
    if record.background { return nil }
    var next: TaskForest.Node? = record.parentNode
    while let node = next, let link = try await link(of: node, tx) {
      if link.isLive, case .task(let id) = node { return id }
      if link.isBackground { return nil }
      next = link.parent
    }
    return nil
  }

  // MARK: Ends

  /// Returns the record with its next state: a terminal one is held while work below it is live.
  func advance(
    _ record: TaskRecord,
    to state: TaskState,
    _ tx: Transaction
  ) async throws -> TaskRecord {
    var next = record
    next.state = state
    if state != record.state { next.restarts = nil }
    if case .terminal(let outcome) = state,
      try await forest(after: tx).hasWork(below: .task(record.id))
    {
      next.state = .completing(outcome)
    }
    return next
  }

  /// Ends a task by the scheduler's own decision.
  func end(_ record: TaskRecord, _ outcome: TaskOutcome, _ tx: Transaction) async throws {
    let next = try await advance(record, to: .terminal(outcome), tx)
    if case .terminal = next.state {
      try await finish(record, outcome, tx)
    } else {
      try await tx.replace(next)
    }
  }

  /// Makes a decided outcome final.
  private func finish(
    _ record: TaskRecord,
    _ outcome: TaskOutcome,
    _ tx: Transaction
  ) async throws {
    switch outcome {
    case .faulted, .orphaned:
      try await definition(record.kind)?.definition.settle(tx, record, outcome)
    case .completed, .failed, .aborted: break
    }
    var next = record
    next.state = .terminal(outcome)
    try await tx.replace(next)
  }
}
