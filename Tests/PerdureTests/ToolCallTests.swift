import Perdure
import PerdureModel
import PerdureStorage
import PerdureTestKit
import PerdureValue
import Synchronization
import Testing

/// What Swift tools may do durably while they run (TA-1 to TA-3, RT-9).
@Suite(.timeLimit(.minutes(5))) struct ToolCallTests {
  struct Count: Codable, Sendable, Equatable {
    var value = 0
  }

  struct Position: TaskCheckpoint {
    var phase = "sleep"
  }

  private static let count = Document("app.count", scope: .session) { _ in Count() }

  private static let sleeper = TaskType<String, Position, String>(
    "app.sleeper",
    initial: { _ in Position() },
    phases: [
      Phase("sleep") { run in
        if run.input == "quick" { return try await run.commit { _ in .completed("done") } }
        try await run.sleep(until: .max, at: Position())
      }
    ]
  )

  /// Collects what several tasks tell.
  private final class Box<Value: Sendable>: Sendable {
    private let state = Mutex<[Value]>([])
    var all: [Value] { state.withLock { $0 } }
    func add(_ value: Value) { state.withLock { $0.append(value) } }
  }

  private static func tool(
    _ name: String,
    replay: ReplayPolicy = .unsafe,
    _ execute: @escaping Tool.Execute
  ) -> Tool {
    Tool(
      name: name,
      description: "A tool of a test.",
      parameters: ["type": "object"],
      replay: replay,
      execute: execute
    )
  }

  /// Opens a harness whose model calls `work` once for the text "go" and answers everything else.
  private func open(
    _ location: StoreLocation = .memory,
    _ work: Tool,
    _ others: [Tool] = []
  ) async throws -> (Harness, Conversation) {
    let model = ScriptedModel { request in
      let asked = request.messages.last { $0["role"] == "user" }?["content"]?.text
      guard asked == "go", ScriptedModel.turn(of: request) == 0 else {
        return ScriptedModel.text("the answer to \(asked ?? "")")
      }
      return ScriptedModel.calls(("c1", work.name, [:]))
    }
    let harness = try await Harness.open(
      location,
      models: model,
      extensions: [Extension(name: "app", tools: [work] + others, tasks: [Self.sleeper])]
    )
    let root = try await harness.root()
    try await root.configure(.init(model: ScriptedModel.reference))
    return (harness, root)
  }

  /// Lets `execute` run as a tool and returns the text of its result.
  private func run(
    replay: ReplayPolicy = .unsafe,
    _ execute: @escaping Tool.Execute
  ) async throws -> String {
    let (harness, root) = try await open(.memory, Self.tool("work", replay: replay, execute))
    _ = try await root.submit("go").answer()
    let view = try await root.view()
    try await harness.close()
    let result = view.entries.first { $0.kind == "pi.tool-result" }?.model?.first
    return result?["content"]?.array?.first?["text"]?.text ?? ""
  }

  @Test func `a call commits and reads what it committed`() async throws {
    let text = try await run { call in
      let value = try await call.commit { tx in
        try await tx.update(Self.count) { $0.value += 2 }
        return "written"
      }
      let count = try await call.value(Self.count)
      return .text("\(value) \(count?.value ?? 0)")
    }
    #expect(text == "written 2")
  }

  @Test func `a memo of a call keeps its first value`() async throws {
    let text = try await run { call in
      let none = try call.memo("m", as: Int.self)
      let first = try await call.memo("m", 1)
      let second = try await call.memo("m", 2)
      return .text("\(none ?? 0) \(first) \(second)")
    }
    #expect(text == "0 1 1")
  }

  @Test func `a call knows the agent, the clock and its output`() async throws {
    let text = try await run { call in
      try call.output("said")
      let agent = try await call.agent()
      let isNow = call.now > 1_600_000_000_000
      return .text("\(agent.callable.map(\.name)) \(isNow) \(try call.retainedOutput().text)")
    }
    #expect(text == #"["work"] true said"#)
  }

  @Test func `a call waits for a task that it owns`() async throws {
    let text = try await run { call in
      let id = try await call.createTask(Self.sleeper, "quick")
      let record = try await call.waitForTask(id)
      let known = try await call.task(id)
      return .text("\(record.state.outcome == known?.state.outcome) \(record.owner == call.taskId)")
    }
    #expect(text == "true true")
  }

  @Test(arguments: [
    (ReplayPolicy.unsafe, true, Bool?.none, true), (.safe, true, nil, false),
    (.unsafe, true, false, false), (.safe, true, true, true), (.unsafe, false, nil, false),
  ])
  func `TA-3: what an unsafe call owns ends with a restart unless it says otherwise`(
    _ replay: ReplayPolicy,
    _ isOwned: Bool,
    _ wish: Bool?,
    _ abandons: Bool
  ) async throws {
    let text = try await run(replay: replay) { call in
      let options = TaskOptions(
        owner: isOwned ? .task(call.taskId) : .conversation,
        abandonsOnRestart: wish
      )
      let id = try await call.createTask(Self.sleeper, "quick", options)
      return .text("\(try await call.task(id)?.abandonOnRestart ?? false)")
    }
    #expect(text == "\(abandons)")
  }

  @Test func `TA-2: a foreground subagent answers within the call`() async throws {
    let text = try await run { call in
      let child = try await call.commit { try await $0.createConversation(ownedBy: call.taskId).id }
      guard let conversation = try await call.conversation(child) else { return .text("none") }
      let submission = try await conversation.submit("why", requestId: "\(call.taskId)")
      let again = try await conversation.submit("why", requestId: "\(call.taskId)")
      return .text("\(try await submission.answer()), \(submission.id == again.id)")
    }
    #expect(text == "the answer to why, true")
  }

  @Test func `TA-1: a handle refuses when its call is over, and what it submitted stays`()
    async throws
  {
    let kept = Box<(BoundConversation, BoundSubmission, ToolCall)>()
    let other = Box<ConversationID>()
    let (harness, root) = try await open(
      .memory,
      Self.tool("work") { call in
        guard let id = other.all.first, let conversation = try await call.conversation(id) else {
          return .text("none")
        }
        kept.add((conversation, try await conversation.submit("why"), call))
        return .text("")
      }
    )
    let free = try await harness.createConversation()
    try await free.configure(.init(model: ScriptedModel.reference))
    other.add(free.id)
    _ = try await root.submit("go").answer()
    let (conversation, submission, call) = try #require(kept.all.first)
    let refusals: [@Sendable () async throws -> Void] = [
      { _ = try await conversation.submit("more") }, { try await conversation.abort() },
      { try await conversation.waitForIdle() }, { _ = try await submission.answer() },
      { _ = try await submission.status() }, { try await call.commit { _ in } },
      { _ = try await call.memo("m", 1) }, { _ = try await call.agent() },
      { _ = try await call.conversation(.root) }, { _ = try await call.task(call.taskId) },
      { _ = try await call.createTask(Self.sleeper, "quick") },
      { _ = try await call.value(Self.count) }, { _ = try await call.changes(of: Self.count) },
    ]
    for refusal in refusals {
      let error = await #expect(throws: PerdureError.self) { try await refusal() }
      #expect(error?.code == .invocationEnded)
    }
    let stored = try await harness.submission(submission.id)
    #expect(try await stored?.answer() == "the answer to why")
    try await harness.close()
  }

  @Test func `a wait that a call left ends with the call`() async throws {
    let left = Box<Task<TaskRecord, any Error>>()
    let (harness, root) = try await open(
      .memory,
      Self.tool("work") { call in
        let id = try await call.createTask(
          Self.sleeper,
          "slow",
          TaskOptions(owner: .conversation, isInBackground: true)
        )
        left.add(Task { try await call.waitForTask(id) })
        return .text("")
      }
    )
    _ = try await root.submit("go").answer()
    let error = await #expect(throws: PerdureError.self) { try await left.all.first?.value }
    #expect(error?.code == .invocationEnded)
    try await harness.close()
  }

  @Test func `RT-9: what a call watches ends with the call`() async throws {
    let kept = Box<(Updates<Change>, DocumentState<Count>)>()
    let text = try await run { call in
      try await call.commit { tx in try await tx.update(Self.count) { $0.value = 1 } }
      guard let changes = try await call.changes(of: Self.count),
        let state = try await call.state(of: Self.count)
      else { return .text("none") }
      kept.add((changes, state))
      try await call.commit { tx in try await tx.update(Self.count) { $0.value = 2 } }
      var seen: [Int64] = []
      for try await change in changes {
        seen.append(change.value["value"]?.int ?? 0)
        if seen.count == 2 { break }
      }
      return .text("\(seen)")
    }
    #expect(text == "[1, 2]")
    #expect(kept.all[0].0.ending?.reason == "stopped")
    #expect(kept.all[0].1.ending?.reason == "stopped")
    #expect(try kept.all[0].1.value == Count(value: 2))
  }

  @Test func `RT-9: what a phase watches and waits for ends with its run`() async throws {
    let kept = Box<(Updates<Change>, BoundConversation)>()
    let watching = TaskType<String, Position, String>(
      "app.watching",
      initial: { _ in Position() },
      phases: [
        Phase("sleep") { run in
          try await run.commit { tx in
            try await tx.update(Self.count) { $0.value = 1 }
            return nil
          }
          if let changes = try await run.changes(of: Self.count),
            let conversation = try await run.conversation(run.conversationId)
          {
            kept.add((changes, conversation))
          }
          try await run.commit { _ in .completed("done") }
        }
      ]
    )
    let harness = try await Harness.open(
      .memory,
      models: ScriptedModel { _ in ScriptedModel.text("done") },
      extensions: [Extension(name: "app", tasks: [watching])]
    )
    let root = try await harness.root()
    let id = try await root.commit { try await $0.createTask(watching, "") }
    _ = try await harness.waitForTask(id)
    let (changes, conversation) = try #require(kept.all.first)
    #expect(await changes.waitForEnd().reason == "stopped")
    let error = await #expect(throws: PerdureError.self) { try await conversation.submit("late") }
    #expect(error?.code == .invocationEnded)
    try await harness.close()
  }

  @Test func `a commit within a commit of a call is refused`() async throws {
    let text = try await run { call in
      do {
        try await call.commit { _ in
          _ = try await call.conversation(.root)?.submit("x")
        }
      } catch let error as PerdureError {
        return .text(error.code.rawValue)
      }
      return .text("no error")
    }
    #expect(text == "nested_commit")
  }

  @Test func `a call without an engine refuses what must last`() async throws {
    let kept = Box<ToolCall>()
    _ = try await run { call in
      kept.add(call)
      return .text("")
    }
    let real = kept.all[0]
    let bare = ToolCall(
      callId: "c",
      conversationId: .root,
      taskId: real.taskId,
      arguments: [:],
      replay: .safe,
      recovered: false,
      outputWindow: nil,
      deadline: 0,
      host: real.host
    )
    let error = await #expect(throws: PerdureError.self) { try await bare.agent() }
    #expect(error?.code == .unsupportedFeature)
  }
}
