import PerdureEngine
import PerdureModel
import PerdureTestKit
import PerdureValue
import Testing

@Suite(.timeLimit(.minutes(5))) struct TaskGraphTests {
  private func id(_ value: Int64) throws -> TaskID { try #require(TaskID(value)) }

  private func task(_ number: Int64, _ state: TaskState) throws -> TaskRecord {
    TaskRecord(
      id: try id(number),
      conversationId: .root,
      kind: "k",
      version: 1,
      input: .null,
      state: state
    )
  }

  private func publication(_ changes: [Publication.Change]) -> TaskGraphFold.Event {
    .publication(Publication(sequence: 9, changes: changes, at: 0))
  }

  @Test func `random events lead from graph to graph by their operations`() throws {
    var random = SeededGenerator(for: "task graphs")
    var fold = TaskGraphFold([], conversations: [:], blocked: [:])
    var json = fold.json
    for step in 0..<500 {
      let record = try task(
        Int64(random.int(2...9)),
        random.pick([
          .pending(checkpoint: ["phase": "a"]), .running(checkpoint: ["phase": "b"]),
          .waiting(checkpoint: ["phase": "c"], on: [try id(3)], policy: .allSettled),
          .sleeping(checkpoint: [:], until: 7), .completing(.orphaned(reason: "x")),
          .terminal(.completed(result: 1)),
        ])
      )
      let event: TaskGraphFold.Event
      switch random.int(0...3) {
      case 0: event = .blocked(record.id, reason: random.chance(50) ? "missing_task" : nil)
      case 1:
        let owned = ConversationRecord(
          id: try #require(ConversationID(Int64(100 + step))),
          owner: .init(conversationId: .root, taskId: record.id)
        )
        event = publication([.conversation(owned), .task(record)])
      default: event = publication([.task(record)])
      }
      json = try json.applying(fold.apply(event))
      #expect(json == fold.json)
    }
  }

  @Test func `the graph has the tasks of a run while it goes on`() async throws {
    let bench = TestBench()
    let model = LiveModel()
    let engine = try await bench.open(model)
    _ = try await bench.start(engine)
    let watch = try await engine.views.watchTasks()
    #expect(watch.initial.value.tasks.isEmpty)
    let submission = try await engine.submit("hi", to: .root)
    let stream = await model.request(1)
    let graph = try await engine.views.latestTasks()
    #expect(await graph.next()?.value.tasks.values.map(\.kind) == ["pi.generation"])
    stream.send([.blockStart(index: 0, .text), .delta(index: 0, "x"), .finished(.stop)])
    #expect(try await engine.wait(for: submission).status == .done)
    #expect(await graph.next()?.value.tasks.isEmpty == true)
    watch.stopAfterPending()
    while await watch.next() != nil {}
    #expect(watch.value == ["tasks": [:]])
    try await bench.end(engine)
  }

  @Test func `a task that cannot go on is shown without a commit`() async throws {
    var bench = TestBench()
    bench.settings.restartLimit = 1
    let first = try await bench.open(LiveModel())
    _ = try await bench.start(first)
    _ = try await first.submit("hi", to: .root)
    try await first.session.barrier()
    let model = LiveModel()
    bench = bench.afterDeath()
    let second = try await bench.open(model)
    let watch = try await second.views.watchTasks()
    #expect(watch.initial.value.tasks.values.map(\.blocked) == [nil])
    try await second.resume()
    await second.waitUntilQuiet()
    watch.stopAfterPending()
    while await watch.next() != nil {}
    let node = watch.value["tasks"]?.object?.values.first
    #expect(node?["blocked"] == "restart_limit")
    let newest = try await second.views.watchTasks().initial
    #expect(newest.json == watch.value)
    try await second.close()
    try await first.close()
  }
}
