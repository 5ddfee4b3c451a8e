import PerdureEngine
import PerdureModel
import PerdureTestKit
import PerdureValue
import Testing

@Suite(.timeLimit(.minutes(5))) struct TaskWaitTests {
  // MARK: failFast

  struct Join: Sendable, CustomTestStringConvertible {
    var policy: JoinPolicy
    /// How the first of three members ends.
    var first: String
    var othersAreAborted: Bool

    var testDescription: String { "\(policy.rawValue) \(first)" }
  }

  static let joins: [Join] = JoinPolicy.allCases.flatMap { policy in
    ["completed", "failed", "faulted", "aborted", "orphaned"].map {
      Join(policy: policy, first: $0, othersAreAborted: policy == .failFast && $0 != "completed")
    }
  }

  private static func member(_ go: Event) -> TestTask {
    TestTask("member") { runtime, record in
      guard let end = record.input.text else {
        await go.waitOrCancel()
        try await runtime.commit { _, _ in .terminal(.completed(result: "late")) }
        return
      }
      switch end {
      case "completed": try await runtime.commit { _, _ in .terminal(.completed(result: "early")) }
      case "failed": try await runtime.commit { _, _ in .terminal(.failed(message: "no")) }
      case "aborted": try await runtime.commit { _, _ in .terminal(.aborted()) }
      default: throw PerdureError(.invalidInput, "it broke")
      }
    }
  }

  /// A member whose code is nowhere.
  private static let absent = TestTask("absent") { _, _ in }

  @Test(arguments: joins)
  func `with failFast a member that does not complete takes the others along`(
    _ join: Join
  ) async throws {
    let bench = TestBench()
    let go = Event()
    let member = Self.member(go)
    let outcomes = Log<[String]>()
    let waiter = TestTask(
      "waiter",
      phases: [
        "start": { runtime, _ in
          try await runtime.commit { tx, record in
            var on: [TaskID] = []
            for input in [JSON.string(JSONString(join.first)), .null, .null] {
              on.append(
                try await tx.createTask(
                  input == "orphaned" ? Self.absent.definition : member.definition,
                  input: input,
                  owner: record.id,
                  conversation: record.conversationId
                ).id
              )
            }
            return .waiting(
              checkpoint: ["phase": "joined", "on": .array(on.map { $0.json })],
              on: on,
              policy: join.policy
            )
          }
        },
        "joined": { runtime, record in
          let ids = (record.state.checkpoint?["on"]?.array ?? []).compactMap { TaskID($0) }
          outcomes.add(try await runtime.outcomes(ids).map { $0.name })
          try await runtime.commit { _, _ in .terminal(.completed(result: .null)) }
        },
      ]
    )
    let engine = try await bench.open([member, waiter])
    let commits = Commits(engine.session)
    let id = try await engine.create(waiter)
    if join.first == "orphaned" {
      let waiting = await commits.task(id) { $0.state.status == .waiting }
      guard case .waiting(_, let on, _)? = waiting?.state else { return }
      #expect(try await engine.abortTask(try #require(on.first)) == .marked)
    } else {
      await commits.task("member") { !$0.isLive }
    }
    if !join.othersAreAborted { go.happen() }
    #expect(try await engine.outcome(id)?.isCompleted == true)
    let others = join.othersAreAborted ? "aborted" : "completed"
    #expect(outcomes.all == [[join.first, others, others]])
    #expect(try await engine.task(id)?.abortRequested == false)
    try await bench.end(engine)
  }

  // MARK: What is refused

  /// Waits in `wait` and reports what came of it.
  private func refusal(
    _ wait: @escaping @Sendable (TaskRuntime, TaskRecord, Transaction) async throws -> TaskState
  ) async throws -> (message: String?, outcome: TaskOutcome?) {
    let bench = TestBench()
    let messages = Log<String>()
    let waiter = TestTask("waiter") { runtime, _ in
      do {
        try await runtime.commit { tx, record in try await wait(runtime, record, tx) }
      } catch let error as PerdureError {
        messages.add(error.message)
        throw error
      }
    }
    let engine = try await bench.open([waiter])
    let id = try await engine.create(waiter)
    let outcome = try await engine.outcome(id)
    try await bench.end(engine)
    return (messages.all.first, outcome)
  }

  private static func waiting(_ on: [TaskID], _ policy: JoinPolicy = .allSettled) -> TaskState {
    .waiting(checkpoint: ["phase": "start", "again": true], on: on, policy: policy)
  }

  @Test func `a task does not wait for itself`() async throws {
    let (message, outcome) = try await refusal { _, record, _ in Self.waiting([record.id]) }
    #expect(message?.contains("wait for each other") == true)
    #expect(outcome?.name == "faulted")
  }

  @Test func `a task does not wait for one that is missing`() async throws {
    let (message, _) = try await refusal { _, _, _ in Self.waiting([.known(999)]) }
    #expect(message == "task 999 does not exist")
  }

  @Test func `a task fails fast only with tasks that it owns`() async throws {
    let (message, _) = try await refusal { _, record, tx in
      let other = try await tx.createTask(
        Self.member(Event()).definition,
        input: .null,
        conversation: record.conversationId
      )
      return Self.waiting([other.id], .failFast)
    }
    #expect(message?.contains("fail fast only with tasks that it owns") == true)
  }

  @Test(arguments: [-1, Int64.min]) func `a task sleeps until a time`(_ until: Int64) async throws {
    let (message, _) = try await refusal { _, _, _ in
      .sleeping(checkpoint: ["phase": "start"], until: until)
    }
    #expect(message?.contains("which is no time") == true)
  }

  @Test func `a task commits neither pending nor completing`() async throws {
    for state: TaskState in [
      .pending(checkpoint: ["phase": "x"]), .completing(.completed(result: 1)),
    ] {
      let (message, _) = try await refusal { _, _, _ in state }
      #expect(message?.contains("cannot commit the state") == true)
    }
  }

  // MARK: Cycles

  /// How a task comes to wait for another one that waits for it.
  enum Cycle: String, CaseIterable {
    case owner, grandOwner, eachOther, workBelowOther, ownerOfConversation
  }

  @Test(arguments: Cycle.allCases)
  func `a wait that would never end is refused`(_ cycle: Cycle) async throws {
    let bench = TestBench()
    let messages = Log<String>()
    let go = Event()
    // Waits for the ids of its input once it may.
    let waiter = TestTask(
      "waiter",
      phases: [
        "start": { runtime, record in
          await go.waitOrCancel()
          let on = (record.input.array ?? []).compactMap { TaskID($0) }
          do {
            try await runtime.commit { _, _ in
              .waiting(checkpoint: ["phase": "end"], on: on, policy: .allSettled)
            }
          } catch let error as PerdureError {
            messages.add(error.message)
            try await runtime.commit { _, _ in .terminal(.completed(result: .null)) }
          }
        },
        "end": { runtime, _ in
          try await runtime.commit { _, _ in .terminal(.completed(result: .null)) }
        },
      ]
    )
    let idle = TestTask("idle") { runtime, _ in
      try await runtime.commit { _, _ in
        .sleeping(checkpoint: ["phase": "start"], until: Int64.max)
      }
    }
    let engine = try await bench.open([waiter, idle])
    let commits = Commits(engine.session)
    var next = Int64(0)
    func minted() throws -> TaskID { try #require(TaskID(next)) }
    let top = try await engine.create(idle)
    next = top.value
    let last: TaskID
    switch cycle {
    case .owner: last = try await engine.create(waiter, input: [top.json], owner: top)
    case .grandOwner:
      let middle = try await engine.create(idle, owner: top)
      last = try await engine.create(waiter, input: [top.json], owner: middle)
    case .eachOther:
      // Ids ascend, so the first can name the second.
      let first = try await engine.create(waiter, input: [.int(top.value + 2)])
      last = try await engine.create(waiter, input: [first.json])
    case .workBelowOther:
      let below = try await engine.create(waiter, input: [.int(top.value + 2)], owner: top)
      last = try await engine.create(waiter, input: [top.json])
      _ = below
    case .ownerOfConversation:
      let home = try await engine.session.commit {
        try await $0.createConversation(owner: top).id
      }
      last = try await engine.create(waiter, input: [top.json], in: home)
    }
    await commits.status(last, .running)
    go.happen()
    await commits.task("waiter") { !$0.isLive }
    #expect(messages.all.count == 1)
    #expect(messages.all.first?.contains("wait for each other") == true)
    try await engine.close()
  }

  @Test func `a wait for one's own work and for work in the background is no cycle`() async throws {
    let bench = TestBench()
    let quick = TestTask("quick") { runtime, _ in
      try await runtime.commit { _, _ in .terminal(.completed(result: .null)) }
    }
    let waiter = TestTask(
      "waiter",
      phases: [
        "start": { runtime, _ in
          try await runtime.commit { tx, record in
            let own = try await tx.createTask(
              quick.definition,
              input: .null,
              owner: record.id,
              conversation: .root
            )
            let other = try await tx.createTask(
              quick.definition,
              input: .null,
              conversation: .root,
              background: true
            )
            return .waiting(
              checkpoint: ["phase": "end"],
              on: [own.id, other.id],
              policy: .allSettled
            )
          }
        },
        "end": { runtime, _ in
          try await runtime.commit { _, _ in .terminal(.completed(result: .null)) }
        },
      ]
    )
    let engine = try await bench.open([quick, waiter])
    #expect(try await engine.outcome(engine.create(waiter))?.isCompleted == true)
    await engine.waitUntilQuiet()
    #expect(engine.scheduler.heldTaskCount == 0)
    try await bench.end(engine)
  }

  @Test func `a wait for nothing and for ended tasks goes on at once`() async throws {
    let bench = TestBench()
    let waiter = TestTask(
      "waiter",
      phases: [
        "start": { runtime, record in
          let on = (record.input.array ?? []).compactMap { TaskID($0) }
          try await runtime.commit { _, _ in
            .waiting(checkpoint: ["phase": "end"], on: on, policy: .allSettled)
          }
        },
        "end": { runtime, _ in
          try await runtime.commit { _, _ in .terminal(.completed(result: .null)) }
        },
      ]
    )
    let engine = try await bench.open([waiter])
    let first = try await engine.create(waiter, input: [])
    #expect(try await engine.outcome(first)?.isCompleted == true)
    let second = try await engine.create(waiter, input: [first.json])
    #expect(try await engine.outcome(second)?.isCompleted == true)
    try await bench.end(engine)
  }
}
