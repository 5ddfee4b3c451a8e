package import PerdureModel
import PerdureValue
import Synchronization

/// What an abort of a task found.
package enum AbortFinding: Sendable {
  /// It carries the mark now, or was ended at once because nothing can run it.
  case marked
  /// It had ended already.
  case terminal
}

/// Where a live task stands for the one who asks what keeps it.
package enum TaskReadiness: Sendable, Equatable {
  /// Its code runs.
  case running
  /// Its outcome is decided, and something below it is live.
  case completing
  /// These tasks are live, for which it waits, or which must end before its abort handler runs.
  case waiting(on: [TaskID])
  /// Until a time in milliseconds since 1970.
  case sleeping(until: Int64)
  /// `missing_task`, `task_too_old`, `migration_failed`, `restart_limit`; with what a migration
  /// failed.
  case blocked(reason: String, error: String?)
  /// It can run.
  case ready(migrates: Bool)
}

/// What is asked of the scheduler.
extension Scheduler {
  /// Marks a task for abort in one commit, ends its code, and returns when the mark is on disk and
  /// the code has ended.
  ///
  /// A task that nothing can run and that has nothing live below it ends as `orphaned` in that
  /// commit. With `keepsRestart` a mark that a restart left stays. Throws `notFound`.
  func abort(_ id: TaskID, keepsRestart: Bool = false) async throws -> AbortFinding {
    let running = Mutex<Invocation?>(nil)
    let finding: AbortFinding = try await session.commit { tx in
      try await catchUp()
      guard let record = try await session.task(id) else { throw Self.missing(id) }
      guard record.isLive else { return .terminal }
      if keepsRestart, record.abortReason == "restart" { return .marked }
      let (invocation, hasWork) = state.withLock { state in
        (state.invocations[id], state.forest.hasWork(below: .task(id)))
      }
      if invocation == nil, record.state.outcome == nil, !hasWork,
        try await orphan(record, tx)
      {
        return .marked
      }
      if !record.abortRequested || record.abortReason != nil {
        try await tx.replace(record.marked())
      }
      if let invocation, invocation.mode == .run { running.withLock { $0 = invocation } }
      return .marked
    }
    if let invocation = running.withLock({ $0 }) {
      try await joins.wait(for: id) { invocation.signal.hasEnded }
    }
    return finding
  }

  /// Lets a parked task run again: its count of restarts is cleared.
  ///
  /// A task that is not parked stays as it is. Returns whether it was; throws `notFound`.
  func retry(_ id: TaskID) async throws -> Bool {
    let wasParked = try await session.retry(id, limit: restartLimit)
    try enable()
    return wasParked
  }

  /// Returns the record of a task once it is terminal on disk.
  ///
  /// Cancelling the calling task ends the wait and nothing else. Throws `notFound`.
  func wait(for id: TaskID) async throws -> TaskRecord {
    let session = session
    try await session.taskWaits.wait(for: id) {
      guard let record = try await session.task(id) else { throw Self.missing(id) }
      // It may have ended, in a commit that nobody asked to flush, before this wait.
      if !record.isLive { try await session.barrier() }
      return !record.isLive
    }
    guard let record = try await session.store.task(id) else { throw Self.missing(id) }
    return record
  }

  /// Returns when a conversation, or all of them, have no live work but such in the background.
  ///
  /// Work that waits, sleeps, is blocked or ends is live. Cancelling the calling task ends the wait
  /// and nothing else.
  func waitForIdle(_ conversation: ConversationID?) async throws {
    let session = session
    try await idleWaits.wait(for: conversation) { [weak self] in
      try await session.line.hold {
        try await self?.catchUp()
        return self?.isIdle(conversation) ?? true
      }
    }
    try await session.barrier()
  }

  private func isIdle(_ conversation: ConversationID?) -> Bool {
    state.withLock { state in
      guard !state.hasNews else { return false }
      return conversation.map { !state.forest.hasWork(below: .conversation($0)) }
        ?? !state.forest.hasWork
    }
  }

