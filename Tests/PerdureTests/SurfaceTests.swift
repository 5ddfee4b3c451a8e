import Perdure
import PerdureModel
import PerdureStorage
import PerdureTestKit
import PerdureValue
import Testing

/// Members under the names that code for another wrapper of the same surface expects.
@Suite(.timeLimit(.minutes(5))) struct SurfaceTests {
  private struct Position: TaskCheckpoint { var phase = "start" }

  private struct Count: Codable, Sendable, Equatable { var n = 0 }

  private static let count = Document("surface.count", scope: .session) { _ in Count() }
  private static let silent = ScriptedModel { _ in ScriptedModel.text("done") }
  private static let plain = TaskType<String, Position, String>(
    "surface.plain",
    initial: { _ in Position() },
    phases: [Phase("start") { run in try await run.commit { _ in .completed("ran") } }]
  )

  private func open(_ storage: MemoryStorage, resume: Bool = false) async throws -> Harness {
    try await Harness.open(
      .custom(storage),
      models: Self.silent,
      extensions: [Extension(name: "surface", tasks: [Self.plain])],
      resume: resume
    )
  }

  @Test func `opening with resume lets unfinished work go on`() async throws {
    let storage = MemoryStorage()
    let first = try await open(storage)
    let root = try await first.root()
    let id = try await first.commit {
      try await $0.createTask(Self.plain, "x", .init(conversation: root.id))
    }
    try await first.close()
    let second = try await open(MemoryStorage(continuing: storage), resume: true)
    await second.waitUntilQuiet()
    let record = try #require(try await second.task(id))
    #expect(try Self.plain.result(of: record) == "ran")
    try await second.close()
  }

  @Test func `a task can own a new conversation and a fork`() async throws {
    let harness = try await open(MemoryStorage())
    let root = try await harness.root(agent: AgentChange(model: ScriptedModel.reference))
    let entry = try await harness.commit {
      try await $0.append(EntryDraft(kind: "note"), to: root.id)
    }
    let id = try await harness.commit {
      try await $0.createTask(Self.plain, "x", .init(conversation: root.id))
    }
    let made = try await harness.createConversation(ownedBy: id)
    let fork = try await root.fork(at: entry.id, ownedBy: id)
    let owners = try await harness.commit { tx in
      [try await tx.conversation(made.id), try await tx.conversation(fork.id)].map {
        $0?.owner?.taskId
      }
    }
    #expect(owners == [id, id])
    #expect(try await made.agent["model"] == ScriptedModel.reference.json)
    try await harness.close()
  }

  @Test func `the values of a document are those of its state`() async throws {
    let harness = try await open(MemoryStorage())
    #expect(try await harness.values(of: Self.count) == nil)
    try await harness.commit { try await $0.update(Self.count) { $0.n = 1 } }
    let values = try #require(try await harness.values(of: Self.count))
    var reader = values.makeAsyncIterator()
    #expect(try await reader.next()?.value == Count(n: 1))
    try await harness.commit { try await $0.update(Self.count) { $0.n = 2 } }
    #expect(try await reader.next()?.value == Count(n: 2))
    try await harness.close()
  }

  @Test func `closing tells how the store came to its end`() async throws {
    let harness = try await open(MemoryStorage())
    async let end = harness.closing()
    try await harness.close()
    guard case .closed = try await end else { return #expect(Bool(false), "it failed") }
  }

  @Test func `operations are applied to a value`() throws {
    let batch = try Operation.batch(json: [["a", ["text"], "def"]])
    #expect(try applyOperations(batch, to: ["text": "abc"]) == ["text": "abcdef"])
  }

  @Test func `the cases for storages run as one`() async throws {
    let stores = Stores()
    try await runStorageConformance { number in
      try await DirectStore(await stores.store(number))
    }
    await #expect(throws: ConformanceFailure.self) {
      // Always the same store, which is not empty for the second case.
      try await runStorageConformance { _ in try await DirectStore(await stores.store(-1)) }
    }
  }

  /// What survives a reopening.
  private actor Stores {
    private var known: [Int: MemoryStorage] = [:]

    func store(_ number: Int) -> MemoryStorage {
      let store = known[number].map { MemoryStorage(continuing: $0) } ?? MemoryStorage()
      known[number] = store
      return store
    }
  }
}
