import PerdureEngine
import PerdureModel
import PerdureStorage
import PerdureTestKit
import PerdureValue
import Testing

/// Stores that need what this version lacks.
@Suite struct RefusalTests {
  private static let running = TaskState.running(checkpoint: ["phase": "summarize"])

  /// A store in which a task that only another program knows ran when that died.
  private static func store() async throws -> (storage: MemoryStorage, task: TaskID) {
    let storage = MemoryStorage()
    let id = try #require(TaskID(2))
    let task = TaskRecord(
      id: id,
      conversationId: .root,
      kind: "pi.other",
      version: 1,
      input: [:],
      state: running
    )
    let batch = Batch(
      sequence: 1,
      writes: [.conversation(ConversationRecord(id: .root)), .task(task)],
      at: 0
    )
    try await storage.apply([batch], expecting: StoreCounters(), nextId: 3)
    return (storage, id)
  }

  private static func open(_ storage: any Storage) async throws -> Engine {
    var bench = TestBench()
    bench.front = { _ in storage }
    return try await bench.open(ScriptedModel { _ in ScriptedModel.text("hello") })
  }

  @Test func `work of an unknown kind keeps all work from running`() async throws {
    let engine = try await Self.open(try await Self.store().storage)
    let error = await #expect(throws: PerdureError.self) { try await engine.resume() }
    #expect(error?.code == .unsupportedFeature)
  }

  @Test func `a store that is refused takes no submission`() async throws {
    let engine = try await Self.open(try await Self.store().storage)
    let other = try await engine.createConversation()
    let error = await #expect(throws: PerdureError.self) {
      try await engine.submit("hello", to: other)
    }
    #expect(error?.code == .unsupportedFeature)
  }

  @Test func `a task that cannot go on here stays as its program left it`() async throws {
    let (storage, task) = try await Self.store()
    let engine = try await Self.open(storage)
    try? await engine.resume()
    let shown = try await engine.inspect().tasks
    #expect(shown.map(\.record.id) == [task])
    try await engine.session.barrier()
    let record = try await storage.task(task)
    #expect(record?.state == Self.running)
    #expect(record?.restarts == nil)
    try await engine.close()
  }
}
