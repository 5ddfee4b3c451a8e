import PerdureModel
import PerdureValue
import Synchronization

/// How the scheduler follows what is committed.
extension Scheduler {
  /// Takes over the live tasks of the store: what ran when the process died is pending again.
  ///
  /// One commit; nothing runs before `enable`. Outcomes that are held and marks that have not spread
  /// are seen to afterwards, also before `enable`.
  func recover() async throws {
    session.observe { [weak self] publication in self?.observe(publication) }
    session.followTasks { [weak self] in await self?.passHere() }
    session.onEnd { [weak self] error in
      if let error { self?.sessionFailed(error) }
      self?.idleWaits.close(error)
    }
    session.onSeal { [weak self] error in self?.idleWaits.close(error) }
    surroundings.registry.subscribe { [weak self] in
      self?.surroundings.agents.clear()
      self?.registryChanged()
    }
    // What is waited for comes before those who wait, so that few of them have to be asked whether
    // they can go on.
    for status: TaskState.Status in [.pending, .running, .sleeping, .completing, .waiting] {
      try await load(status)
    }
    try await session.stage { tx in
      for record in session.liveTasks.values.sorted(by: { $0.id < $1.id }) {
        guard case .running(let checkpoint) = record.state else { continue }
        var recovered = record
        recovered.state = .pending(checkpoint: checkpoint)
        recovered.restarts = max(record.restarts ?? 0, 0).addingSaturated(1)
        try await tx.replace(recovered)
      }
    }
    state.withLock { $0.work.cascade = !$0.cancelling.isEmpty }
    schedulePass()
  }

  /// Takes over the tasks of one status, page by page, so that none of them has to stay.
  private func load(_ status: TaskState.Status) async throws {
    var cursor: Cursor?
    repeat {
      let page = try await session.store.scanTasks(
        TaskQuery(status: status),
        PageRequest(limit: 256, cursor: cursor, order: .descending)
      )
      for record in page.items {
        try await adopt(Change(record: record))
        state.withLock { state in
          if record.abandonOnRestart { state.abandoned.insert(record.id) }
          if case .waiting(_, _, .failFast) = record.state {
            state.work.failFast.insert(record.id)
          }
        }
      }
      cursor = page.next
    } while cursor != nil
  }

  /// Notes a staged commit; on the line, so it only enqueues.
  private func observe(_ publication: Publication) {
    var signalled: [InvocationSignal] = []
    state.withLock { state in
      for change in publication.changes {
        switch change {
        case .task(let record):
          state.changes.append(
            Change(record: record, previous: publication.replaced[record.id])
          )
          guard record.abortRequested, let invocation = state.invocations[record.id],
            invocation.mode == .run
          else { continue }
          signalled.append(invocation.signal)
        case .submission(let record):
          // It may be queued below something that is being cancelled.
          if record.status == .queued, record.kind == .input, !state.cancelling.isEmpty {
            state.work.cascade = true
          }
        // Only what has ended is taken away.
        case .conversation, .entry, .document, .documentCopy, .removal, .deletion: break
        }
      }
    }
    for signal in signalled { signal.cancel(.abort) }
  }

  /// Makes everything that was committed part of what is known here; called on the line.
  func catchUp() async throws {
    let changes = state.withLock { state in
      defer { state.changes = [] }
      return state.changes
    }
    for change in changes { try await adopt(change) }
  }

  /// Brings what is derived from a task up to date with its staged record.
  private func adopt(_ change: Change) async throws {
    let record = change.record
    setObstacle(record.id, nil)
    state.withLock { Self.forgetRest(change.previous, &$0) }
    guard record.isLive else { return state.withLock { end(record, change.previous, &$0) } }
    let isNew = !state.withLock { $0.forest.isLive(record.id) }
    if isNew { try await insert(record) }
    // Only what lies below: the rest of a large store is not looked through for each new task.
    let isBelow: Bool
    if isNew, !record.background {
      isBelow = try await cancellingTask(above: record) != nil
    } else {
      isBelow = false
    }
    state.withLock { state in
      if isBelow { state.work.cascade = true }
      Self.follow(record, change.previous, &state)
    }
  }

  private static func forgetRest(_ previous: TaskRecord?, _ state: inout State) {
    guard let previous else { return }
    switch previous.state {
    case .waiting(_, let on, _):
      for id in on { state.awaited.remove(id.value, previous.id.value) }
    case .sleeping(_, let until):
      state.sleepers.remove(until, previous.id.value)
      state.questions.remove(previous.id)
    case .pending, .running, .completing, .terminal: break
    }
  }

  private static func follow(
    _ record: TaskRecord,
    _ previous: TaskRecord?,
    _ state: inout State
  ) {
    if record.isCancelling {
      // A mark, a held failure, or a restart's mark that became a request spreads from here.
      if state.cancelling.insert(record.id).inserted
        || previous?.abortReason != record.abortReason
        || previous?.hasFailed != record.hasFailed
      {
        state.work.cascade = true
      }
    }
    if record.hasFailed, previous?.hasFailed != true { checkWaiters(of: record.id, &state) }
    switch record.state {
    case .waiting(_, let on, let policy):
      for id in on { state.awaited.insert(id.value, record.id.value) }
      if record.abortRequested || !on.contains(where: { state.forest.isLive($0) }) {
        state.candidates.insert(record.id)
      }
      if policy == .failFast { state.work.failFast.insert(record.id) }
    case .sleeping(_, let until):
      state.sleepers.insert(until, record.id.value)
      if record.kind == Approval.kind { state.questions.insert(record.id) }
      if record.abortRequested { state.candidates.insert(record.id) }
    case .pending: state.candidates.insert(record.id)
    case .completing:
      state.candidates.remove(record.id)
      state.work.finals.insert(record.id)
    case .running, .terminal: break
    }
  }

