import PerdureEngine
import PerdureModel
import PerdureTestKit
import PerdureValue
import Synchronization
import Testing

struct HookFault: Error, CustomStringConvertible {
  var description: String { "the hook broke" }
}

/// A hook that is called in the order of its rank, whatever its point.
private func noting(
  _ name: String,
  _ role: Hook.Role,
  changes: Bool,
  in log: Log<String>
) -> Hook {
  .beforeTool(role: role, changes: changes) { _, _ in
    log.add(name)
    return .proceed
  }
}

@Suite struct HookTests {
  static let sayHi: JSON = ["text": "hi"]

  /// Runs one call of `echo` with hooks and returns the engine when all is quiet.
  private func callEcho(
    _ hooks: [Hook],
    bench: TestBench = TestBench(),
    tools: [Tool] = [echo],
    arguments: JSON = sayHi
  ) async throws -> (engine: Engine, model: ScriptedModel, submission: SubmissionRecord) {
    let model = calling((id: "c1", name: tools[0].name, arguments: arguments))
    let engine = try await bench.open(
      model,
      tools: tools,
      extensions: [Extension(name: "ext", hooks: hooks)]
    )
    _ = try await bench.start(engine)
    let submission = try await bench.ask(engine)
    await engine.waitUntilQuiet()
    return (engine, model, submission)
  }

  // MARK: Order

  @Test func `deciders see what will run and watchers see what did`() async throws {
    let log = Log<String>()
    let hooks = [
      noting("watch", .observer, changes: false, in: log),
      noting("decide", .guard, changes: false, in: log),
      noting("decide and change", .guard, changes: true, in: log),
      noting("change", .observer, changes: true, in: log),
      noting("change too", .observer, changes: true, in: log),
    ]
    let bench = TestBench()
    let (engine, _, _) = try await callEcho(hooks, bench: bench)
    #expect(log.all == ["change", "change too", "decide and change", "decide", "watch"])
    try await bench.end(engine)
  }

  @Test func `within a rank hooks are called in the order of their extensions`() async throws {
    let bench = TestBench()
    let log = Log<String>()
    let engine = try await bench.open(
      calling((id: "c1", name: "echo", arguments: Self.sayHi)),
      tools: [echo],
      extensions: ["a", "b", "c"].map { name in
        Extension(name: name, hooks: [noting(name, .guard, changes: false, in: log)])
      }
    )
    _ = try await bench.start(engine)
    try await engine.configure(.root, ["extensions": ["c", "test", "a"]])
    _ = try await bench.ask(engine)
    #expect(log.all == ["c", "a"])
    try await bench.end(engine)
  }

  static let patterns: [(tools: [String]?, isCalled: Bool)] = [
    (nil, true), (["echo"], true), (["ec*"], true), (["*"], true), (["echo2"], false),
    (["ech"], false), ([], false), (["x", "echo"], true), (["Echo"], false),
  ]

  @Test(arguments: 0..<patterns.count)
  func `a hook for certain tools is called for those alone`(_ index: Int) async throws {
    let (tools, isCalled) = Self.patterns[index]
    let log = Log<String>()
    let hook = Hook.beforeTool(tools: tools) { call, _ in
      log.add(call.name.string)
      return .proceed
    }
    let (engine, _, _) = try await callEcho([hook])
    #expect(log.all == (isCalled ? ["echo"] : []))
    try await engine.close()
  }

  // MARK: beforeTool

  @Test func `each sees the arguments as those before it left them`() async throws {
    let seen = Log<String>()
    func adding(_ letter: String) -> Hook {
      .beforeTool { call, _ in
        seen.add(call.arguments["text"]?.text ?? "")
        return .change(arguments: ["text": .string((call.arguments["text"]?.text ?? "") + letter)])
      }
    }
    let (engine, _, _) = try await callEcho([adding("1"), adding("2")])
    #expect(seen.all == ["hi", "hi1"])
    #expect(try await TestBench.results(engine).first?.contentText == "hi12")
    try await engine.close()
  }

  @Test func `changed arguments are checked again`() async throws {
    let hook = Hook.beforeTool { _, _ in .change(arguments: ["text": ["no", "text"]]) }
    let (engine, _, _) = try await callEcho([hook])
    let result = try await TestBench.results(engine).first
    #expect(result?["isError"] == true)
    #expect(result?.contentText.contains("the arguments are invalid") == true)
    try await engine.close()
  }

  @Test func `changed arguments are repaired like those of models`() async throws {
    let hook = Hook.beforeTool { _, _ in .change(arguments: ["text": 5]) }
    let (engine, _, _) = try await callEcho([hook])
    #expect(try await TestBench.results(engine).first?.contentText == "5")
    try await engine.close()
  }

  static let question = ApprovalQuestion(key: "k", title: "delete it?")

