import PerdureEngine
import PerdureModel
import PerdureTestKit
import PerdureValue
import Testing

/// How tasks find their code, and what happens when it is missing, old, new or replaced.
@Suite(.timeLimit(.minutes(5))) struct TaskCodeTests {
  private static func ending(
    _ result: JSON,
    version: Int64 = 1,
    migrate: (@Sendable (TaskRecord) throws -> (input: JSON, checkpoint: JSON))? = nil
  ) -> TestTask {
    TestTask(
      "work",
      version: version,
      phases: [
        "start": { runtime, record in
          try await runtime.commit { _, record in
            .terminal(.completed(result: ["by": result, "input": record.input]))
          }
        }
      ],
      migrate: migrate
    )
  }

  private func installed(_ tasks: TestTask...) -> Extension {
    Extension(name: "late", tasks: tasks)
  }

  // MARK: Blocked

  @Test func `a task without code is blocked until its extension is installed`() async throws {
    let bench = TestBench()
    let engine = try await bench.open([])
    let id = try await engine.create(Self.ending(1))
    await engine.waitUntilQuiet()
    #expect(engine.scheduler.obstacles.map(\.reason) == ["missing_task"])
    #expect(try await engine.task(id)?.state.status == .pending)
    try engine.registry.install(installed(Self.ending(1)))
    #expect(try await engine.outcome(id) == .completed(result: ["by": 1, "input": [:]]))
    #expect(engine.scheduler.obstacles.isEmpty)
    try await bench.end(engine)
  }

  @Test func `a blocked task is live and keeps its conversation from idleness`() async throws {
    let bench = TestBench()
    let engine = try await bench.open([])
    _ = try await engine.create(Self.ending(1))
    await engine.waitUntilQuiet()
    let isIdle = Event()
    let waiting = Task {
      try await engine.waitForIdle(.root)
      isIdle.happen()
    }
    await engine.waitUntilQuiet()
    #expect(!isIdle.hasHappened)
    try engine.registry.install(installed(Self.ending(1)))
    try await waiting.value
    try await bench.end(engine)
  }

  @Test func `a task of a newer version is blocked until newer code is installed`() async throws {
    let bench = TestBench()
    let engine = try await bench.open([Self.ending(1)])
    let id = try await engine.create(Self.ending(2, version: 2))
    await engine.waitUntilQuiet()
    #expect(engine.scheduler.obstacles.map(\.reason) == ["task_too_old"])
    try engine.registry.install(Extension(name: "tasks", tasks: [Self.ending(2, version: 2)]))
    #expect(try await engine.outcome(id)?.result?["by"] == 2)
    try await bench.end(engine)
  }

  @Test func `a blocked task that is aborted is orphaned with the reason`() async throws {
    let bench = TestBench()
    let engine = try await bench.open([])
    let id = try await engine.create(Self.ending(1))
    #expect(try await engine.abortTask(id) == .marked)
    #expect(try await engine.outcome(id) == .orphaned(reason: "missing_task"))
    #expect(try await engine.abortTask(id) == .terminal)
    try await bench.end(engine)
  }

  @Test func `a blocked task is orphaned only once what it owns has ended`() async throws {
    let bench = TestBench()
    let owned = TestTask("owned") { _, _ in await Event().waitOrCancel() }
    let engine = try await bench.open([owned])
    let commits = Commits(engine.session)
    let id = try await engine.create(Self.ending(1))
    let child = try await engine.create(owned, owner: id)
    await commits.status(child, .running)
    _ = try await engine.abortTask(id)
    #expect(try await engine.outcome(id) == .orphaned(reason: "missing_task"))
    #expect(commits.ended == [child, id])
    try await bench.end(engine)
  }

  // MARK: Migration

  @Test func `an older task is migrated when it is set running`() async throws {
    let bench = TestBench()
    let engine = try await bench.open([])
    let id = try await engine.create(Self.ending(1), input: "old")
    let commits = Commits(engine.session)
    try engine.registry.install(
      installed(
        Self.ending(2, version: 2) { record in
          ([record.input, .int(record.version)], record.state.checkpoint ?? .null)
        }
      )
    )
    #expect(try await engine.outcome(id) == .completed(result: ["by": 2, "input": ["old", 1]]))
    let running = await commits.task(id) { $0.state.status == .running }
    #expect(running?.version == 2)
    try await bench.end(engine)
  }

  @Test func `a migration that fails is reported once and tried again with other code`()
    async throws
  {
    let bench = TestBench()
    let engine = try await bench.open([])
    let id = try await engine.create(Self.ending(1))
    let broken = installed(
      Self.ending(2, version: 2) { _ in throw PerdureError(.invalidInput, "no way") }
    )
    try engine.registry.install(broken)
    try engine.registry.install(broken)
    await engine.waitUntilQuiet()
    #expect(engine.scheduler.obstacles.map(\.reason) == ["migration_failed"])
    #expect(bench.reports.all.filter { $0.type == "migration_failed" }.count == 1)
    guard
      case .blocked("migration_failed", "no way")? = try await engine.inspect().tasks.first?
        .readiness
    else {
      Issue.record("it is not shown as blocked")
      return
    }
    try engine.registry.install(
      installed(Self.ending(3, version: 2) { ($0.input, $0.state.checkpoint ?? .null) })
    )
    #expect(try await engine.outcome(id)?.result?["by"] == 3)
    try await bench.end(engine)
  }

  @Test func `without a migration an older task is blocked`() async throws {
    let bench = TestBench()
    let engine = try await bench.open([Self.ending(2, version: 2)])
    let id = try await engine.create(Self.ending(1))
    await engine.waitUntilQuiet()
    #expect(engine.scheduler.obstacles.map(\.task.id) == [id])
    #expect(engine.scheduler.obstacles.map(\.reason) == ["migration_failed"])
    try await bench.end(engine)
  }

  // MARK: Replaced code

  /// Two phases; the first waits for `go`.
  private static func stepping(
    _ by: JSON,
    version: Int64 = 1,
    _ hasBegun: Event,
    _ go: Event,
    migrate: (@Sendable (TaskRecord) throws -> (input: JSON, checkpoint: JSON))? = nil
  ) -> TestTask {
    TestTask(
      "work",
      version: version,
      phases: [
        "start": { runtime, _ in
          hasBegun.happen()
          await go.waitOrCancel()
          try await runtime.commit { _, _ in .running(checkpoint: ["phase": "end"]) }
        },
        "end": { runtime, _ in
          try await runtime.commit { _, _ in .terminal(.completed(result: by)) }
        },
      ],
      migrate: migrate
    )
  }

  /// What code replaces the running one, and which then goes on.
  enum Replacement: String, CaseIterable {
    case same, newer, newerWithoutMigration, older, none

    var goesOn: JSON {
      switch self {
      case .same, .newer: "new"
      case .newerWithoutMigration, .older, .none: "old"
      }
    }
  }

  @Test(arguments: Replacement.allCases)
  func `replaced code hands over between two phases if the new one can take the task`(
    _ replacement: Replacement
  ) async throws {
    let bench = TestBench()
    let (hasBegun, go) = (Event(), Event())
    let engine = try await bench.open([])
    try engine.registry.install(installed(Self.stepping("old", version: 2, hasBegun, go)))
    let id = try await engine.create(Self.stepping("", version: 2, hasBegun, go))
    await hasBegun.wait()
    switch replacement {
    case .same:
      try engine.registry.install(installed(Self.stepping("new", version: 2, hasBegun, go)))
    case .newer:
      try engine.registry.install(
        installed(
          Self.stepping("new", version: 3, hasBegun, go) {
            ($0.input, $0.state.checkpoint ?? .null)
          }
        )
      )
    case .newerWithoutMigration:
      try engine.registry.install(installed(Self.stepping("new", version: 3, hasBegun, go)))
    case .older:
      try engine.registry.install(installed(Self.stepping("new", version: 1, hasBegun, go)))
    case .none: engine.registry.uninstall("late")
    }
    go.happen()
    #expect(try await engine.outcome(id)?.result == replacement.goesOn)
    let reports = bench.reports.all.filter { $0.type == "task_outdated" }
    #expect(reports.count == (replacement.goesOn == "new" ? 0 : 1))
    try await bench.end(engine)
  }

  @Test func `a phase keeps the extensions with which it began`() async throws {
    let bench = TestBench()
    let (hasBegun, go) = (Event(), Event())
    let seen = Log<[String]>()
    let looking = TestTask("look") { runtime, _ in
      hasBegun.happen()
      await go.wait()
      seen.add(try await runtime.agent().extensions)
      try await runtime.commit { _, _ in .terminal(.completed(result: .null)) }
    }
    let engine = try await bench.open([looking])
    let id = try await engine.create(looking)
    await hasBegun.wait()
    try engine.registry.install(Extension(name: "late"))
    go.happen()
    _ = try await engine.outcome(id)
    #expect(seen.all == [["test", "tasks"]])
    try await bench.end(engine)
  }

  // MARK: What may be installed

  @Test func `an installation that breaks a rule changes nothing`() async throws {
    let registry = Registry()
    let good = TestTask("work") { _, _ in }
    try registry.install(Extension(name: "a", tasks: [good]))
    let bad: [Extension] = [
      Extension(name: "b", tasks: [good]), Extension(name: "a", tasks: [good, good]),
      Extension(name: "b", tasks: [TestTask("pi.tool") { _, _ in }]),
      Extension(name: "b", tasks: [TestTask("perdure.x") { _, _ in }]),
      Extension(name: "b", tasks: [TestTask("") { _, _ in }]),
      Extension(name: "b", tasks: [TestTask("x", version: 0, phases: ["start": { _, _ in }])]),
      Extension(name: "b", tasks: [TestTask("x", phases: [:])]),
    ]
    for value in bad {
      let error = #expect(throws: PerdureError.self) { try registry.install(value) }
      #expect(error?.code == .invalidConfiguration)
    }
    #expect(registry.snapshot.map(\.name) == ["a"])
    #expect(registry.snapshot.first?.tasks.count == 1)
    // Its own tasks are no conflict for what replaces it.
    try registry.install(Extension(name: "a", tasks: [good]))
  }
}
