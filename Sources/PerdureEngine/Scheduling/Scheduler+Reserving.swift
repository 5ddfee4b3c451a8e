package import PerdureModel
import PerdureValue
import Synchronization

/// A migration that was tried and did not succeed.
struct FailedMigration: Sendable {
  var identity: DefinitionIdentity
  var message: String
}

/// A migration that was made before the task is set running.
struct PreparedMigration: Sendable {
  var identity: DefinitionIdentity
  var old: TaskRecord
  var new: TaskRecord
}

/// How tasks are found that can go on, and what keeps others from it.
extension Scheduler {
  /// A live task that does not go on, and why.
  package struct Obstacle: Sendable {
    package var task: TaskRecord
    /// `missing_task`, `plugin_down`, `task_too_old`, `migration_failed`, `restart_limit`.
    package var reason: String
  }

  /// How often in a row a crash may cut off a task; at least 1.
  var restartLimit: Int64 { max(1, surroundings.settings().restartLimit) }

  /// Decides about one candidate; what it writes lands with the pass.
  func consider(
    _ id: TaskID,
    _ tx: Transaction,
    _ round: Reservations
  ) async throws -> Invocation? {
    drop(id)
    if state.withLock({ $0.invocations[id] != nil }) { return nil }
    guard let record = try await session.task(id), record.isLive else { return nil }
    if record.abortRequested {
      // From the bottom up: it comes back when the last thing below it has ended.
      if state.withLock({ $0.forest.hasWork(below: .task(id)) }) { return nil }
    } else {
      switch record.state {
      case .waiting(_, let on, _):
        let isWaiting = state.withLock { state in on.contains { state.forest.isLive($0) } }
        if isWaiting { return nil }
      case .sleeping(_, let until): if until > tx.now { return nil }
      case .pending, .running, .completing, .terminal: break
      }
      if !record.background, try await cancellingTask(above: record) != nil {
        // Its own mark is about to be written.
        state.withLock { $0.work.cascade = true }
        return nil
      }
    }
    if record.state.outcome != nil { return nil }
    return try await reserve(record, tx, round)
  }

  private func drop(_ id: TaskID) { state.withLock { _ = $0.candidates.remove(id) } }

  /// Makes candidates of those that have slept long enough.
  func wakeDue(_ now: Int64) {
    state.withLock { state in
      // One that cannot run although it is due would wake the timer again at once.
      while let first = state.sleepers.first, first.key <= now {
        state.sleepers.remove(first.key, first.value)
        if let id = TaskID(first.value) { state.candidates.insert(id) }
      }
    }
  }

  /// Makes candidates of parked tasks that a raised limit lets go on.
  func unpark() {
    let limit = restartLimit
    state.withLock { state in
      if limit > state.parkingLimit {
        for obstacle in state.blocked.values where obstacle.reason == Self.parked {
          state.candidates.insert(obstacle.task.id)
        }
      }
      state.parkingLimit = limit
    }
  }

  /// Marks the tasks that do not survive a restart; returns whether there were any.
  func abandon(_ tx: Transaction) async throws -> Bool {
    let abandoned = state.withLock { state in
      defer { state.abandoned = [] }
      return state.abandoned
    }
    for id in abandoned.sorted() {
      guard let record = try await session.task(id), record.isLive, !record.abortRequested else {
        continue
      }
      try await tx.replace(record.marked(reason: "restart"))
    }
    if !abandoned.isEmpty { state.withLock { $0.isReconsidering = true } }
    return !abandoned.isEmpty
  }

  // MARK: Reservation

  /// Sets a task running, or says why it cannot run.
  private func reserve(
    _ record: TaskRecord,
    _ tx: Transaction,
    _ round: Reservations
  ) async throws -> Invocation? {
    if (record.restarts ?? 0) >= restartLimit {
      if record.abortRequested {
        try await endCutOff(record, tx, round)
      } else {
        park(record, round)
      }
      return nil
    }
    switch resolve(record) {
    case .blocked(let reason, let report):
      if let report { round.add(report) }
      try await obstruct(record, reason, tx)
      return nil
    case .migrating(let found):
      // Left out of this pass; it is a candidate again when its code has answered.
      round.add(record, found)
      return nil
    case .ready(var ready, let found):
      guard let checkpoint = ready.state.checkpoint else { return nil }
      ready.state = .running(checkpoint: checkpoint)
      try await tx.replace(ready)
      let invocation = Invocation(
        record: ready,
        definition: found.definition,
        extensionName: found.extensionName,
        mode: ready.abortRequested ? .abort : .run,
        scheduler: self
      )
      state.withLock { $0.invocations[ready.id] = invocation }
      return invocation
    }
  }

