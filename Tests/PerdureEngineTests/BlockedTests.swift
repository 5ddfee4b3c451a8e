import PerdureEngine
import PerdureModel
import PerdureTestKit
import PerdureValue
import Testing

/// What keeps a task from running, and what becomes of it: one row per obstacle and remedy.
@Suite(.timeLimit(.minutes(5))) struct BlockedTests {
  /// What keeps the task from running.
  enum Obstacle: String, CaseIterable {
    case noCode, olderCode, noMigration, failingMigration, crashes

    var reason: String {
      switch self {
      case .noCode: "missing_task"
      case .olderCode: "task_too_old"
      case .noMigration, .failingMigration: "migration_failed"
      case .crashes: "restart_limit"
      }
    }

    /// The version of the task.
    var version: Int64 { self == .olderCode ? 2 : 1 }

    /// The code that is there when the store is opened.
    var code: [TestTask] {
      switch self {
      case .noCode: []
      case .olderCode, .crashes: [BlockedTests.work(1)]
      case .noMigration: [BlockedTests.work(2)]
      case .failingMigration:
        [BlockedTests.work(2) { _ in throw PerdureError(.invalidInput, "no way") }]
      }
    }

    /// Code that can take the task.
    var fitting: TestTask {
      BlockedTests.work(2) { ($0.input, $0.state.checkpoint ?? .null) }
    }
  }

  /// What is done about it.
  enum Remedy: String, CaseIterable {
    case code, abort, abortWithWork
  }

  struct Row: Sendable, CustomTestStringConvertible {
    var obstacle: Obstacle
    var remedy: Remedy
    var testDescription: String { "\(obstacle.rawValue): \(remedy.rawValue)" }
  }

  static let rows = Obstacle.allCases.flatMap { obstacle in
    Remedy.allCases.map { Row(obstacle: obstacle, remedy: $0) }
  }

  private static func work(
    _ version: Int64,
    migrate: (@Sendable (TaskRecord) throws -> (input: JSON, checkpoint: JSON))? = nil
  ) -> TestTask {
    TestTask(
      "work",
      version: version,
      phases: [
        "start": { runtime, _ in
          try await runtime.commit { _, _ in .terminal(.completed(result: "ran")) }
        }
      ],
      migrate: migrate
    )
  }

  private static let endless = TestTask("endless") { _, _ in await Event().waitOrCancel() }

  /// A store with a task, behind as many crashes as park it if these are the obstacle.
  private func store(_ obstacle: Obstacle) async throws -> (TestBench, TaskID) {
    let bench = TestBench()
    let first = try await bench.open([], resuming: false)
    let id = try await first.create(Self.work(obstacle.version))
    var record = try #require(first.session.liveTask(id))
    if obstacle == .crashes {
      record.restarts = Settings().restartLimit
      _ = try await first.session.store.stage([.task(record)])
    }
    try await first.session.barrier()
    let next = bench.afterDeath()
    try await first.close()
    return (next, id)
  }

  @Test(arguments: rows)
  func `a blocked task says why and goes on or ends as its obstacle asks`(
    _ row: Row
  ) async throws {
    let (bench, id) = try await store(row.obstacle)
    let engine = try await bench.open(row.obstacle.code + [Self.endless])
    let commits = Commits(engine.session)
    await engine.waitUntilQuiet()
    #expect(engine.scheduler.obstacles.map(\.reason) == [row.obstacle.reason])
    #expect(try await engine.status(id) == .pending)
    switch row.remedy {
    case .code:
      if row.obstacle == .crashes {
        try await engine.retryTask(id)
      } else {
        try engine.registry.install(Extension(name: "tasks", tasks: [row.obstacle.fitting]))
      }
      #expect(try await engine.outcome(id) == .completed(result: "ran"))
    case .abort, .abortWithWork:
      var owned: [TaskID] = []
      if row.remedy == .abortWithWork {
        owned = [try await engine.create(Self.endless, owner: id)]
        for task in owned { await commits.status(task, .running) }
      }
      #expect(try await engine.abortTask(id) == .marked)
      let expected: TaskOutcome =
        row.obstacle == .crashes ? .aborted() : .orphaned(reason: row.obstacle.reason)
      #expect(try await engine.outcome(id) == expected)
      #expect(commits.ended == owned + [id])
    }
    #expect(engine.scheduler.obstacles.isEmpty)
    try await bench.end(engine)
  }
}
