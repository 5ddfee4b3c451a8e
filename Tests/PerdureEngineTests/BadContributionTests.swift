import PerdureEngine
import PerdureModel
import PerdureTestKit
import PerdureValue
import Synchronization
import Testing

/// Tools, sections, wraps and phases of tasks that do what they must not.
@Suite(.timeLimit(.minutes(5))) struct BadContributionTests {
  // MARK: Tools

  struct ToolRow: Sendable, CustomTestStringConvertible {
    var misdeed: Misdeed
    /// Whether a wrap around an innocent tool does it.
    var isWrapped: Bool

    var testDescription: String { "\(isWrapped ? "wrap of a tool" : "tool"): \(misdeed.rawValue)" }
  }

  static let toolRows = Misdeed.allCases.flatMap { misdeed in
    [false, true].map { ToolRow(misdeed: misdeed, isWrapped: $0) }
  }

  private static func misbehaving(_ culprit: Culprit, _ tool: Tool) -> Tool {
    var tool = tool
    tool.deadline = .seconds(7)
    let execute = tool.execute
    tool.execute = { call in
      if try await culprit.act() { return ToolResult(output: [5, ["type": "film"]]) }
      return try await execute(call)
    }
    return tool
  }

  @Test(arguments: toolRows)
  func `a tool that misbehaves fails its call, and the run and the next prompt end`(
    _ row: ToolRow
  ) async throws {
    let bench = TestBench.rough()
    let culprit = Culprit(row.misdeed, others: Extension(name: "ext", tools: [TestBench.ownEcho]))
    let wrap = Wrap.tool("echo") { Self.misbehaving(culprit, $0) }
    let own = Self.misbehaving(culprit, TestBench.ownEcho)
    let engine = try await bench.open(
      TestBench.echoing,
      tools: row.isWrapped ? [TestBench.ownEcho] : [],
      extensions: [
        row.isWrapped
          ? Extension(name: "ext", wraps: [wrap]) : Extension(name: "ext", tools: [own])
      ]
    )
    _ = try await bench.start(engine)
    culprit.knows(engine)
    async let passed: Void = culprit.pass(.seconds(7), bench.clock)
    #expect(try await bench.ask(engine).status == .done)
    await passed
    let result = try await TestBench.results(engine).first
    #expect(result?["isError"] == .bool(row.misdeed.fails))
    let words =
      switch row.misdeed {
      case .throwing: "the hook broke"
      case .hanging: "given up"
      case .junk: "cannot be used: an item of its content is neither a text nor an image"
      case .waiting: ""
      default: "hi"
      }
    #expect(result?.contentText.contains(words) == true, "\(result?.contentText ?? "")")
    try await bench.checkNext(engine, culprit)
  }

  // MARK: Sections

  struct SectionRow: Sendable, CustomTestStringConvertible {
    var misdeed: Misdeed
    var isWrapped: Bool

    var testDescription: String {
      "\(isWrapped ? "wrap of a section" : "section"): \(misdeed.rawValue)"
    }
  }

  static let sectionRows = Misdeed.allCases.filter { $0 != .junk }.flatMap { misdeed in
    [false, true].map { SectionRow(misdeed: misdeed, isWrapped: $0) }
  }

  private static func misbehaving(_ culprit: Culprit, _ section: PromptSection) -> PromptSection {
    var section = section
    section.deadline = .seconds(7)
    let render = section.render
    section.render = { input in
      _ = try await culprit.act()
      return try await render(input)
    }
    return section
  }

  @Test(arguments: sectionRows)
  func `a section that misbehaves is told, and the request is sent without it`(
    _ row: SectionRow
  ) async throws {
    let bench = TestBench.rough()
    let culprit = Culprit(row.misdeed)
    let plain = PromptSection("p", text: "P")
    let wrap = Wrap.section("p") { Self.misbehaving(culprit, $0) }
    let model = TestBench.echoing
    let engine = try await bench.open(
      model,
      tools: [TestBench.ownEcho],
      extensions: [
        Extension(name: "plain", sections: [PromptSection("q", text: "Q"), plain]),
        Extension(
          name: "ext",
          sections: row.isWrapped ? [] : [Self.misbehaving(culprit, plain)],
          wraps: row.isWrapped ? [wrap] : []
        ),
      ]
    )
    _ = try await bench.start(engine)
    culprit.knows(engine)
    async let passed: Void = culprit.pass(.seconds(7), bench.clock)
    #expect(try await bench.ask(engine).status == .done)
    await passed
    #expect(bench.complaints.map(\.extensionName) == (row.misdeed.fails ? ["ext"] : []))
    let first = PromptState(replaying: model.seen.first?.messages ?? []).sections
    #expect(first.map { $0.key } == (row.misdeed.fails ? ["q"] : ["q", "p"]))
    try await bench.checkNext(engine, culprit)
    let last = PromptState(replaying: model.seen.last?.messages ?? []).sections
    #expect(last.map { $0.key } == ["q", "p"])
  }

  // MARK: Declarations that do not last

  /// Ways in which a wrap changes what it wraps from one resolution to the next.
  enum Change: String, CaseIterable {
    case throwing, renaming, badSchema, newDescription, newSchema, newReplay, newSection
  }

  private static func wrap(_ change: Change, _ number: @escaping @Sendable () -> Int) -> Wrap {
    if change == .newSection {
      return .section("p") { section in
        var section = section
        let text = "P\(number())"
        section.render = { _ in text }
        return section
      }
    }
    return .tool("echo") { tool in
      let number = number()
      var tool = tool
      switch change {
      case .throwing: if number.isMultiple(of: 2) { throw HookFault() }
      case .renaming: tool.name = "echo\(number)"
      case .badSchema: tool.parameters = ["type": .int(number)]
      case .newDescription: tool.description = "Version \(number)."
      case .newSchema: tool.parameters = ["type": "object", "title": .string("\(number)")]
      case .newReplay: tool.replay = number.isMultiple(of: 2) ? .safe : .unsafe
      case .newSection: break
      }
      return tool
    }
  }

  @Test(arguments: Change.allCases)
  func `a declaration that changes between two calls ends no run`(_ change: Change) async throws {
    let bench = TestBench.rough()
    let count = Mutex(0)
    let wrap = Self.wrap(change) {
      count.withLock { count in
        count += 1
        return count
      }
    }
    // Each answer calls, so that there are several phases with their own resolutions.
    let model = TestBench.model { request in
      ScriptedModel.turn(of: request) < 4
        ? ScriptedModel.calls((id: "c", name: "echo", arguments: HookTests.sayHi))
        : ScriptedModel.text("done")
    }
    let engine = try await bench.open(
      model,
      tools: [TestBench.ownEcho],
      extensions: [
        Extension(name: "p", sections: [PromptSection("p", text: "P")]),
        Extension(name: "ext", wraps: [wrap]),
      ]
    )
    _ = try await bench.start(engine)
    #expect(try await bench.ask(engine).status == .done)
    let results = try await TestBench.results(engine)
    #expect(results.count == 4)
    switch change {
    case .throwing: break
    case .renaming, .badSchema:
      #expect(results.allSatisfy { $0["isError"] == true })
      #expect(bench.reports.all.contains { $0.extensionName == "ext" })
    case .newDescription, .newSchema, .newReplay, .newSection:
      #expect(results.allSatisfy { $0.contentText == "hi" })
    }
    try await bench.checkNext(engine, Culprit(.junk))
  }

  // MARK: Phases of tasks

  private static let idle = Extension(
    name: "ext",
    tasks: [TestTask("app.bad") { _, _ in throw HookFault() }]
  )

  @Test(arguments: Misdeed.allCases.filter { $0 != .hanging })
  func `a phase that misbehaves ends its task alone`(_ misdeed: Misdeed) async throws {
    let bench = TestBench.rough()
    let culprit = Culprit(misdeed, others: Self.idle)
    let task = TestTask("app.bad") { runtime, _ in
      if try await culprit.act() {
        return try await runtime.commit { _, _ in .running(checkpoint: ["phase": "nowhere"]) }
      }
      try await runtime.commit { _, _ in .terminal(.completed(result: "well")) }
    }
    let engine = try await bench.open(
      TestBench.echoing,
      tools: [TestBench.ownEcho],
      extensions: [Extension(name: "ext", tasks: [task])]
    )
    _ = try await bench.start(engine)
    culprit.knows(engine)
    try await engine.resume()
    let id = try await engine.create(task)
    if misdeed == .waiting {
      await culprit.started.wait()
      // It waits for itself, and so for somebody who ends it.
      #expect(try await bench.ask(engine).status == .done)
      _ = try await engine.abortTask(id)
    }
    let outcome = try await engine.outcome(id)
    let name =
      switch misdeed {
      case .throwing, .junk: "faulted"
      case .waiting: "aborted"
      default: "completed"
      }
    #expect(outcome?.name == name)
    // It is told of after the commit that says so.
    while name == "faulted", !bench.reports.all.contains(where: { $0.type == "task_faulted" }) {
      await Task.yield()
    }
    #expect(bench.reports.all.contains { $0.type == "task_faulted" } == (name == "faulted"))
    try await bench.checkNext(engine, culprit)
  }

  @Test func `a phase that hangs holds up no run, and an abort ends it`() async throws {
    let bench = TestBench.rough()
    let started = Event()
    let task = TestTask("app.bad") { _, _ in
      started.happen()
      await Event().waitOrCancel()
      throw HookFault()
    }
    let engine = try await bench.open(
      TestBench.echoing,
      tools: [TestBench.ownEcho],
      extensions: [Extension(name: "ext", tasks: [task])]
    )
    _ = try await bench.start(engine)
    try await engine.resume()
    let id = try await engine.create(task)
    await started.wait()
    #expect(try await bench.ask(engine).status == .done)
    _ = try await engine.abortTask(id)
    #expect(try await engine.outcome(id)?.name == "aborted")
    try await bench.checkNext(engine, Culprit(.junk))
  }
}
