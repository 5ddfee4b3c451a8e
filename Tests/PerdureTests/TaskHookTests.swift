import Perdure
import PerdureModel
import PerdureTestKit
import PerdureValue
import Synchronization
import Testing

/// Points that a type of task has for hooks.
@Suite(.timeLimit(.minutes(5))) struct TaskHookTests {
  struct Position: TaskCheckpoint {
    var phase = "ask"
  }

  /// What a task heard from the hooks at its point.
  struct Heard: Codable, Sendable, Equatable {
    var replies: [String]
  }

  private struct Broken: Error, CustomStringConvertible {
    var description: String { "it broke" }
  }

  /// Asks the hooks at its point `publish`.
  private static let asking = TaskType<String, Position, Heard>(
    "app.asking",
    initial: { _ in Position() },
    phases: [
      Phase("ask") { run in
        let replies = try await run.callHooks("publish", ["page": .string(run.input)])
        let texts = replies.map { "\($0.extensionName): \(Self.text($0.answer))" }
        try await run.commit { _ in .completed(Heard(replies: texts)) }
      }
    ]
  )

  private static func text(_ answer: HookAnswer) -> String {
    switch answer {
    case .proceed: "proceed"
    case .value(let value): value.compactText
    case .deny(let reason): "deny \(reason)"
    }
  }

  private static func hook(
    role: Hook.Role = .observer,
    changes: Bool = true,
    deadline: Duration? = nil,
    _ answer: @escaping @Sendable (JSON) async throws -> HookAnswer
  ) -> Hook {
    Hook.task("app.asking", "publish", role: role, changes: changes, deadline: deadline) {
      arguments,
      _ in try await answer(arguments)
    }
  }

  /// Runs the task beside extensions with these hooks; returns what it heard and what was reported.
  private func run(
    _ hooks: [(String, [Hook])],
    clock: any HostClock = ManualClock()
  ) async throws -> (heard: [String], reports: [String]) {
    let reports = Mutex<[String]>([])
    let harness = try await Harness.open(
      .memory,
      models: ScriptedModel { _ in ScriptedModel.text("done") },
      extensions: [Extension(name: "app", tasks: [Self.asking])]
        + hooks.map { Extension(name: $0.0, hooks: $0.1) },
      clock: clock,
      onReport: { report in reports.withLock { $0.append(report.message) } }
    )
    let root = try await harness.root()
    let id = try await root.commit { try await $0.createTask(Self.asking, "p1") }
    let record = try await harness.waitForTask(id)
    try await harness.close()
    let heard = try Self.asking.result(of: record)
    return (heard?.replies ?? [], reports.withLock { $0 })
  }

  @Test func `hooks of a task come by their ranks and in the order of their extensions`()
    async throws
  {
    let result = try await run([
      (
        "a",
        [
          Self.hook(changes: false) { _ in .proceed },
          Self.hook(role: .guard, changes: false) { _ in .deny("no") },
        ]
      ),
      (
        "b",
        [
          Self.hook(role: .guard) { _ in .value(2) },
          Self.hook { $0["page"].map { .value($0) } ?? .proceed },
        ]
      ),
      ("c", [Self.hook { _ in .value(3) }]),
    ])
    #expect(result.heard == [#"b: "p1""#, "c: 3", "b: 2", "a: deny no", "a: proceed"])
    #expect(result.reports.isEmpty)
  }

  @Test func `hooks of another point or another task are not called`() async throws {
    let result = try await run([
      (
        "a",
        [
          Hook.task("app.asking", "other") { _, _ in .value(1) },
          Hook.task("app.others", "publish") { _, _ in .value(2) },
        ]
      )
    ])
    #expect(result.heard.isEmpty)
  }

  @Test func `a guard that fails denies and says why`() async throws {
    let result = try await run([("a", [Self.hook(role: .guard) { _ in throw Broken() }])])
    #expect(result.heard == ["a: deny guard a failed: it broke"])
    #expect(result.reports == ["the guard app.asking/publish of a failed: it broke"])
  }

  @Test func `an observer that fails is reported and left out`() async throws {
    let result = try await run([
      ("a", [Self.hook { _ in throw Broken() }]), ("b", [Self.hook { _ in .value(1) }]),
    ])
    #expect(result.heard == ["b: 1"])
    #expect(result.reports == ["the observer app.asking/publish of a failed: it broke"])
  }

  @Test func `an observer that denies or changes without the right is left out`() async throws {
    let result = try await run([
      ("a", [Self.hook { _ in .deny("no") }]),
      ("b", [Self.hook(changes: false) { _ in .value(1) }]),
    ])
    #expect(result.heard.isEmpty)
    #expect(result.reports.count == 2)
  }

  @Test func `a guard that hangs denies after its deadline and grace`() async throws {
    let clock = ManualClock()
    let (hanging, release) = AsyncStream.makeStream(of: Void.self)
    let guarding = Self.hook(role: .guard, deadline: .seconds(7)) { _ in
      // Not ended by its cancellation.
      await Task.detached { for await _ in hanging { return } }.value
      return .proceed
    }
    async let result = run([("a", [guarding])], clock: clock)
    await clock.waitForSleeper(ofExactly: .seconds(7))
    clock.advance(by: .seconds(7))
    await clock.waitForSleeper(ofExactly: .seconds(5))
    clock.advance(by: .seconds(5))
    let heard = try await result.heard
    release.yield()
    #expect(heard.first?.hasPrefix("a: deny guard a failed: it did not answer") == true)
  }
}
