import Perdure
import PerdureModel
import PerdureTestKit
import PerdureValue
import Synchronization
import Testing

/// What applications ask of conversations.
@Suite(.timeLimit(.minutes(5))) struct ConversationTests {
  private static let echoing = ScriptedModel { request in
    ScriptedModel.text(request.messages.last?["content"]?.text ?? "nothing")
  }

  private func open(
    _ model: any ModelProvider = echoing,
    tools: [Tool] = [],
    settings: @escaping @Sendable () -> HarnessSettings = { HarnessSettings() }
  ) async throws -> (Harness, Conversation) {
    let harness = try await Harness.open(
      .memory,
      models: model,
      extensions: [Extension(name: "test", tools: tools)],
      settings: settings
    )
    let root = try await harness.root(agent: .init(model: ScriptedModel.reference))
    return (harness, root)
  }

  /// A tool whose calls wait until the door is opened.
  private func gated() -> (tool: Tool, door: AsyncStream<Void>.Continuation) {
    let (gate, door) = AsyncStream.makeStream(of: Void.self)
    let tool = Tool(name: "waits", description: "Waits.", parameters: ["type": "object"]) { _ in
      for await _ in gate { break }
      return .text("waited")
    }
    return (tool, door)
  }

  private static let calling = ScriptedModel { request in
    request.messages.last?["content"] == "go"
      ? ScriptedModel.calls(("a", "waits", [:]))
      : ScriptedModel.text(request.messages.last?["content"]?.text ?? "done")
  }

  @Test func `busy conversations queue steer reject and withdraw`() async throws {
    let (tool, door) = gated()
    let (harness, conversation) = try await open(Self.calling, tools: [tool])
    let first = try await conversation.submit("go")
    let steer = try await conversation.submit("steer", whenBusy: .steer)
    let later = try await conversation.submit("later")
    let never = try await conversation.submit("never")
    #expect(try await conversation.isBusy)
    #expect(try await conversation.queue.map { $0["mode"] } == ["steer", "followUp", "followUp"])
    let error = await #expect(throws: PerdureError.self) {
      try await conversation.submit("now", whenBusy: .reject)
    }
    #expect(error?.code == .conversationBusy)
    #expect(try await never.abort() == .aborted)
    #expect(try await harness.abortSubmission(first.id) == .alreadyPlaced)
    #expect(try await harness.abortSubmission(later.id, in: .init(99)) == .notFound)
    door.yield()
    #expect(try await first.answer() == "steer")
    #expect(try await steer.answer() == "steer")
    #expect(try await later.answer() == "later")
    let withdrawn = await #expect(throws: PerdureError.self) { try await never.answer() }
    #expect(withdrawn?.code == "aborted")
    try await harness.waitForIdle()
    #expect(try await !conversation.isBusy)
    try await harness.close()
  }

  @Test func `an abort returns when the work has ended`() async throws {
    let (tool, door) = gated()
    let (harness, conversation) = try await open(Self.calling, tools: [tool])
    let first = try await conversation.submit("go")
    try await conversation.abort()
    #expect(harness.liveTasks.isEmpty)
    #expect(try await first.status()?.status == .unanswered)
    #expect(try await harness.submission(first.id)?.id == first.id)
    #expect(try await harness.submission(.init(4_000) ?? first.id) == nil)
    door.finish()
    try await harness.close()
  }

  @Test func `an input may be content items and an entry of the application's own`() async throws {
    let (harness, conversation) = try await open()
    let submission = try await conversation.submit(
      content: [["type": "text", "text": "hi"]],
      requestId: "r",
      entry: InputEntry(kind: "app.mail", data: ["from": "a"])
    )
    _ = try await submission.wait()
    #expect(try await conversation.submit("again", requestId: "r").id == submission.id)
    let entries = try await conversation.entries().items
    #expect(entries.map(\.kind) == ["app.mail", "pi.assistant"])
    #expect(entries.first?.data == ["from": "a"])
    try await harness.close()
  }

  @Test func `writes edits and resets shape the context`() async throws {
    let (harness, conversation) = try await open()
    _ = try await conversation.submit("one").answer()
    let entries = try await conversation.entries()
    let first = try #require(entries.items.first?.id)
    let message: JSON = ["role": "user", "content": "other", "timestamp": 0]
    try await conversation.write(
      EntryDraft(kind: "app.edit", edits: [.replace(first, with: [message])])
    )
    #expect(try await conversation.context().messages.first?["content"] == "other")
    #expect(try await conversation.context(at: first).messages.first?["content"] == "one")
    let reset = try await conversation.reset(handoff: "so far")
    #expect(try await reset.wait().status == .done)
    let context = try await conversation.context()
    #expect(context.messages.map { $0["content"] } == ["so far"])
    #expect(context.head?.kind == "pi.reset")
    #expect(context.contributions.count == 1)
    // Nothing is gone.
    let page = try await conversation.entries(from: first, through: first)
    #expect(page.items.map(\.id) == [first])
    let stale = try await conversation.write(EntryDraft(kind: "app.head", head: .entry(first)))
    guard case .unanswered("stale", _, _)? = try await stale.status()?.state else {
      Issue.record("\(String(describing: try await stale.status()))")
      return
    }
    let error = await #expect(throws: PerdureError.self) {
      try await conversation.context(at: .init(4_000))
    }
    #expect(error?.code == .notFound)
    try await harness.close()
  }

  static let changes: [(change: Conversation.AgentChange, stored: JSON)] = [
    (.init(), ["model": ScriptedModel.reference.json]), (.init(reset: [.model]), [:]),
    (
      .init(
        thinkingLevel: "low",
        extensions: .edited(adding: ["a"], removing: ["b"]),
        tools: ["c"],
        modelTools: .edited(adding: ["d"]),
        instructions: "be brief",
        cwd: "/",
        reset: [.model]
      ),
      [
        "thinkingLevel": "low", "extensions": ["add": ["a"], "remove": ["b"]], "tools": ["c"],
        "modelTools": ["add": ["d"]], "instructions": "be brief", "cwd": "/",
      ]
    ),
    (.init(tools: .edited(removing: ["c"]), reset: [.model]), ["tools": ["remove": ["c"]]]),
    (.init(extensions: [], reset: [.model, .cwd]), ["extensions": []]),
  ]

  @Test(arguments: 0..<changes.count)
  func `a change of choices sets resets or leaves each of them`(_ index: Int) async throws {
    let (change, stored) = Self.changes[index]
    let (harness, conversation) = try await open()
    try await conversation.configure(change)
    #expect(try await conversation.agent == stored)
    let other = try await harness.createConversation()
    try await harness.commit { try await $0.configure(other.id, change) }
    if change.reset.contains(.model) { #expect(try await other.agent == stored) }
    try await harness.close()
  }

  @Test func `a change that contradicts itself is refused`() async throws {
    let (harness, conversation) = try await open()
    for change in [
      Conversation.AgentChange(cwd: "/", reset: [.cwd]), .init(tools: .edited(adding: ["a"])),
    ] {
      let error = await #expect(throws: PerdureError.self) {
        try await conversation.configure(change)
      }
      #expect(error?.code == .invalidConfiguration)
    }
    try await harness.close()
  }

  @Test(arguments: HarnessSettings.AfterFailedRun.allCases)
  func `settings are read when a run ends`(_ policy: HarnessSettings.AfterFailedRun) async throws {
    let (tool, door) = gated()
    let model = ScriptedModel { request in
      switch request.messages.last?["content"]?.text {
      case "go": ScriptedModel.calls(("a", "waits", [:]))
      case "later": ScriptedModel.text("later")
      default: ScriptedModel.failure(ProviderFailure(.stop, "no"))
      }
    }
    let cell = SettingsCell()
    let (harness, conversation) = try await open(model, tools: [tool], settings: { cell.value })
    let first = try await conversation.submit("go")
    let later = try await conversation.submit("later")
    cell.change { settings in
      settings.afterFailedRun = policy
      settings.followUpMode = .all
      settings.steeringMode = .all
    }
    door.yield()
    _ = try await first.wait()
    try await conversation.waitForIdle()
    let status = try await later.status()?.status
    switch policy {
    case .keep: #expect(status == .queued)
    case .continue: #expect(status == .done)
    case .withdraw: #expect(status == .unanswered)
    }
    try await harness.close()
  }
}

/// Settings that a test changes while a harness reads them.
private final class SettingsCell: Sendable {
  private let settings = Mutex(HarnessSettings())

  var value: HarnessSettings { settings.withLock { $0 } }

  func change(_ body: (inout HarnessSettings) -> Void) {
    settings.withLock { settings in body(&settings) }
  }
}
