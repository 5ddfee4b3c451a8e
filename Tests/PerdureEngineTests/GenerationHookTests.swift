import PerdureEngine
import PerdureModel
import PerdureStorage
import PerdureTestKit
import PerdureValue
import Synchronization
import Testing

@Suite struct GenerationHookTests {
  private func open(
    _ bench: TestBench,
    _ model: any ModelProvider,
    _ hooks: [Hook],
    tools: [Tool] = [echo]
  ) async throws -> Engine {
    let engine = try await bench.open(
      model,
      tools: tools,
      extensions: [Extension(name: "ext", hooks: hooks)]
    )
    _ = try await bench.start(engine)
    return engine
  }

  private func text(of submission: SubmissionRecord) -> (reason: String, detail: String)? {
    guard case .unanswered(let reason, let detail, _) = submission.state else { return nil }
    return (reason, detail?.text ?? "")
  }

  // MARK: beforeRequest

  @Test func `messages are changed for one request and not in the transcript`() async throws {
    let bench = TestBench()
    let model = ScriptedModel { _ in ScriptedModel.text("hello") }
    func adding(_ letter: String) -> Hook {
      .beforeRequest { request, _ in
        .change(messages: request.messages + [["role": "user", "content": .string(letter)]])
      }
    }
    let engine = try await open(bench, model, [adding("a"), adding("b")])
    _ = try await bench.ask(engine)
    let sent = model.seen.first?.messages.suffix(2).map { $0["content"] }
    #expect(sent == ["a", "b"])
    #expect(try await TestBench.entries(engine).filter { $0.kind == "pi.user" }.count == 1)
    try await bench.end(engine)
  }

  @Test func `a changed request still has exactly one result for each call`() async throws {
    let bench = TestBench()
    let model = calling((id: "c1", name: "echo", arguments: HookTests.sayHi))
    let hook = Hook.beforeRequest { request, _ in
      .change(messages: request.messages.filter { $0["role"] != "toolResult" })
    }
    let engine = try await open(bench, model, [hook])
    _ = try await bench.ask(engine)
    let results = model.seen.last?.messages.filter { $0["role"] == "toolResult" }
    #expect(results?.compactMap { $0["toolCallId"] } == ["c1"])
    try await bench.end(engine)
  }

  @Test func `a refused request is not sent and ends the run`() async throws {
    let bench = TestBench()
    let model = ScriptedModel { _ in ScriptedModel.text("hello") }
    let hook = Hook.beforeRequest(role: .guard) { _, _ in .refuse("too dear") }
    let engine = try await open(bench, model, [hook])
    let submission = try await bench.ask(engine)
    #expect(text(of: submission)?.reason == "refused")
    #expect(text(of: submission)?.detail == "too dear")
    #expect(model.seen.isEmpty)
    let task = try await TestBench.tasks(engine).first
    guard case .failed(_, let detail, _)? = task?.state.outcome else {
      throw PerdureError(.invalidInput, "the generation did not fail")
    }
    #expect(detail == ["reason": "refused"])
    try await bench.end(engine)
  }

  @Test func `a queued input goes its way after a refusal as the settings say`() async throws {
    var bench = TestBench()
    bench.settings.afterFailedRun = .continue
    let model = ScriptedModel { _ in ScriptedModel.text("hello") }
    let (started, go) = (Event(), Event())
    let count = Mutex(0)
    let hook = Hook.beforeRequest(role: .guard) { _, _ in
      let number = count.withLock { count in
        count += 1
        return count
      }
      guard number == 1 else { return .proceed }
      started.happen()
      await go.wait()
      return .refuse("not now")
    }
    let engine = try await open(bench, model, [hook])
    let first = try await engine.submit("one", to: .root)
    await started.wait()
    let second = try await engine.submit("two", to: .root)
    go.happen()
    #expect(try await engine.wait(for: first).status == .unanswered)
    #expect(try await engine.wait(for: second).status == .done)
    try await bench.end(engine)
  }

  static let wrong: [(name: String, RequestDecision)] = [
    ("no messages", .change(messages: [])), ("no objects", .change(messages: ["hi"])),
    ("no role", .change(messages: [["content": "hi"]])),
    ("an unknown role", .change(messages: [["role": "boss"]])),
  ]

  @Test(arguments: 0..<wrong.count)
  func `a guard that answers nonsense refuses the request`(_ index: Int) async throws {
    let bench = TestBench()
    let hook = Hook.beforeRequest(role: .guard) { _, _ in Self.wrong[index].1 }
    let engine = try await open(bench, ScriptedModel { _ in ScriptedModel.text("hello") }, [hook])
    let submission = try await bench.ask(engine)
    #expect(text(of: submission)?.reason == "refused")
    #expect(text(of: submission)?.detail.hasPrefix("guard ext failed: ") == true)
    try await bench.end(engine)
  }

