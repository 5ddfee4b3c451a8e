import PerdureEngine
import PerdureModel
import PerdureStorage
import PerdureTestKit
import PerdureValue
import Testing

/// A store whose process dies after each of its writes.
@Suite(.timeLimit(.minutes(2))) struct TaskCrashTests {
  /// Keeps what the store held after each write.
  private final class Snapshots: ForwardingStorage {
    let memory: MemoryStorage
    let all = Log<MemoryStorage>()

    init(_ memory: MemoryStorage) { self.memory = memory }

    var base: any Storage { memory }

    func around<Result>(
      writes: Bool,
      _ call: () async throws -> Result
    ) async throws -> Result {
      let result = try await call()
      if writes { all.add(MemoryStorage(continuing: memory)) }
      return result
    }
  }

  private static let child = TestTask(
    "child",
    phases: [
      "start": { runtime, _ in
        try await runtime.commit { _, _ in
          .sleeping(checkpoint: ["phase": "start"], until: .max)
        }
      }
    ]
  )

  /// Plants work below itself, waits for it, and fails over that which fails at once.
  private static let top = TestTask(
    "top",
    phases: [
      "start": { runtime, _ in
        try await runtime.commit { tx, record in
          let quick = try await tx.createTask(
            failing.definition,
            input: .null,
            owner: record.id,
            conversation: record.conversationId
          )
          let slow = try await tx.createTask(
            child.definition,
            input: .null,
            owner: record.id,
            conversation: record.conversationId
          )
          let home = try await tx.createConversation(owner: record.id)
          _ = try await tx.createTask(child.definition, input: .null, conversation: home.id)
          _ = try await tx.createTask(
            child.definition,
            input: .null,
            conversation: home.id,
            background: true
          )
          return .waiting(
            checkpoint: ["phase": "joined"],
            on: [quick.id, slow.id],
            policy: .failFast
          )
        }
      },
      "joined": { runtime, _ in
        try await runtime.commit { _, _ in .terminal(.failed(message: "a member failed")) }
      },
    ]
  )

  private static let failing = TestTask("failing") { runtime, _ in
    try await runtime.commit { _, _ in .terminal(.failed(message: "no")) }
  }

  @Test func `a death after any write leaves a store that comes to the same end`() async throws {
    var bench = TestBench()
    let snapshots = Snapshots(bench.memory)
    bench.front = { _ in snapshots }
    let tasks = [Self.child, Self.failing, Self.top]
    let first = try await bench.open(tasks)
    let id = try await first.create(Self.top)
    #expect(try await first.outcome(id) == .failed(message: "a member failed"))
    try await first.close()
    bench.front = nil
    #expect(snapshots.all.all.count > 4)
    for (number, snapshot) in snapshots.all.all.enumerated() {
      bench.memory = MemoryStorage(continuing: snapshot)
      guard try await bench.memory.task(id) != nil else { continue }
      let engine = try await bench.open(tasks)
      let name: Comment = "write \(number)"
      #expect(try await engine.outcome(id) == .failed(message: "a member failed"), name)
      let ended = try await TestBench.tasks(engine).filter { !$0.isLive }.map { $0.id.value }
      let background = try await TestBench.tasks(engine).filter { $0.background }
      #expect(ended.count == 4, name)
      #expect(background.map { $0.isLive && !$0.abortRequested } == [true], name)
      try await bench.end(engine)
    }
  }
}