  private static func checkWaiters(of id: TaskID, _ state: inout State) {
    for waiter in state.awaited.values(of: id.value).compactMap({ TaskID($0) }) {
      state.work.failFast.insert(waiter)
    }
  }

  /// Forgets a task that has ended, and lets those go on who waited for it.
  private func end(_ record: TaskRecord, _ previous: TaskRecord?, _ state: inout State) {
    let id = record.id
    // Asked before the forest forgets what led there.
    let above = Self.liveTask(above: record, state)
    state.forest.end(id)
    state.candidates.remove(id)
    state.cancelling.remove(id)
    state.work.finals.remove(id)
    state.work.failFast.remove(id)
    state.abandoned.remove(id)
    state.failedMigrations[id] = nil
    if record.hasFailed, previous?.hasFailed != true { Self.checkWaiters(of: id, &state) }
    for waiter in state.awaited.values(of: id.value).compactMap({ TaskID($0) }) {
      state.candidates.insert(waiter)
    }
    // One that neither ends nor is to end has not waited for it.
    guard let above, let held = session.liveTask(above) else { return }
    if held.state.status == .completing { state.work.finals.insert(above) }
    if held.abortRequested { state.candidates.insert(above) }
  }

  /// The nearest live task above one, unless a boundary lies between.
  private static func liveTask(above record: TaskRecord, _ state: borrowing State) -> TaskID? {
    if record.background { return nil }
    var node: TaskForest.Node? = record.parentNode
    while let current = node {
      if case .task(let above) = current, state.forest.isLive(above) { return above }
      guard let link = state.forest.link(of: current), !link.isBackground else { return nil }
      node = link.parent
    }
    return nil
  }

  // MARK: The forest

  /// Adds a live task to the forest, with what lies between it and what is there.
  private func insert(_ record: TaskRecord) async throws {
    let isIn = state.withLock { state in
      guard record.background || state.forest.link(of: record.parentNode) != nil else {
        return false
      }
      state.forest.add(record.id, TaskForest.Link(record), chain: [])
      return true
    }
    if isIn { return }
    var forest = state.withLock { $0.forest }
    try await insert(record, into: &forest, nil)
    state.withLock { $0.forest = forest }
  }

  /// Adds a live task to a forest; what `tx` has staged counts before what is committed.
  func insert(
    _ record: TaskRecord,
    into forest: inout TaskForest,
    _ tx: Transaction?
  ) async throws {
    var chain: [(node: TaskForest.Node, link: TaskForest.Link)] = []
    var next: TaskForest.Node? = record.background ? nil : record.parentNode
    while let node = next, forest.link(of: node) == nil {
      guard let link = try await link(of: node, tx) else { break }
      if link.isLive, case .task(let owner) = node, let above = try await task(owner, tx) {
        // Its owner is read later: it comes first all the same.
        try await insert(above, into: &forest, tx)
        break
      }
      chain.append((node, link))
      next = link.isBackground ? nil : link.parent
    }
    forest.add(record.id, TaskForest.Link(record), chain: chain)
  }

  /// Where a node hangs, also one that is not in the forest.
  func link(of node: TaskForest.Node, _ tx: Transaction? = nil) async throws -> TaskForest.Link? {
    if let link = state.withLock({ $0.forest.link(of: node) }) { return link }
    switch node {
    case .task(let id): return try await task(id, tx).map { TaskForest.Link($0) }
    case .conversation(let id):
      let staged = tx?.newConversations[id]
      let record: ConversationRecord?
      if let staged { record = staged } else { record = try await session.store.conversation(id) }
      return record.map { TaskForest.Link(parent: $0.owner.map { .task($0.taskId) }) }
    }
  }

  private func task(_ id: TaskID, _ tx: Transaction?) async throws -> TaskRecord? {
    if let staged = tx?.tasks[id] { return staged }
    return try await session.task(id)
  }

  /// The forest as it will be when `tx` is committed.
  func forest(after tx: Transaction) async throws -> TaskForest {
    try await catchUp()
    var forest = state.withLock { $0.forest }
    for id in tx.taskOrder {
      guard let record = tx.tasks[id] else { continue }
      if !record.isLive {
        forest.end(id)
      } else if !forest.isLive(id) {
        try await insert(record, into: &forest, tx)
      }
    }
    return forest
  }

  /// The task above `node`, across no background boundary, below which everything is to end.
  func cancellingTask(
    above record: TaskRecord
  ) async throws -> TaskID? { try await cancellingTask(from: record.parentNode) }

  func cancellingTask(from start: TaskForest.Node) async throws -> TaskID? {
    if state.withLock({ $0.cancelling.isEmpty }) { return nil }
    var next: TaskForest.Node? = start
    while let node = next {
      if case .task(let id) = node, state.withLock({ $0.cancelling.contains(id) }) { return id }
      guard let link = try await link(of: node), !link.isBackground else { return nil }
      next = link.parent
    }
    return nil
  }
}
