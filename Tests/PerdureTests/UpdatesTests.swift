import Perdure
import PerdureModel
import PerdureTestKit
import PerdureValue
import Testing

@Suite(.timeLimit(.minutes(5))) struct UpdatesTests {
  private func open() async throws -> (Harness, Conversation) {
    let harness = try await Harness.open(
      .memory,
      models: ScriptedModel { _ in ScriptedModel.text("yes") },
      clock: ManualClock()
    )
    let root = try await harness.root()
    try await root.configure(.init(model: ScriptedModel.reference))
    return (harness, root)
  }

  @Test func `the views of a conversation begin with the present and end with the store`()
    async throws
  {
    let (harness, root) = try await open()
    var views = try await root.views().makeAsyncIterator()
    #expect(try await views.next()?.entries.count == 0)
    _ = try await root.submit("hi").wait()
    #expect(try await views.next()?.entries.map(\.kind).last == "pi.assistant")
    #expect(try await root.view().documents["pi.live"] == [:])
    try await harness.close()
    #expect(try await views.next() == nil)
  }

  @Test func `changes lead from one value to the next`() async throws {
    let (harness, root) = try await open()
    let changes = try await root.changes()
    _ = try await root.submit("hi").wait()
    let view = try await root.view()
    try await harness.close()
    var value = JSON.null
    for try await change in changes {
      value = try value.applying(change.operations)
      #expect(value == change.value)
    }
    #expect(value == view.json)
  }

  @Test func `the newest value of a document counts`() async throws {
    let (harness, root) = try await open()
    var values = try await root.documentValues(kind: "pi.agent").makeAsyncIterator()
    _ = try await values.next()
    for level in ["low", "medium", "high"] { try await root.configure(.init(thinkingLevel: level)) }
    let value = try await values.next()
    #expect(value??["thinkingLevel"] == "high")
    let error = await #expect(throws: PerdureError.self) {
      _ = try await root.documentValues(kind: "nothing")
    }
    #expect(error?.code == .notFound)
    try await harness.close()
  }

  @Test func `commits come in order and each once`() async throws {
    let (harness, root) = try await open()
    let commits = harness.commits()
    for _ in 0..<20 { try await root.configure(.init(thinkingLevel: "\(Int.random(in: 0...9))")) }
    try await harness.close()
    var numbers: [Int64] = []
    for try await commit in commits { numbers.append(commit.sequence) }
    let first = try #require(numbers.first)
    #expect(numbers == Array(first..<(first + Int64(numbers.count))))
  }

  @Test func `a reader who never reads keeps a hundred commits and one replacement`() async throws {
    let (harness, root) = try await open()
    let commits = harness.commits()
    let changes = try await root.changes()
    for number in 0..<1_000 { try await root.configure(.init(thinkingLevel: "\(number)")) }
    let view = try await root.view()
    try await harness.close()
    var count = 0
    for try await _ in commits { count += 1 }
    #expect(count == 100)
    var pending: [Change] = []
    for try await change in changes { pending.append(change) }
    #expect(pending.count <= 102)
    #expect(pending.last?.value == view.json)
  }

  @Test func `a cancelled reader ends its sequence and nothing else`() async throws {
    let (harness, root) = try await open()
    let graphs = try await harness.taskGraphs()
    let reading = Task {
      var count = 0
      for try await _ in graphs { count += 1 }
      return count
    }
    reading.cancel()
    #expect(try await reading.value <= 1)
    #expect(try await root.submit("hi").wait().status == .done)
    #expect(try await harness.taskGraph().tasks.isEmpty)
    try await harness.close()
  }

  @Test func `the end of a store can be waited for`() async throws {
    let (harness, _) = try await open()
    let waiting = Task { try await harness.closed }
    let cancelled = Task { try await harness.closed }
    cancelled.cancel()
    let error = await #expect(throws: PerdureError.self) { _ = try await cancelled.value }
    #expect(error?.code == .cancelled)
    try await harness.close()
    guard case .closed = try await waiting.value else {
      Issue.record("the store was not closed")
      return
    }
  }
}
