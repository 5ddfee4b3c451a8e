import PerdureEngine
import PerdureModel
import PerdureStorage
import PerdureTestKit
import PerdureValue
import Testing

/// A store whose process dies after each of its commits.
@Suite(.timeLimit(.minutes(5))) struct TaskCrashTests {
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

  @Test func `a death after any commit leaves a store that comes to the same end`() async throws {
    var bench = TestBench()
    let recording = RecordingStorage(bench.memory)
    bench.front = { _ in recording }
    let tasks = [Self.child, Self.failing, Self.top]
    let first = try await bench.open(tasks)
    let id = try await first.create(Self.top)
    #expect(try await first.outcome(id) == .failed(message: "a member failed"))
    try await first.close()
    bench.front = nil
    let batches = recording.batches
    #expect(batches.count > 8)
    let nextId = try await MemoryStorage(continuing: bench.memory).counters().nextId
    for count in 1...batches.count {
      bench.memory = MemoryStorage()
      try await bench.memory.apply(
        Array(batches.prefix(count)),
        expecting: StoreCounters(),
        nextId: nextId
      )
      guard try await bench.memory.task(id) != nil else { continue }
      let engine = try await bench.open(tasks)
      let name: Comment = "commit \(count)"
      #expect(try await engine.outcome(id) == .failed(message: "a member failed"), name)
      let ended = try await TestBench.tasks(engine).filter { !$0.isLive }
      let background = try await TestBench.tasks(engine).filter { $0.background }
      #expect(ended.count == 4, name)
      #expect(background.map { $0.isLive && !$0.abortRequested } == [true], name)
      try await bench.end(engine)
    }
  }
}
