import PerdureEngine
import PerdureModel
import PerdureStorage
import PerdureTestKit
import PerdureValue
import Synchronization
import Testing

@Suite(.timeLimit(.minutes(5))) struct RecoveryTests {
  /// A run and what it needs, so that it can be played again from any of its commits.
  struct Play: Sendable, CustomTestStringConvertible {
    var name: String
    var replay = ReplayPolicy.safe
    var isSequential = false
    var failures: Int64 = 0

    var testDescription: String { "\(name), \(replay.rawValue)" }

    var isRound: Bool { name.contains("round") }

    func bench(_ memory: MemoryStorage = MemoryStorage()) -> TestBench {
      var bench = TestBench()
      bench.memory = memory
      bench.settings.partialIntervalMs = 0
      bench.settings.retry.baseDelayMs = 0
      bench.settings.runsToolsSequentially = isSequential
      return bench
    }

    var model: ScriptedModel {
      ScriptedModel { request in
        if request.attempt <= failures {
          return ScriptedModel.failure(ProviderFailure(.retry, "busy"))
        }
        guard isRound, ScriptedModel.turn(of: request) == 0 else {
          return ScriptedModel.text("the ", "answer")
        }
        return ScriptedModel.calls(
          ("a", "note", ["text": "one"]),
          ("b", "note", ["text": "two"])
        )
      }
    }

    func tool(_ effects: Log<String>) -> Tool {
      plainTool("note", replay: replay) { call in
        let text = call.arguments["text"]?.text ?? ""
        effects.add(text)
        try call.host.output(JSONString("noted \(text)"), skipped: nil)
        try await call.host.flushOutput()
        return .text("noted \(text)")
      }
    }

    /// Plays to the end and returns the context without ids and times.
    func finish(_ bench: TestBench, _ effects: Log<String>) async throws -> [JSON] {
      let engine = try await bench.open(model, tools: [tool(effects)])
      _ = try await bench.start(engine)
      let id = try await engine.submit("go", to: .root, requestId: "r")
      #expect(try await engine.wait(for: id).status == .done)
      await engine.waitUntilQuiet()
      #expect(engine.session.liveTasks.isEmpty)
      let entries = try await TestBench.entries(engine)
      try await engine.close()
      return ContextView(of: entries).messages.map { message in
        var object = message.object ?? [:]
        object["timestamp"] = nil
        object["durationMs"] = nil
        return .object(object)
      }
    }
  }

  static let plays: [Play] = [
    Play(name: "answer"), Play(name: "retries", failures: 2), Play(name: "parallel round"),
    Play(name: "parallel round", replay: .unsafe),
    Play(name: "sequential round", isSequential: true),
    Play(name: "sequential round", replay: .unsafe, isSequential: true),
  ]

  @Test(arguments: plays)
  func `a run goes on from each of its commits`(_ play: Play) async throws {
    var first = play.bench()
    let storage = CopyingStorage(first.memory)
    first.front = { _ in storage }
    let expected = try await play.finish(first, Log())
    #expect(storage.all.count > 5)
    for (number, copy) in storage.all.enumerated() {
      let bench = play.bench(MemoryStorage(continuing: copy))
      let interrupted = try await interruptedCalls(copy)
      let effects = Log<String>()
      let context = try await play.finish(bench, effects)
      try await bench.checkInvariants()
      if play.replay == .safe || interrupted.isEmpty {
        #expect(context == expected, "commit \(number)")
      } else {
        // A call that may have had its effect is not made again.
        #expect(effects.all.allSatisfy { !interrupted.contains($0) }, "commit \(number)")
        let texts = context.map(\.contentText).filter { $0.contains("interrupted") }
        #expect(texts.count == interrupted.count, "commit \(number)")
      }
    }
  }

  /// The arguments of the calls that a crash at this commit cuts off.
  private func interruptedCalls(_ store: MemoryStorage) async throws -> [String] {
    try await store.scanTasks(TaskQuery(kind: "pi.tool"), PageRequest(limit: 9)).items
      .compactMap { task in
        guard case .running(let checkpoint) = task.state, checkpoint["phase"] == "execute" else {
          return nil
        }
        return checkpoint["arguments"]?["text"]?.text
      }
  }

  // MARK: Replay

  /// A store that died while a tool ran, made by `stored`.
  private func died(_ stored: ReplayPolicy) async throws -> TestBench {
    let bench = TestBench()
    let (hasStarted, mayEnd) = (Event(), Event())
    let tool = plainTool("works", replay: stored) { call in
      try call.host.output("begun", skipped: nil)
      try call.host.details(["done": 1])
      try call.host.diagnostic(ToolDiagnostic(.info, "note"))
      try await call.host.flushOutput()
      hasStarted.happen()
      await mayEnd.wait()
      return .text("lost")
    }
    let engine = try await bench.open(calling(("a", "works", ["x": 1])), tools: [tool])
    _ = try await bench.start(engine)
    _ = try await engine.submit("hi", to: .root, requestId: "r")
    await hasStarted.wait()
    let next = bench.afterDeath()
    mayEnd.happen()
    try await engine.close()
    return next
  }

  static let replays: [(stored: ReplayPolicy, now: ReplayPolicy?, reruns: Bool)] = [
    (.safe, .safe, true), (.safe, .unsafe, false), (.unsafe, .safe, false),
    (.unsafe, .unsafe, false), (.safe, nil, false), (.unsafe, nil, false),
  ]

  @Test(arguments: 0..<replays.count)
  func `a call is made again only if that was and is safe`(_ index: Int) async throws {
    let (stored, now, reruns) = Self.replays[index]
    let bench = try await died(stored)
    let calls = Log<ToolCall>()
    let tools = now.map { replay in
      [
        plainTool("works", replay: replay) { call in
          calls.add(call)
          return .text("again")
        }
      ]
    }
    let engine = try await bench.open(calling(("a", "works", ["x": 1])), tools: tools ?? [])
    let id = try await engine.submit("hi", to: .root, requestId: "r")
    #expect(try await engine.wait(for: id).status == .done)
    #expect(calls.all.map(\.recovered) == (reruns ? [true] : []))
    #expect(calls.all.map(\.arguments) == (reruns ? [["x": 1]] : []))
    let entry = try await TestBench.entries(engine).first { $0.kind == "pi.tool-result" }
    let message = try #require(entry?.model?.first)
    let task = try await TestBench.tasks(engine).first { $0.kind == "pi.tool" }
    if reruns {
      #expect(message.contentText == "again")
      #expect(message["details"] == nil)
    } else {
      // What it had shown is kept.
      #expect(message.contentText.hasPrefix("begun|<harness>\n[info] note\n[error]"))
      #expect(message["details"] == ["done": 1])
      #expect(entry?.data?["diagnostics"]?.array?.last?["code"] == "interrupted")
      guard case .failed? = task?.state.outcome else {
        Issue.record("\(String(describing: task))")
        return
      }
    }
    try await bench.end(engine)
  }

  // MARK: Stores of others

  /// The store with its task of this kind changed.
  private func patched(
    _ bench: TestBench,
    _ kind: JSONString,
    _ change: (inout TaskRecord) -> Void
  ) async throws -> TestBench {
    let session = try await Session.open(bench.memory, clock: bench.clock)
    var task = try #require(session.liveTasks.values.first { $0.kind == kind })
    change(&task)
    _ = try await session.store.stage([.task(task)])
    try await session.close()
    return bench.afterDeath()
  }

  @Test func `a call of an older version is migrated and goes on`() async throws {
    let bench = try await patched(try await died(.safe), "pi.tool") { task in
      task.version = 1
      task.input = ["assistant": task.input["assistant"] ?? .null, "callId": "a"]
    }
    let engine = try await bench.open(
      calling(("a", "works", [:])),
      tools: [plainTool("works", replay: .safe) { _ in .text("again") }]
    )
    let id = try await engine.submit("hi", to: .root, requestId: "r")
    #expect(try await engine.wait(for: id).status == .done)
    let task = try await TestBench.tasks(engine).first { $0.kind == "pi.tool" }
    #expect(task?.version == 2)
    #expect(task?.input["kind"] == "model")
    try await bench.end(engine)
  }

  @Test func `a task of a newer version is left as it is`() async throws {
    let bench = try await patched(try await died(.safe), "pi.tool") { $0.version = 3 }
    let engine = try await bench.open(calling(("a", "works", [:])))
    try await engine.resume()
    await engine.waitUntilQuiet()
    #expect(engine.scheduler.obstacles.map(\.reason) == ["task_too_old"])
    try await bench.end(engine)
  }

  @Test func `a task of a newer version is orphaned by an abort`() async throws {
    let bench = try await patched(try await died(.safe), "pi.tool") { $0.version = 3 }
    let engine = try await bench.open(calling(("a", "works", [:])))
    let id = try await engine.submit("hi", to: .root, requestId: "r")
    try await engine.abort(.root)
    #expect(try await engine.wait(for: id).reason == "aborted")
    let task = try await TestBench.tasks(engine).first { $0.kind == "pi.tool" }
    #expect(task?.state.outcome == .orphaned(reason: "task_too_old"))
    try await bench.end(engine)
  }

  @Test func `a generation that is orphaned settles its inputs with the reason`() async throws {
    let bench = TestBench()
    let model = LiveModel()
    let first = try await bench.open(model)
    _ = try await bench.start(first)
    let id = try await first.submit("hi", to: .root)
    _ = await model.request(1)
    let death = bench.afterDeath()
    try await first.close()
    let next = try await patched(death, "pi.generation") { $0.version = 2 }
    let engine = try await next.open(model)
    try await engine.abort(.root)
    #expect(try await engine.wait(for: id).reason == "task_too_old")
    try await next.end(engine)
  }

  @Test func `a blocked task that is due does not keep the host busy`() async throws {
    let bench = try await patched(try await died(.safe), "pi.tool") { task in
      task.version = 3
      task.state = .sleeping(checkpoint: ["phase": "call"], until: 0)
    }
    let engine = try await bench.open(calling(("a", "works", [:])))
    try await engine.resume()
    await engine.waitUntilQuiet()
    #expect(engine.scheduler.obstacles.map(\.reason) == ["task_too_old"])
    try await bench.end(engine)
  }

  static let broken: [JSON] = [
    ["phase": "nowhere"], [:], .null, ["phase": 7], ["phase": "request", "attempt": 1],
    ["phase": "tools"],
  ]

  @Test(arguments: 0..<broken.count)
  func `a checkpoint that makes no sense faults the run`(_ index: Int) async throws {
    let bench = TestBench()
    let model = LiveModel()
    let first = try await bench.open(model)
    _ = try await bench.start(first)
    let id = try await first.submit("hi", to: .root)
    _ = await model.request(1)
    let death = bench.afterDeath()
    try await first.close()
    let next = try await patched(death, "pi.generation") { task in
      task.state = .pending(checkpoint: Self.broken[index])
    }
    let engine = try await next.open(model)
    let record = try await engine.wait(for: id)
    let isModel = index == 4
    #expect(record.reason == (isModel ? "no_model" : "faulted"))
    if !isModel {
      #expect(next.reports.all.map(\.type) == ["task_faulted"])
      #expect(try await engine.failure(of: id)?["kind"] == "faulted")
    }
    try await next.end(engine)
  }

  @Test func `hostile numbers of a store do not trap`() async throws {
    let bench = TestBench()
    let engine = try await bench.open(
      ScriptedModel { _ in ScriptedModel.failure(ProviderFailure(.retry, "busy")) }
    )
    let commits = Commits(engine.session)
    _ = try await bench.start(engine)
    let id = try await engine.submit("hi", to: .root)
    await commits.task("pi.generation") { $0.state.status == .sleeping }
    try await engine.close()
    let states: [TaskState] = [
      .sleeping(
        checkpoint: ["phase": "retry", "attempt": .int(.max), "until": .int(.min)],
        until: .min
      ),
      .sleeping(checkpoint: ["phase": "retry", "attempt": .int(.min), "until": 0], until: 0),
      .running(checkpoint: ["phase": "retry", "attempt": .int(.max)]),
    ]
    for (number, state) in states.enumerated() {
      let next = try await patched(bench.afterDeath(), "pi.generation") { task in
        task.state = state
        task.restarts = number == 2 ? .max : .min
      }
      let model = ScriptedModel { _ in ScriptedModel.text("hello") }
      let again = try await next.open(model)
      try await again.resume()
      if number == 2 {
        await again.waitUntilQuiet()
        #expect(again.scheduler.obstacles.map(\.reason) == ["restart_limit"])
      } else {
        #expect(try await again.wait(for: id).status == .done)
      }
      try await next.end(again)
    }
  }

  @Test func `a held outcome is made final`() async throws {
    let held = TaskOutcome.completed(result: ["kind": "model", "entryId": 2])
    let bench = try await patched(try await died(.safe), "pi.tool") { $0.state = .completing(held) }
    let engine = try await bench.open(calling(("a", "works", [:])))
    let id = try await engine.submit("hi", to: .root, requestId: "r")
    #expect(try await engine.wait(for: id).status == .done)
    let task = try await TestBench.tasks(engine).first { $0.kind == "pi.tool" }
    #expect(task?.state == .terminal(held))
    try await bench.end(engine)
  }

  @Test func `a sleep goes on where it was`() async throws {
    let bench = TestBench()
    let engine = try await bench.open(
      ScriptedModel { _ in ScriptedModel.failure(ProviderFailure(.retry, "busy")) }
    )
    let commits = Commits(engine.session)
    _ = try await bench.start(engine)
    let id = try await engine.submit("hi", to: .root)
    await commits.task("pi.generation") { $0.state.status == .sleeping }
    try await engine.session.barrier()
    let next = bench.afterDeath()
    try await engine.close()
    bench.clock.advance(by: .milliseconds(1_500))
    let model = ScriptedModel { _ in ScriptedModel.text("hello") }
    let again = try await next.open(model)
    try await again.resume()
    await next.clock.waitForSleeper(ofExactly: .milliseconds(500))
    #expect(model.seen.isEmpty)
    next.clock.advance(by: .milliseconds(500))
    #expect(try await again.wait(for: id).status == .done)
    #expect(model.seen.map(\.attempt) == [2])
    try await next.end(again)
  }

  @Test func `nothing runs before somebody asks for progress`() async throws {
    let bench = try await died(.safe)
    let calls = Log<ToolCall>()
    let tool = plainTool("works", replay: .safe) { call in
      calls.add(call)
      return .text("again")
    }
    let engine = try await bench.open(calling(("a", "works", [:])), tools: [tool])
    await engine.waitUntilQuiet()
    #expect(calls.all.isEmpty)
    try await bench.end(engine)
  }

  @Test func `an earlier sleeper is woken before a later one`() async throws {
    let bench = TestBench()
    let waits: [Int64] = [40_000, 3_000]
    let model = ScriptedModel { request in
      let text = request.messages.last { $0["role"] == "user" }?["content"]?.text ?? "0"
      guard request.attempt == 1 else { return ScriptedModel.text("hello") }
      let wait = waits[Int(text) ?? 0]
      return ScriptedModel.failure(ProviderFailure(.retry, "busy", retryAfterMs: wait))
    }
    let engine = try await bench.open(model)
    let commits = Commits(engine.session)
    var ids: [SubmissionID] = []
    for number in 0..<2 {
      let id = number == 0 ? try await engine.root() : try await engine.createConversation()
      try await engine.configure(id, ["model": ScriptedModel.reference.json])
      ids.append(try await engine.submit(.string("\(number)"), to: id))
      await commits.task("pi.generation") { record in
        record.conversationId == id && record.state.status == .sleeping
      }
    }
    await bench.clock.waitForSleeper(ofExactly: .seconds(3))
    bench.clock.advance(by: .seconds(3))
    #expect(try await engine.wait(for: ids[1]).status == .done)
    #expect(try await engine.submission(ids[0])?.status == .placed)
    await bench.clock.waitForSleeper(ofExactly: .seconds(37))
    bench.clock.advance(by: .seconds(37))
    #expect(try await engine.wait(for: ids[0]).status == .done)
    try await bench.end(engine)
  }
}