  private enum Resolution {
    case ready(TaskRecord, (definition: TaskDefinition, extensionName: String?))
    case blocked(String, Report?)
    /// Its code has to be asked first, away from the line.
    case migrating((definition: TaskDefinition, extensionName: String?))
  }

  /// Finds the code of a task and brings the task to its version.
  private func resolve(_ record: TaskRecord) -> Resolution {
    guard let found = definition(record.kind) else { return .blocked("missing_task", nil) }
    let definition = found.definition
    if definition.external?.isDown() == true { return .blocked("plugin_down", nil) }
    if record.version > definition.version { return .blocked("task_too_old", nil) }
    if record.version == definition.version { return .ready(record, found) }
    if let failed = state.withLock({ $0.failedMigrations[record.id] }),
      failed.identity === definition.identity
    {
      return .blocked("migration_failed", nil)
    }
    if let external = definition.external, external.migrates.contains(record.version),
      record.state.checkpoint != nil
    {
      guard let ready = preparedMigration(of: record, definition) else {
        return .migrating(found)
      }
      return .ready(ready, found)
    }
    do {
      guard let migrate = definition.migrate, record.state.checkpoint != nil else {
        throw PerdureError(
          .invalidConfiguration,
          "the task type '\(record.kind.string)' of version \(definition.version) has no migration"
            + " from version \(record.version)"
        )
      }
      var ready = record
      let migrated = try migrate(record)
      try definition.check(migrated.checkpoint)
      ready.version = definition.version
      ready.input = migrated.input
      ready.state = .pending(checkpoint: migrated.checkpoint)
      return .ready(ready, found)
    } catch {
      let message = Invocation.describe(error)
      state.withLock {
        $0.failedMigrations[record.id] = FailedMigration(
          identity: definition.identity,
          message: message
        )
      }
      let report = Report(
        type: "migration_failed",
        message: "task \(record.id) (\(record.kind.string)) cannot be migrated: \(message)",
        task: record.id,
        extensionName: found.extensionName
      )
      return .blocked("migration_failed", report)
    }
  }

  private func preparedMigration(
    of record: TaskRecord,
    _ definition: TaskDefinition
  ) -> TaskRecord? {
    state.withLock { state in
      guard let prepared = state.preparedMigrations.removeValue(forKey: record.id),
        prepared.identity === definition.identity, prepared.old == record
      else { return nil }
      return prepared.new
    }
  }

  /// Asks code that lives outside to lead a task to its version, and lets the next pass take it.
  func migrate(
    _ record: TaskRecord,
    _ found: (definition: TaskDefinition, extensionName: String?)
  ) async {
    let definition = found.definition
    guard let external = definition.external else { return }
    do {
      let migrated = try await migrated(record, by: external)
      try definition.check(migrated.checkpoint)
      var ready = record
      ready.version = definition.version
      ready.input = migrated.input
      ready.state = .pending(checkpoint: migrated.checkpoint)
      let prepared = PreparedMigration(identity: definition.identity, old: record, new: ready)
      state.withLock { $0.preparedMigrations[record.id] = prepared }
    } catch let error as PerdureError where error.code == .pluginDown {
      // It stays as it is until somebody runs the code again.
    } catch {
      noteFailedMigration(record, found, error)
    }
    state.withLock { state in
      state.migrating.remove(record.id)
      state.candidates.insert(record.id)
    }
    schedulePass()
  }

  private static let migrationRetries = 4
  private static let migrationPause: Int64 = 100_000_000