  @Test(arguments: 0..<wrong.count)
  func `an observer that answers nonsense changes no request`(_ index: Int) async throws {
    let bench = TestBench()
    let hook = Hook.beforeRequest { _, _ in Self.wrong[index].1 }
    let engine = try await open(bench, ScriptedModel { _ in ScriptedModel.text("hello") }, [hook])
    #expect(try await bench.ask(engine).status == .done)
    #expect(bench.reports.all.map(\.extensionName) == ["ext"])
    try await bench.end(engine)
  }

  @Test func `an observer cannot refuse`() async throws {
    let bench = TestBench()
    let hook = Hook.beforeRequest { _, _ in .refuse("I would rather not") }
    let engine = try await open(bench, ScriptedModel { _ in ScriptedModel.text("hello") }, [hook])
    #expect(try await bench.ask(engine).status == .done)
    #expect(bench.reports.all.first?.message.contains("no guard") == true)
    try await bench.end(engine)
  }

  // MARK: afterResponse, afterTools

  @Test func `every answer is told before anything follows, failed ones too`() async throws {
    var bench = TestBench()
    bench.settings.retry.isEnabled = false
    let told = Log<String>()
    let model = ScriptedModel { request in
      ScriptedModel.turn(of: request) == 0
        ? ScriptedModel.calls((id: "c", name: "echo", arguments: HookTests.sayHi))
        : ScriptedModel.failure(ProviderFailure(.stop, "broken"))
    }
    let hook = Hook.afterResponse { message, context in
      let entries = try await context.messages().count
      told.add("\(message["stopReason"]?.text ?? "") after \(entries)")
    }
    let engine = try await open(bench, model, [hook])
    _ = try await bench.ask(engine)
    #expect(told.all.map { $0.prefix(5) } == ["toolU", "error"])
    try await bench.end(engine)
  }

  @Test func `a finished round is told with its results in the order of the calls`() async throws {
    let bench = TestBench()
    let told = Log<[EntryID]>()
    let assistant = Log<EntryID>()
    let first = Event()
    let slow = plainTool("slow") { _ in
      await first.wait()
      return .text("slow")
    }
    let fast = plainTool("fast") { _ in
      first.happen()
      return .text("fast")
    }
    let hook = Hook.afterTools { entry, results, _ in
      assistant.add(entry)
      told.add(results)
    }
    let model = calling(
      (id: "1", name: "slow", arguments: [:]),
      (id: "2", name: "fast", arguments: [:]),
      (id: "3", name: "ghost", arguments: [:])
    )
    let engine = try await open(bench, model, [hook], tools: [slow, fast])
    _ = try await bench.ask(engine)
    let entries = try await TestBench.entries(engine)
    let names = told.all.first?.map { id in
      entries.first { $0.id == id }?.model?.first?["toolName"]?.text
    }
    #expect(names == ["slow", "fast", "ghost"])
    #expect(assistant.all == entries.filter { $0.kind == "pi.assistant" }.prefix(1).map(\.id))
    try await bench.end(engine)
  }

  // MARK: onYield

  @Test func `the first continuation lets the run go on`() async throws {
    let bench = TestBench()
    let count = Mutex(0)
    let hooks = [
      Hook.onYield { _, _ in
        count.withLock { count in
          count += 1
          return count == 1 ? "go on" : nil
        }
      },
      Hook.onYield { _, _ in nil },
    ]
    let model = ScriptedModel { request in
      ScriptedModel.text("answer \(request.messages.filter { $0["role"] == "user" }.count)")
    }
    let engine = try await open(bench, model, hooks)
    let submission = try await bench.ask(engine)
    let users = try await TestBench.entries(engine).filter { $0.kind == "pi.user" }
    #expect(users.map { $0.model?.first?["content"] } == ["hi", "go on"])
    guard case .done(_, let answer?) = submission.state else {
      throw PerdureError(.invalidInput, "the submission has no answer")
    }
    #expect(try await TestBench.entries(engine).last?.id == answer)
    try await bench.end(engine)
  }

  static let nonsense: [JSON] = [5, [], ["a"], [["type": "text"]], [["type": "sound"]], [:]]

  @Test(arguments: nonsense)
  func `a continuation that is no user content is passed over`(_ content: JSON) async throws {
    let bench = TestBench()
    let hook = Hook.onYield { _, _ in content }
    let engine = try await open(bench, ScriptedModel { _ in ScriptedModel.text("hello") }, [hook])
    #expect(try await bench.ask(engine).status == .done)
    #expect(bench.reports.all.count == 1)
    try await bench.end(engine)
  }

  // MARK: What hooks may use

