import Perdure
import PerdureModel
import PerdureStorage
import PerdureTestKit
import PerdureValue
import Synchronization
import Testing

@Suite(.timeLimit(.minutes(5))) struct TaskTypeTests {
  struct Order: Codable, Sendable {
    var pages: [String]
  }

  struct Position: TaskCheckpoint, Equatable {
    var phase = "collect"
    var children: [Int64] = []
  }

  struct Receipt: Codable, Sendable, Equatable {
    var text: String
  }

  struct Count: Codable, Sendable {
    var value = 0
  }

  private let clock = ManualClock()

  private func open(
    _ location: StoreLocation = .memory,
    _ tasks: [any TaskContribution],
    onWake: (@Sendable (HarnessWake) -> Void)? = nil
  ) async throws -> Harness {
    try await Harness.open(
      location,
      models: ScriptedModel { _ in ScriptedModel.text("done") },
      extensions: [Extension(name: "app", tasks: tasks)],
      clock: clock,
      onWake: onWake
    )
  }

  /// Fetches one page.
  private static let page = TaskType<String, Position, Receipt>(
    "app.page",
    initial: { _ in Position(phase: "fetch") },
    phases: [
      Phase("fetch") { run in
        if run.input == "missing" {
          return try await run.commit { _ in .failed("there is no page", detail: ["status": 404]) }
        }
        if run.input == "slow" {
          return try await run.sleep(until: run.now + 60_000, at: Position(phase: "late"))
        }
        try await run.commit { _ in .completed(Receipt(text: "<\(run.input)>")) }
      },
      Phase("late") { run in try await run.commit { _ in .completed(Receipt(text: "late")) } },
    ]
  )

  /// Fetches its pages beside each other and joins them.
  private static let report = TaskType<Order, Position, Receipt>(
    "app.report",
    initial: { _ in Position() },
    phases: [
      Phase("collect") { run in
        try await run.commit { tx in
          var children: [TaskID] = []
          for name in run.input.pages {
            let options = TaskOptions(owner: .task(run.id))
            children.append(try await tx.createTask(page, name, options))
          }
          let next = Position(phase: "join", children: children.map { $0.value })
          return .waiting(next, on: children, policy: .failFast)
        }
      },
      Phase("join") { run in
        let outcomes = try await run.outcomes(run.checkpoint.children.compactMap { TaskID($0) })
        guard outcomes.allSatisfy({ $0.isCompleted }) else {
          return try await run.commit { _ in .failed("a page is missing") }
        }
        let texts = outcomes.compactMap { $0.result?["text"]?.text }
        try await run.commit { _ in .completed(Receipt(text: texts.joined())) }
      },
    ]
  )

  @Test func `a task joins what it owns and completes with a typed result`() async throws {
    let harness = try await open(.memory, [Self.page, Self.report])
    let root = try await harness.root()
    let id = try await root.commit {
      try await $0.createTask(Self.report, Order(pages: ["a", "b"]))
    }
    let record = try await harness.waitForTask(id)
    #expect(try Self.report.result(of: record) == Receipt(text: "<a><b>"))
    try await harness.waitForIdle()
    #expect(try await harness.inspect().tasks.isEmpty)
    try await harness.close()
  }

  @Test func `a failed member takes the others of a wait that fails fast along`() async throws {
    let harness = try await open(.memory, [Self.page, Self.report])
    let root = try await harness.root()
    let id = try await root.commit {
      try await $0.createTask(Self.report, Order(pages: ["slow", "missing", "slow"]))
    }
    let record = try await harness.waitForTask(id)
    #expect(record.state.outcome == .failed(message: "a page is missing"))
    #expect(try Self.report.result(of: record) == nil)
    try await harness.close()
  }

  @Test func `a sleeping task goes on in the next process`() async throws {
    let storage = MemoryStorage()
    let first = try await open(.custom(storage), [Self.page])
    let root = try await first.root()
    let id = try await root.commit { try await $0.createTask(Self.page, "slow") }
    try await first.resume()
    await clock.waitForSleeper(ofExactly: .seconds(60))
    try await first.close()
    let second = try await open(.custom(MemoryStorage(continuing: storage)), [Self.page])
    clock.advance(by: .seconds(60))
    let record = try await second.waitForTask(id)
    #expect(try Self.page.result(of: record) == Receipt(text: "late"))
    try await second.close()
  }

  @Test func `a host with a timer of its own is told when to resume`() async throws {
    let wakes = Wakes()
    let harness = try await open(.memory, [Self.page], onWake: { wakes.add($0) })
    let root = try await harness.root()
    let id = try await root.commit { try await $0.createTask(Self.page, "slow") }
    try await harness.resume()
    let due = clock.now() + 60_000
    await wakes.first { !$0.isActive && $0.at == due }
    clock.advance(by: .seconds(60))
    #expect(try await harness.wake().isActive)
    try await harness.resume()
    #expect(try await harness.waitForTask(id).state.outcome?.isCompleted == true)
    try await harness.close()
  }

  @Test func `input that does not have the form of its type faults the task`() async throws {
    let strings = TaskType<String, Position, Receipt>(
      "app.typed",
      initial: { _ in Position() },
      phases: [Phase("collect") { run in try await run.commit { _ in .aborted() } }]
    )
    let numbers = TaskType<Int, Position, Receipt>(
      "app.typed",
      initial: { _ in Position() },
      phases: [Phase("collect") { _ in }]
    )
    let harness = try await open(.memory, [numbers])
    let root = try await harness.root()
    let id = try await root.commit { try await $0.createTask(strings, "no number") }
    let record = try await harness.waitForTask(id)
    guard case .faulted(let message, _)? = record.state.outcome else {
      Issue.record("it did not fault")
      return
    }
    #expect(message.contains("the input of a task 'app.typed' does not have the form"))
    try await harness.close()
  }

  @Test func `a task keeps typed memos and reads and writes documents`() async throws {
    let counter = Document("app.counter", scope: .session) { _ in Count() }
    let counting = TaskType<String, Position, Int>(
      "app.count",
      initial: { _ in Position() },
      phases: [
        Phase("collect") { run in
          let first = try await run.memo("pages", ["a", "b"])
          let second = try await run.memo("pages", ["c"])
          #expect(first == second)
          #expect(try run.memo("pages", as: [String].self) == first)
          try await run.commit { tx in
            try await tx.update(counter) { $0.value += first.count }
            return nil
          }
          let value = try await run.value(counter)?.value ?? 0
          #expect(try await run.conversation(run.conversationId)?.id == .root)
          try await run.commit { _ in .completed(value) }
        }
      ]
    )
    let harness = try await open(.memory, [counting])
    let root = try await harness.root()
    let id = try await root.commit { try await $0.createTask(counting, "") }
    #expect(try counting.result(of: try await harness.waitForTask(id)) == 2)
    try await harness.close()
  }

  @Test func `an aborted task tells its code and runs its abort handler`() async throws {
    let endless = TaskType<String, Position, Receipt>(
      "app.endless",
      initial: { _ in Position() },
      phases: [
        Phase("collect") { run in
          while !run.isCancelled { await Task.yield() }
          throw PerdureError(.cancelled, "cancelled")
        }
      ],
      abort: { run in
        #expect(run.isAborting)
        try await run.commit { _ in .aborted(reason: "told", result: Receipt(text: "partly")) }
      }
    )
    let harness = try await open(.memory, [endless])
    let root = try await harness.root()
    let id = try await root.commit { try await $0.createTask(endless, "") }
    try await harness.resume()
    #expect(try await harness.abortTask(id) == .marked)
    let record = try await harness.waitForTask(id)
    #expect(record.state.outcome == .aborted(reason: "told", result: ["text": "partly"]))
    #expect(try await harness.abortTask(id) == .ended)
    try await harness.close()
  }

  /// What is wrong with a new task.
  enum Mistake: CaseIterable {
    case missingOwner, missingConversation, ownedInBackground, ownedElsewhere
  }

  @Test(arguments: Mistake.allCases)
  func `a task that could not live is not created`(_ mistake: Mistake) async throws {
    let harness = try await open(.memory, [Self.page])
    let root = try await harness.root()
    let other = try await harness.createConversation()
    let owner = try await root.commit { try await $0.createTask(Self.page, "slow") }
    let error = await #expect(throws: PerdureError.self) {
      try await harness.commit { tx in
        switch mistake {
        case .missingOwner:
          try await tx.createTask(Self.page, "x", TaskOptions(owner: .task(TaskID(99) ?? owner)))
        case .missingConversation: try await tx.createTask(Self.page, "x")
        case .ownedInBackground:
          try await tx.createTask(
            Self.page,
            "x",
            TaskOptions(owner: .task(owner), isInBackground: true)
          )
        case .ownedElsewhere:
          try await tx.createTask(
            Self.page,
            "x",
            TaskOptions(owner: .task(owner), conversation: other.id)
          )
        }
      }
    }
    #expect(error?.code == (mistake == .missingOwner ? .notFound : .invalidInput))
    try await harness.close()
  }

  @Test func `aborting everything reaches tasks that are not in memory`() async throws {
    let sleeper = TaskType<Int, Position, Receipt>(
      "app.sleeper",
      initial: { _ in Position(phase: "sleep") },
      phases: [
        Phase("sleep") { run in
          try await run.sleep(until: run.now + 1_000_000_000, at: Position(phase: "sleep"))
        }
      ]
    )
    let harness = try await open(.memory, [sleeper])
    let (asleep, sleeps) = AsyncStream.makeStream(of: Void.self)
    let end = harness.subscribe { summary in
      for task in summary.tasks where task.state.status == .sleeping { sleeps.yield() }
    }
    let other = try await harness.createConversation()
    let root = try await harness.root()
    for conversation in [other, root] {
      try await conversation.commit { tx in
        for number in 0..<700 {
          _ = try await tx.createTask(sleeper, number, TaskOptions(isInBackground: true))
        }
      }
    }
    try await harness.resume()
    var count = 0
    for await _ in asleep {
      count += 1
      if count == 1_400 { break }
    }
    end()
    // Else this proves nothing.
    #expect(harness.liveTasks.count < 1_400)
    try await harness.abortAll()
    #expect(try await harness.inspect().tasks.isEmpty)
    try await harness.close()
  }
}

/// What a host was told of when its store needs a process.
private final class Wakes: Sendable {
  private struct State {
    var all: [HarnessWake] = []
    var waiting: [CheckedContinuation<Void, Never>] = []
  }

  private let state = Mutex(State())

  func add(_ wake: HarnessWake) {
    let waiting = state.withLock { state in
      state.all.append(wake)
      defer { state.waiting = [] }
      return state.waiting
    }
    for continuation in waiting { continuation.resume() }
  }

  /// Returns once one has come that fits.
  func first(_ fits: (HarnessWake) -> Bool) async {
    while true {
      let (found, count) = state.withLock { ($0.all.contains(where: fits), $0.all.count) }
      if found { return }
      await withCheckedContinuation { continuation in
        let isBehind = state.withLock { state in
          if state.all.count == count { state.waiting.append(continuation) }
          return state.all.count > count
        }
        if isBehind { continuation.resume() }
      }
    }
  }
}