  /// Asks the code again, and waits longer each time, when the process that ran it is gone.
  private func migrated(
    _ record: TaskRecord,
    by external: ExternalTask
  ) async throws -> (input: JSON, checkpoint: JSON) {
    var retries = 0
    while true {
      do {
        return try await external.migrate(record)
      } catch let error as PerdureError where error.code == .pluginFault {
        guard retries < Self.migrationRetries, !isClosing else { throw error }
        await surroundings.clock.sleep(nanoseconds: Self.migrationPause << Int64(retries))
        retries += 1
      }
    }
  }

  private func noteFailedMigration(
    _ record: TaskRecord,
    _ found: (definition: TaskDefinition, extensionName: String?),
    _ error: any Error
  ) {
    let message = Invocation.describe(error)
    state.withLock {
      $0.failedMigrations[record.id] = FailedMigration(
        identity: found.definition.identity,
        message: message
      )
    }
    surroundings.report(
      Report(
        type: "migration_failed",
        message: "task \(record.id) (\(record.kind.string)) cannot be migrated: \(message)",
        task: record.id,
        extensionName: found.extensionName
      )
    )
  }

  /// A task whose code is missing stays as it is; one that is to be aborted ends without code.
  ///
  /// A mark of a restart is not enough for that: it waits for the code.
  private func obstruct(
    _ record: TaskRecord,
    _ reason: String,
    _ tx: Transaction
  ) async throws {
    // A plugin that is down comes back.
    if record.abortRequested, record.abortReason == nil, reason != "plugin_down" {
      try await end(record, .orphaned(reason: reason), tx)
    } else {
      setObstacle(record.id, Obstacle(task: record, reason: reason))
    }
  }

  /// Ends a task without code if nothing can run it; returns whether it did.
  func orphan(_ record: TaskRecord, _ tx: Transaction) async throws -> Bool {
    guard case .blocked(let reason, _) = resolve(record), reason != "plugin_down" else {
      return false
    }
    try await end(record, .orphaned(reason: reason), tx)
    return true
  }

  private func endCutOff(
    _ record: TaskRecord,
    _ tx: Transaction,
    _ round: Reservations
  ) async throws {
    let message = "the abort handler was cut off too often"
    try await end(
      record,
      .faulted(message: message, detail: ["reason": .string(JSONString(Self.parked))]),
      tx
    )
    round.add(
      Report(
        type: "task_faulted",
        message: "task \(record.id) (\(record.kind.string)): \(message)",
        task: record.id
      )
    )
  }

  // MARK: Obstacles

  private static let parked = "restart_limit"

  private func park(_ record: TaskRecord, _ round: Reservations) {
    guard setObstacle(record.id, Obstacle(task: record, reason: Self.parked)) else { return }
    round.add(
      Report(
        type: "task_parked",
        message:
          "task \(record.id) was cut off \(record.restarts ?? 0) times in a row and is parked",
        task: record.id,
        extensionName: definition(record.kind)?.extensionName
      )
    )
  }

  /// Notes why a task cannot go on, or that it can, and returns whether that is news.
  @discardableResult
  func setObstacle(_ id: TaskID, _ obstacle: Obstacle?) -> Bool {
    let (isNew, follower) = state.withLock { state in
      let isNew = state.blocked[id]?.reason != obstacle?.reason
      if isNew || obstacle != nil { state.blocked[id] = obstacle }
      return (isNew, state.obstacleFollower)
    }
    if isNew { follower?(id, obstacle?.reason) }
    return isNew
  }

  /// The live tasks that are blocked or parked, by id.
  package var obstacles: [Obstacle] {
    state.withLock { Array($0.blocked.values) }.sorted { $0.task.id < $1.task.id }
  }

  /// Why live tasks are blocked, as it stands.
  var blocked: [TaskID: String] { state.withLock { $0.blocked.mapValues { $0.reason } } }

  /// Tells `follower`, on the line, of every change of what is blocked.
  func followObstacles(_ follower: @escaping @Sendable (TaskID, String?) -> Void) {
    state.withLock { $0.obstacleFollower = follower }
  }

  /// Looks again at everything that is blocked, because other code is installed now.
  func registryChanged() {
    state.withLock { state in
      for id in state.blocked.keys { state.candidates.insert(id) }
    }
    schedulePass()
  }
}