  @Test func `the first memo wins over restarts`() async throws {
    let bench = TestBench()
    let kept = Log<JSON>()
    let number = Mutex(0)
    let hook = Hook.beforeRequest { _, context in
      let candidate = number.withLock { number in
        number += 1
        return number
      }
      kept.add(try await context.memo("ext.number", .int(candidate)))
      return .proceed
    }
    let stuck = LiveModel()
    let engine = try await open(bench, stuck, [hook])
    let id = try await engine.submit("hi", to: .root)
    _ = await stuck.request(1)
    let next = bench.afterDeath()
    let reopened = try await next.open(
      ScriptedModel { _ in ScriptedModel.text("hello") },
      tools: [echo],
      extensions: [Extension(name: "ext", hooks: [hook])]
    )
    #expect(try await reopened.wait(for: id).status == .done)
    #expect(kept.all == [1, 1])
    try await next.end(reopened)
    try? await engine.close()
  }

  @Test func `a hook sees what was decided before it was called, on disk`() async throws {
    let bench = TestBench()
    let seen = Log<JSON?>()
    let memory = bench.memory
    let hook = Hook.beforeTool { call, context in
      let task = try await context.task(context.taskId)
      seen.add(task?.kind == "pi.tool" ? .string(call.name) : nil)
      // What lies in the store itself.
      let stored = try await MemoryStorageReader.task(context.taskId, in: memory)
      seen.add(stored.map { .string($0.kind) })
      seen.add(try await context.document("pi.live")?["tools"]?.array?.first?["name"])
      return .proceed
    }
    let model = calling((id: "c1", name: "echo", arguments: HookTests.sayHi))
    let engine = try await open(bench, model, [hook])
    _ = try await bench.ask(engine)
    #expect(seen.all == ["echo", "pi.tool", "echo"])
    try await bench.end(engine)
  }

  @Test func `nothing answers a hook whose call is over`() async throws {
    let bench = TestBench()
    let context = Log<any HookContext>()
    let hook = Hook.afterResponse { _, given in context.add(given) }
    let engine = try await open(bench, ScriptedModel { _ in ScriptedModel.text("hello") }, [hook])
    _ = try await bench.ask(engine)
    let late = try #require(context.all.first)
    #expect(late.isCancelled)
    let error = await #expect(throws: PerdureError.self) { try await late.messages() }
    #expect(error?.code == .invocationEnded)
    await #expect(throws: PerdureError.self) { try await late.memo("a", 1) }
    #expect(throws: PerdureError.self) { try late.settings() }
    try await bench.end(engine)
  }

  @Test func `a hook may commit, because no line is held for it`() async throws {
    let bench = TestBench()
    let engines = Log<Engine>()
    let hook = Hook.afterResponse { _, _ in
      try await engines.all.first?.configure(.root, ["thinkingLevel": "low"])
    }
    let engine = try await open(bench, ScriptedModel { _ in ScriptedModel.text("hello") }, [hook])
    engines.add(engine)
    #expect(try await bench.ask(engine).status == .done)
    #expect(bench.reports.all.isEmpty)
    #expect(try await engine.session.snapshot(.agent, .root)["thinkingLevel"] == "low")
    try await bench.end(engine)
  }

  @Test func `a phase keeps its hooks when their extension is uninstalled`() async throws {
    let bench = TestBench()
    let registry = Registry()
    let log = Log<String>()
    try registry.install(
      Extension(
        name: "ext",
        tools: [
          plainTool("echo") { _ in
            registry.uninstall("ext")
            return .text("hi")
          }
        ],
        hooks: [
          .afterTool { _, _, _ in
            log.add("after")
            return .change(.text("seen"))
          },
          .afterTools { _, _, _ in log.add("round") },
        ]
      )
    )
    let engine = try await Engine.open(
      bench.memory,
      Engine.Options(
        models: calling((id: "c1", name: "echo", arguments: [:])),
        registry: registry,
        settings: { Settings() },
        clock: bench.clock,
        report: { bench.reports.add($0) }
      )
    )
    _ = try await bench.start(engine)
    #expect(try await bench.ask(engine).status == .done)
    #expect(try await TestBench.results(engine).first?.contentText == "seen")
    // The next phase has none any more.
    #expect(log.all == ["after"])
    try await bench.end(engine)
  }

  @Test func `a hook of a task type has a point of that name`() async throws {
    let hook = Hook.task("my.kind", "beforeSend", role: .guard) { _, _ in .proceed }
    #expect(hook.point == .named(task: "my.kind", name: "beforeSend"))
    #expect(hook.role == .guard)
    #expect(hook.deadline == .seconds(10))
  }
}

/// Reads what a memory store holds as another process would find it.
enum MemoryStorageReader {
  static func task(_ id: TaskID, in memory: MemoryStorage) async throws -> TaskRecord? {
    try await MemoryStorage(continuing: memory).task(id)
  }
}
