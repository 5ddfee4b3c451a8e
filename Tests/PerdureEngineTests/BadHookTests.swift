import PerdureEngine
import PerdureModel
import PerdureTestKit
import PerdureValue
import Testing

/// Hooks at every point that do what they must not: contained, told, and over with the next prompt.
@Suite(.timeLimit(.minutes(5))) struct BadHookTests {
  struct Row: Sendable, CustomTestStringConvertible {
    var point: Hook.Point
    var role: Hook.Role
    var misdeed: Misdeed

    var testDescription: String { "\(role.rawValue) \(point): \(misdeed.rawValue)" }

    /// Whether the host notices anything.
    var isNoticed: Bool {
      // It belongs to no work of the conversation for which it waits.
      if point == .conversationCreated, misdeed == .waiting { return false }
      return misdeed.fails
    }

    var denies: Bool { role == .guard && isNoticed }
  }

  private static let task: Hook.Point = .named(task: "app.task", name: "point")
  private static let observed: [Hook.Point] = [
    .beforeRequest, .afterResponse, .onYield, .afterTools, .beforeTool, .afterTool, .onAbort,
    .beforeCompact, .conversationCreated, task,
  ]
  private static let guarded: [Hook.Point] = [
    .beforeRequest, .beforeTool, .afterTool, .beforeCompact, task,
  ]
  /// Those that answer nothing have nothing wrong to answer.
  private static let silent: Set<Hook.Point> = [.afterResponse, .afterTools, .conversationCreated]

  static let rows: [Row] =
    (observed.map { ($0, Hook.Role.observer) } + guarded.map { ($0, .guard) })
    .flatMap { point, role in
      Misdeed.allCases.filter { $0 != .junk || !silent.contains(point) }
        .map { Row(point: point, role: role, misdeed: $0) }
    }

  private static let deadline = Duration.seconds(7)

  private static func hook(_ row: Row, _ culprit: Culprit) -> Hook {
    let (role, deadline) = (row.role, deadline)
    switch row.point {
    case .beforeRequest:
      return .beforeRequest(role: role, deadline: deadline) { _, _ in
        try await culprit.act() ? .change(messages: ["hi"]) : .proceed
      }
    case .afterResponse:
      return .afterResponse(deadline: deadline) { _, _ in _ = try await culprit.act() }
    case .onYield:
      return .onYield(deadline: deadline) { _, _ in try await culprit.act() ? 5 : nil }
    case .afterTools:
      return .afterTools(deadline: deadline) { _, _, _ in _ = try await culprit.act() }
    case .beforeTool:
      return .beforeTool(role: role, deadline: deadline) { _, _ in
        try await culprit.act() ? .change(arguments: "text") : .proceed
      }
    case .afterTool:
      return .afterTool(role: role, deadline: deadline) { _, _, _ in
        try await culprit.act() ? .change(ToolResult(output: [5])) : .proceed
      }
    case .onAbort:
      return .onAbort(deadline: deadline) { _, _, _ in
        try await culprit.act() ? .change(ToolResult(output: [5])) : .proceed
      }
    case .beforeCompact:
      return .beforeCompact(role: role, changes: false, deadline: deadline) { _, _ in
        try await culprit.act() ? .summary("mine") : .proceed
      }
    case .conversationCreated:
      return .conversationCreated(deadline: deadline) { _, _, _ in _ = try await culprit.act() }
    case .named(let kind, let name):
      return .task(kind, name, role: role, changes: false, deadline: deadline) { _, _ in
        try await culprit.act() ? .value(1) : .proceed
      }
    }
  }

  /// A tool whose call has to be aborted as long as `isStuck` has not happened.
  private static func tool(_ row: Row, _ started: Event, _ isOver: Event) -> Tool {
    guard row.point == .onAbort else { return TestBench.ownEcho }
    return plainTool("echo") { _ in
      guard !isOver.hasHappened else { return .text("hi") }
      started.happen()
      await isOver.waitOrCancel()
      return .text("hi")
    }
  }

  private static let asking = TestTask("app.task") { runtime, _ in
    let replies = try await runtime.callHooks("point", arguments: [:])
    let denials = replies.compactMap { reply -> JSON? in
      if case .deny(let reason) = reply.answer { .string(reason) } else { nil }
    }
    try await runtime.commit { _, _ in .terminal(.completed(result: .array(denials))) }
  }

  @Test(arguments: rows)
  func `a hook that misbehaves is contained and told, and the next prompt works`(
    _ row: Row
  ) async throws {
    let bench = TestBench.rough()
    let culprit = Culprit(row.misdeed)
    let (started, isOver) = (Event(), Event())
    let engine = try await bench.open(
      TestBench.echoing,
      tools: [Self.tool(row, started, isOver)],
      extensions: [
        Extension(name: "tasks", tasks: [Self.asking]),
        Extension(name: "ext", hooks: [Self.hook(row, culprit)]),
      ]
    )
    _ = try await bench.start(engine)
    if row.point == .beforeCompact {
      for round in 0..<3 { _ = try await bench.ask(engine, "\(round) " + TestBench.text(30)) }
    }
    culprit.knows(engine)
    async let passed: Void = row.isNoticed ? culprit.pass(Self.deadline, bench.clock) : ()
    try await work(row, engine, bench, started, isOver, culprit)
    await passed
    #expect(culprit.started.hasHappened)
    let complaints = bench.complaints
    #expect(complaints.map(\.extensionName) == (row.isNoticed ? ["ext"] : []))
    if row.isNoticed { #expect(complaints.first?.message.contains("of ext failed: ") == true) }
    try await bench.checkNext(engine, culprit)
  }

  /// Does what the hook is called for, and checks what comes of it.
  private func work(
    _ row: Row,
    _ engine: Engine,
    _ bench: TestBench,
    _ started: Event,
    _ isOver: Event,
    _ culprit: Culprit
  ) async throws {
    switch row.point {
    case .conversationCreated:
      _ = try await engine.createConversation()
      await culprit.started.wait()
      if row.misdeed != .hanging { await culprit.finished.wait() }
      // The hook is called in the background, and told of there.
      while row.isNoticed, bench.complaints.isEmpty { await Task.yield() }
    case .named:
      let outcome = try await engine.outcome(try await engine.create(Self.asking))
      guard case .completed(let denials)? = outcome else {
        Issue.record("\(String(describing: outcome))")
        return
      }
      #expect(denials.array?.count == (row.denies ? 1 : 0))
    case .beforeCompact:
      let task = try await engine.waitForTask(try await engine.compact(.root))
      guard case .completed(let result)? = task.state.outcome else {
        Issue.record("\(task.state)")
        return
      }
      #expect((result["submissionId"] == nil) == row.denies)
    case .onAbort:
      let id = try await engine.submit("hi", to: .root)
      await started.wait()
      try await engine.abort(.root)
      #expect(try await engine.wait(for: id).status == .unanswered)
      let result = try await TestBench.results(engine).first
      #expect(result?.contentText.contains("aborted") == true)
      isOver.happen()
    default:
      let submission = try await bench.ask(engine)
      let result = try await TestBench.results(engine).first
      guard row.denies else {
        #expect(submission.status == .done)
        #expect(result?.contentText == "hi")
        return
      }
      if row.point == .beforeRequest {
        #expect(submission.status == .unanswered)
      } else {
        #expect(submission.status == .done)
        #expect(result?["isError"] == true)
        #expect(result?.contentText.contains("guard ext failed: ") == true)
      }
    }
  }
}
