package import PerdureModel
import Synchronization

/// What an engine has to do, as of one moment.
package struct Inspection: Sendable {
  /// Whether tasks are started.
  package enum Scheduling: String, Sendable { case paused, running, closing }

  package var scheduling: Scheduling
  /// The live tasks, by id.
  package var tasks: [(record: TaskRecord, readiness: TaskReadiness)]
  /// The submissions that are not settled, by id.
  package var submissions: [SubmissionRecord]
}

/// Tasks from outside.
extension Engine {
  /// The extensions that are installed.
  package var registry: Registry { options.registry }

  /// Returns a task as it is on disk, or `nil`.
  package func task(_ id: TaskID) async throws -> TaskRecord? {
    try await session.observeFlushed { _ in try await session.task(id) }
  }

  /// Marks a task for abort; see `Scheduler.abort`.
  package func abortTask(_ id: TaskID) async throws -> AbortFinding {
    if let refusal = scheduler.refusal { throw refusal }
    return try await scheduler.abort(id)
  }

  /// Lets a parked task run again; returns whether it was parked.
  @discardableResult
  package func retryTask(_ id: TaskID) async throws -> Bool {
    if let refusal = scheduler.refusal { throw refusal }
    return try await scheduler.retry(id)
  }

  /// Returns the record of a task once it is terminal on disk.
  package func waitForTask(_ id: TaskID) async throws -> TaskRecord {
    try scheduler.enable()
    return try await scheduler.wait(for: id)
  }

  /// Says what there is to do and what keeps it; lets nothing run.
  package func inspect() async throws -> Inspection {
    try await session.observeFlushed { _ in
      try await scheduler.catchUp()
      let (scheduling, refusal, ids) = scheduler.state.withLock { state in
        (
          state.isClosing ? Inspection.Scheduling.closing : state.isEnabled ? .running : .paused,
          state.refusal, state.forest.liveTasks.map { $0.id }
        )
      }
      var inspection = Inspection(scheduling: scheduling, tasks: [], submissions: [])
      if let refusal {
        // Nothing of a store is followed that is not gone on with.
        inspection.tasks = try await storedTasks().map {
          ($0, .blocked(reason: refusal.code.rawValue, error: refusal.message))
        }
      } else {
        for id in ids {
          guard let record = try await session.task(id), record.isLive else { continue }
          inspection.tasks.append((record, try await scheduler.readiness(of: record)))
        }
      }
      for status in [SubmissionRecord.Status.queued, .placed] {
        inspection.submissions += try await Page.all {
          try await session.store.scanSubmissions(SubmissionQuery(status: status), $0)
        }
      }
      inspection.submissions.sort { $0.id < $1.id }
      return inspection
    }
  }

  private func storedTasks() async throws -> [TaskRecord] {
    var tasks: [TaskRecord] = []
    try await session.forEachLiveTask { tasks.append($0) }
    return tasks.sorted { $0.id < $1.id }
  }

  /// Says whether something can run now, and when the first sleep ends that has not ended.
  package func wake() async throws -> Wake { try await scheduler.wake() }
}