  /// What hooks say in their order, and the words of the result.
  static let lattice: [(said: [CallDecision], words: String)] = [
    ([.proceed], "hi"),
    ([.proceed, .deny("never")], "[error] the call was blocked: never"),
    ([.ask(question), .deny("never")], "[error] the call was blocked: never"),
    ([.deny("first"), .deny("second")], "[error] the call was blocked: first"),
    ([.ask(question), .proceed], "nobody can be asked here: delete it?"),
    ([.ask(question), .ask(.init(key: "l", title: "sure?"))], "delete it?; sure?"),
    ([.change(arguments: ["text": "x"]), .deny("no")], "[error] the call was blocked: no"),
  ]

  @Test(arguments: 0..<lattice.count)
  func `a denial weighs more than a question and a question more than consent`(
    _ index: Int
  ) async throws {
    let (said, words) = Self.lattice[index]
    let hooks = said.map { decision in Hook.beforeTool { _, _ in decision } }
    let bench = TestBench()
    let (engine, _, submission) = try await callEcho(hooks, bench: bench)
    let result = try await TestBench.results(engine).first
    #expect(result?.contentText.contains(words) == true, "\(result?.contentText ?? "")")
    #expect(submission.status == .done)
    try await bench.end(engine)
  }

  @Test func `the first denial ends the chain`() async throws {
    let log = Log<String>()
    let hooks = [
      Hook.beforeTool { _, _ in .deny("no") },
      Hook.beforeTool { _, _ in
        log.add("asked")
        return .proceed
      },
    ]
    let (engine, _, _) = try await callEcho(hooks)
    #expect(log.all == [])
    try await engine.close()
  }

  // MARK: Failures

  /// Ways in which a hook goes wrong.
  enum Fault: String, CaseIterable {
    case throwing, hanging, wrong, denying, changing
  }

  private static func hook(_ fault: Fault, _ role: Hook.Role, _ started: Event) -> Hook {
    let changes = fault != .changing
    return .beforeTool(role: role, changes: changes) { _, _ in
      switch fault {
      case .throwing: throw HookFault()
      case .hanging:
        started.happen()
        await Event().wait()
        return .proceed
      case .wrong: return .change(arguments: "text")
      case .denying: return role == .guard ? .ask(.init(key: "", title: "")) : .deny("no")
      case .changing: return .change(arguments: ["text": "changed"])
      }
    }
  }

  @Test(arguments: Fault.allCases)
  func `a guard that fails denies`(_ fault: Fault) async throws {
    try await fail(.guard, fault) { result in
      #expect(result?["isError"] == true)
      #expect(result?.contentText.contains("guard ext failed") == true)
    }
  }

  @Test(arguments: Fault.allCases)
  func `an observer that fails changes nothing`(_ fault: Fault) async throws {
    try await fail(.observer, fault) { result in
      #expect(result?["isError"] == false)
      #expect(result?.contentText == "hi")
    }
  }

  private func fail(
    _ role: Hook.Role,
    _ fault: Fault,
    _ check: (JSON?) -> Void
  ) async throws {
    let bench = TestBench()
    let started = Event()
    let engine = try await bench.open(
      calling((id: "c1", name: "echo", arguments: Self.sayHi)),
      tools: [echo],
      extensions: [Extension(name: "ext", hooks: [Self.hook(fault, role, started)])]
    )
    _ = try await bench.start(engine)
    async let submission = bench.ask(engine)
    if fault == .hanging {
      await started.wait()
      await bench.clock.waitForSleeper(ofExactly: role == .guard ? .seconds(10) : .seconds(5))
      bench.clock.advance(by: role == .guard ? .seconds(10) : .seconds(5))
      // It ignores that it was cancelled.
      await bench.clock.waitForSleeper(ofExactly: .seconds(5))
      bench.clock.advance(by: .seconds(5))
    }
    #expect(try await submission.status == .done)
    check(try await TestBench.results(engine).first)
    let reports = bench.reports.all.filter { $0.type == "extension_error" }
    #expect(reports.map(\.extensionName) == ["ext"])
    try await bench.end(engine)
  }

  @Test func `a hook that ignores its cancellation delays no abort beyond its grace`() async throws
  {
    let bench = TestBench()
    let started = Event()
    let engine = try await bench.open(
      calling((id: "c1", name: "echo", arguments: Self.sayHi)),
      tools: [echo],
      extensions: [Extension(name: "ext", hooks: [Self.hook(.hanging, .guard, started)])]
    )
    _ = try await bench.start(engine)
    let id = try await engine.submit("hi", to: .root)
    await started.wait()
    try await engine.abort(.root)
    await bench.clock.waitForSleeper(ofExactly: .seconds(5))
    bench.clock.advance(by: .seconds(5))
    let settled = try await engine.wait(for: id)
    #expect(settled.status == .unanswered)
    #expect(try await TestBench.results(engine).first?.contentText.contains("aborted") == true)
    try await bench.end(engine)
  }

