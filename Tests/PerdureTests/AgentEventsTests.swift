import Perdure
import PerdureTestKit
import Testing

/// The events of conversations as applications read them.
@Suite(.timeLimit(.minutes(5))) struct AgentEventsTests {
  private func open() async throws -> (Harness, Conversation) {
    let harness = try await Harness.open(
      .memory,
      models: ScriptedModel { _ in ScriptedModel.text("yes") }
    )
    let root = try await harness.root()
    try await root.configure(.init(model: ScriptedModel.reference))
    return (harness, root)
  }

  private func types(_ batches: [[AgentEvent]]) -> [[String]] { batches.map { $0.map(\.type) } }

  @Test func `a prompt is told from its submission to its answer, commit by commit`() async throws {
    let (harness, root) = try await open()
    let events = try await harness.watchEvents(root.id)
    _ = try await root.submit("hi").wait()
    let last = try await root.agentState()
    try await harness.close()
    var state = AgentState?.none
    var batches: [[AgentEvent]] = []
    for try await batch in events {
      for event in batch {
        if case .snapshot(let snapshot) = event { state = snapshot }
        try state?.apply(event)
      }
      batches.append(batch)
    }
    #expect(
      types(Array(batches.prefix(2))) == [
        ["snapshot"], ["message_start", "message_end", "submission", "run_start", "turn_start"],
      ]
    )
    #expect(
      types([batches.last ?? []]) == [
        [
          "message_start", "message_end", "turn_end", "run_end", "submission", "usage_changed",
        ]
      ]
    )
    #expect(state == last)
    #expect(state?.entries.last?.kind == "pi.assistant")
  }

  @Test func `EV-7: other conversations are not told, and attaching again begins anew`()
    async throws
  {
    let (harness, root) = try await open()
    let other = try await harness.createConversation()
    let events = try await root.events()
    try await other.configure(.init(instructions: "x"))
    try await root.configure(.init(cwd: "/"))
    var reader = events.makeAsyncIterator()
    #expect(try await reader.next()?.map(\.type) == ["snapshot"])
    #expect(try await reader.next()?.map(\.type) == ["agent_changed"])
    var again = try await root.events().makeAsyncIterator()
    guard case .snapshot(let state)? = try await again.next()?.first else {
      Issue.record("no snapshot")
      return
    }
    #expect(state.agent["cwd"] == "/")
    try await harness.close()
    #expect(try await again.next() == nil)
  }

  @Test func `a reader more than 100 batches behind gets one snapshot in their place`()
    async throws
  {
    let (harness, root) = try await open()
    let events = try await root.events()
    for number in 0..<101 { try await root.configure(.init(instructions: "\(number)")) }
    let last = try await root.agentState()
    for number in 0..<40 { try await root.configure(.init(cwd: "/\(number)")) }
    try await harness.close()
    var batches: [[AgentEvent]] = []
    for try await batch in events { batches.append(batch) }
    #expect(batches.count == 42)
    #expect(batches.dropFirst().first == [.snapshot(last)])
  }

  @Test func `what waits for a reader who never reads is bounded`() async throws {
    let (harness, root) = try await open()
    let events = try await root.events()
    for number in 0..<1_000 { try await root.configure(.init(instructions: "\(number)")) }
    try await harness.close()
    var count = 0
    for try await _ in events { count += 1 }
    #expect(count <= 101)
  }

  @Test func `an unknown conversation has no events`() async throws {
    let (harness, _) = try await open()
    let unknown = try #require(ConversationID(77))
    await #expect(throws: PerdureError.self) { try await harness.watchEvents(unknown) }
    try await harness.close()
  }

  @Test func `stopping drops what waits, the snapshot too`() async throws {
    let (harness, root) = try await open()
    let events = try await root.events()
    try await root.configure(.init(cwd: "/"))
    events.stop()
    var reader = events.makeAsyncIterator()
    #expect(try await reader.next() == nil)
    #expect(events.ending?.reason == "stopped")
    try await harness.close()
  }

  @Test func `events have a JSON form with their type`() async throws {
    let (harness, root) = try await open()
    let state = try await root.agentState()
    let snapshot = AgentEvent.snapshot(state).json
    let keys: [JSONString] = [
      "type", "entries", "tools", "nestedTools", "compactions", "inbox", "agent", "usage",
    ]
    #expect(snapshot.object?.keys == keys)
    #expect(AgentEvent.deferredPoll(at: 5).json == ["type": "deferred_poll", "pollAt": 5])
    try await harness.close()
  }
}