  /// Lets those go on who waited for an idleness that is there now.
  func resolveIdle() {
    for conversation in idleWaits.keys where isIdle(conversation) {
      idleWaits.release(conversation)
    }
  }

  /// Withdraws the queued inputs of a conversation and of those below it, and marks the work there,
  /// in one commit; returns the tasks that it reached when that is on disk.
  ///
  /// Background work and what is below it is only reached with `background`.
  func abort(_ id: ConversationID, background: Bool) async throws -> [TaskID] {
    try await session.commit(conversation: id) { tx in
      guard try await tx.conversation(id) != nil else {
        throw PerdureError(.notFound, "conversation \(id) does not exist")
      }
      try await catchUp()
      let start = TaskForest.Node.conversation(id)
      let reached = try await tasks(below: start, crossingBackground: background)
      for task in reached {
        // A mark that a restart left gives way to a request.
        guard let record = try await session.task(task), record.isLive,
          !record.abortRequested || record.abortReason != nil
        else { continue }
        try await tx.replace(record.marked())
      }
      for conversation in try await queuedConversations()
      where try await lies(.conversation(conversation), below: start, crossing: background) {
        try await tx.withdrawInputs(of: conversation, reason: "aborted")
      }
      return reached
    }
  }

  static func missing(_ id: TaskID) -> PerdureError {
    PerdureError(.notFound, "task \(id) does not exist")
  }

  // MARK: Looking around

  /// Where a live task stands; called on the line.
  func readiness(of record: TaskRecord) async throws -> TaskReadiness {
    if state.withLock({ $0.invocations[record.id] != nil }) { return .running }
    if record.state.status == .completing { return .completing }
    let waits = try await waits(of: record)
    if !waits.isEmpty { return .waiting(on: waits) }
    if !record.abortRequested {
      if case .sleeping(_, let until) = record.state, until > surroundings.clock.now() {
        return .sleeping(until: until)
      }
      if (record.restarts ?? 0) >= restartLimit {
        return .blocked(reason: "restart_limit", error: nil)
      }
    }
    guard let definition = definition(record.kind)?.definition else {
      return .blocked(reason: "missing_task", error: nil)
    }
    if definition.external?.isDown() == true {
      return .blocked(reason: "plugin_down", error: nil)
    }
    if definition.version < record.version { return .blocked(reason: "task_too_old", error: nil) }
    if definition.version == record.version { return .ready(migrates: false) }
    if let failed = state.withLock({ $0.failedMigrations[record.id] }),
      failed.identity === definition.identity
    {
      return .blocked(reason: "migration_failed", error: failed.message)
    }
    if !definition.canMigrate(from: record.version) {
      return .blocked(reason: "migration_failed", error: "there is no migration")
    }
    return .ready(migrates: true)
  }

  private func waits(of record: TaskRecord) async throws -> [TaskID] {
    if record.abortRequested { return try await tasks(below: .task(record.id)) }
    guard case .waiting(_, let on, _) = record.state else { return [] }
    return state.withLock { state in on.filter { state.forest.isLive($0) } }
  }

  // MARK: Walks

  /// The live tasks below a node, by id; called on the line.
  func tasks(
    below start: TaskForest.Node,
    crossingBackground: Bool = false
  ) async throws -> [TaskID] {
    var found: [TaskID] = []
    var known: [TaskForest.Node: Bool] = [:]
    for (id, link) in state.withLock({ $0.forest.liveTasks })
    where crossingBackground || !link.isBackground {
      guard let parent = link.parent else { continue }
      if try await lies(parent, below: start, crossing: crossingBackground, &known) {
        found.append(id)
      }
    }
    return found
  }

  /// Whether a node is another one or hangs below it.
  private func lies(
    _ node: TaskForest.Node,
    below start: TaskForest.Node,
    crossing: Bool
  ) async throws -> Bool {
    var known: [TaskForest.Node: Bool] = [:]
    return try await lies(node, below: start, crossing: crossing, &known)
  }