  // MARK: afterTool, onAbort

  static let results: [(said: [ResultDecision], words: String, isError: Bool)] = [
    ([.proceed], "hi", false),
    ([.change(.text("redacted"))], "redacted", false),
    ([.change(.text("one")), .change(.text("two"))], "two", false),
    ([.deny("secret")], "the result was blocked: secret", true),
    ([.change(.text("one")), .deny("secret")], "the result was blocked: secret", true),
  ]

  @Test(arguments: 0..<results.count)
  func `hooks change a result before the model sees it`(_ index: Int) async throws {
    let (said, words, isError) = Self.results[index]
    let hooks = said.map { decision in Hook.afterTool(role: .guard) { _, _, _ in decision } }
    let bench = TestBench()
    let (engine, _, _) = try await callEcho(hooks, bench: bench)
    let result = try await TestBench.results(engine).first
    #expect(result?.contentText.contains(words) == true, "\(result?.contentText ?? "")")
    #expect(result?["isError"] == .bool(isError))
    if isError { #expect(result?.compactText.contains("hi") == false) }
    let tool = try await TestBench.tasks(engine).first { $0.kind == "pi.tool" }
    if case .completed? = tool?.state.outcome {} else { Issue.record("the call stands") }
    try await bench.end(engine)
  }

  @Test func `a guard that fails keeps the result from the model`() async throws {
    let hook = Hook.afterTool(role: .guard) { _, _, _ in throw HookFault() }
    let (engine, _, _) = try await callEcho([hook])
    let text = try await TestBench.results(engine).first?.contentText ?? ""
    #expect(text.contains("guard ext failed: the hook broke"))
    #expect(!text.contains("hi"))
    try await engine.close()
  }

  @Test func `what a hook puts into a result is bounded like any output`() async throws {
    let hook = Hook.afterTool { _, _, _ in .change(.text("123456789")) }
    let tool = plainTool("echo", limits: OutputLimits(maxBytes: 4)) { _ in .text("hi") }
    let (engine, _, _) = try await callEcho([hook], tools: [tool])
    let text = try await TestBench.results(engine).first?.contentText ?? ""
    #expect(text.contains("1234|"))
    #expect(text.contains("truncated"))
    try await engine.close()
  }

  @Test func `hooks see the error of a tool that threw`() async throws {
    let seen = Log<ToolResult>()
    let hook = Hook.afterTool { _, result, _ in
      seen.add(result)
      return .proceed
    }
    let tool = plainTool("echo") { _ in throw HookFault() }
    let (engine, _, _) = try await callEcho([hook], tools: [tool])
    #expect(seen.all.map(\.isError) == [true])
    #expect(seen.all.first?.diagnostics.map(\.code) == ["tool_error"])
    try await engine.close()
  }

  @Test func `a hook changes the result of an aborted call`() async throws {
    let bench = TestBench()
    let started = Event()
    let tool = plainTool("slow") { call in
      try call.host.output("half", skipped: nil)
      try await call.host.flushOutput()
      started.happen()
      await Event().waitOrCancel()
      throw HookFault()
    }
    let hook = Hook.onAbort { _, result, _ in
      var changed = result
      changed.output = (result.output ?? []) + [["type": "text", "text": "and cleaned up"]]
      return .change(changed)
    }
    let engine = try await bench.open(
      calling((id: "c1", name: "slow", arguments: [:])),
      tools: [tool],
      extensions: [Extension(name: "ext", hooks: [hook])]
    )
    _ = try await bench.start(engine)
    let id = try await engine.submit("hi", to: .root)
    await started.wait()
    try await engine.abort(.root)
    _ = try await engine.wait(for: id)
    let result = try await TestBench.results(engine).first
    #expect(result?.contentText.hasPrefix("half|and cleaned up|") == true)
    #expect(result?["isError"] == true)
    try await bench.end(engine)
  }

  @Test func `a guard sees the last result of an unsafe tool while the host closes`() async throws {
    let bench = TestBench()
    let started = Event()
    let tool = plainTool("slow") { _ in
      started.happen()
      await Event().waitOrCancel()
      return .text("secret")
    }
    let engine = try await bench.open(
      calling((id: "c1", name: "slow", arguments: [:])),
      tools: [tool],
      extensions: [
        Extension(name: "ext", hooks: [.afterTool(role: .guard) { _, _, _ in .deny("closing") }])
      ]
    )
    _ = try await bench.start(engine)
    _ = try await engine.submit("hi", to: .root)
    await started.wait()
    try await engine.close()
    let reopened = try await bench.afterDeath().open(ScriptedModel { _ in [] })
    let result = try await TestBench.results(reopened).first
    #expect(result?.contentText.contains("the result was blocked: closing") == true)
    #expect(result?.compactText.contains("secret") == false)
    try await reopened.close()
  }
}