  private func lies(
    _ node: TaskForest.Node,
    below start: TaskForest.Node,
    crossing: Bool,
    _ known: inout [TaskForest.Node: Bool]
  ) async throws -> Bool {
    var path: [TaskForest.Node] = []
    var next: TaskForest.Node? = node
    var answer = false
    while let current = next {
      if current == start {
        answer = true
        break
      }
      if let before = known[current] {
        answer = before
        break
      }
      path.append(current)
      guard let link = try await link(of: current), crossing || !link.isBackground else { break }
      next = link.parent
    }
    for node in path { known[node] = answer }
    return answer
  }

  // MARK: Waits of tasks

  /// Throws `invalidInput` unless a task may wait for these in this way.
  func check(
    _ record: TaskRecord,
    waitsOn on: [TaskID],
    _ policy: JoinPolicy,
    _ tx: Transaction
  ) async throws {
    var targets: Set<TaskID> = []
    for id in on {
      let staged = tx.tasks[id]
      let found: TaskRecord?
      if let staged { found = staged } else { found = try await session.task(id) }
      guard let member = found else { throw Self.missing(id) }
      if policy == .failFast, member.owner != record.id {
        throw PerdureError(
          .invalidInput,
          "task \(record.id) can fail fast only with tasks that it owns, and \(id) is none",
          hint: "wait with allSettled"
        )
      }
      if member.isLive, member.owner != record.id { targets.insert(id) }
    }
    guard !targets.isEmpty, let cycle = try await cycle(through: record.id, targets) else { return }
    let path = ([record.id] + cycle).map { "\($0)" }.joined(separator: " -> ")
    throw PerdureError(
      .invalidInput,
      "task \(record.id) cannot wait for \(cycle.first.map { "\($0)" } ?? ""): the tasks"
        + " \(path) would wait for each other"
    )
  }

  /// The way from one of `targets` back to `task`, over waits and over the work below a task.
  ///
  /// Looked for from its end: who waits for a task, and what is above it, is known at once.
  private func cycle(through task: TaskID, _ targets: Set<TaskID>) async throws -> [TaskID]? {
    try await catchUp()
    var following: [TaskID: TaskID] = [:]
    var seen: Set<TaskID> = [task]
    var pending = [task]
    while let id = pending.popLast() {
      if targets.contains(id) {
        var path = [id]
        while let last = path.last, last != task, let next = following[last] { path.append(next) }
        return path
      }
      for before in try await above(id) + waiting(for: id) where seen.insert(before).inserted {
        following[before] = id
        pending.append(before)
      }
    }
    return nil
  }

  /// The live tasks to whose ordinary work a task belongs.
  private func above(_ id: TaskID) async throws -> [TaskID] {
    var found: [TaskID] = []
    var link = try await link(of: .task(id))
    while let current = link, !current.isBackground, let parent = current.parent {
      link = try await self.link(of: parent)
      if case .task(let owner) = parent, link?.isLive == true { found.append(owner) }
    }
    return found
  }

  private func waiting(for id: TaskID) async throws -> [TaskID] {
    let waiters = state.withLock { $0.awaited.values(of: id.value) }.compactMap { TaskID($0) }
    // One that is to be aborted waits for nothing but what is below it.
    return waiters.filter { session.liveTask($0)?.abortRequested != true }
  }
}

extension Session {
  /// Clears the count of restarts of a parked task, so that it runs again where somebody runs it.
  ///
  /// A task that is not parked stays as it is. Returns whether it was; throws `notFound`.
  package func retry(_ id: TaskID, limit: Int64) async throws -> Bool {
    try await commit { tx in
      guard var record = try await self.task(id) else { throw Scheduler.missing(id) }
      guard record.isParked(at: limit) else { return false }
      record.restarts = nil
      try await tx.replace(record)
      return true
    }
  }
}

extension TaskRecord {
  /// Whether it was cut off so often in a row that it is not run again by itself.
  package func isParked(at limit: Int64) -> Bool {
    isLive && state.outcome == nil && !abortRequested && (restarts ?? 0) >= limit
  }
}
