import PerdureEngine
import PerdureModel
import PerdureStorage
import PerdureTestKit
import PerdureValue
import Testing

/// What the code of tasks may do, and what aborts, restarts and waits do to tasks.
@Suite(.timeLimit(.minutes(5))) struct TaskLifeTests {
  private static func complete(_ runtime: TaskRuntime, _ result: JSON = .null) async throws {
    try await runtime.commit { _, _ in .terminal(.completed(result: result)) }
  }

  private func code(_ body: () async throws -> Void) async -> PerdureError.Code? {
    do {
      try await body()
      return nil
    } catch {
      return (error as? PerdureError)?.code
    }
  }

  // MARK: Runtime

  @Test func `the first memo of a name wins also over a restart`() async throws {
    let bench = TestBench()
    let (hasKept, mayEnd) = (Event(), Event())
    func task(_ candidate: JSON, ends: Bool) -> TestTask {
      TestTask("memo") { runtime, _ in
        let kept = try await runtime.memo("name", candidate)
        hasKept.happen()
        if !ends { await mayEnd.wait() }
        try await Self.complete(runtime, [kept, try runtime.memo("name") ?? .null])
      }
    }
    let first = try await bench.open([task("a", ends: false)])
    let id = try await first.create(task("a", ends: false))
    await hasKept.wait()
    try await first.session.barrier()
    let next = bench.afterDeath()
    mayEnd.happen()
    try await first.close()
    let engine = try await next.open([task("b", ends: true)])
    #expect(try await engine.outcome(id)?.result == ["a", "a"])
    #expect(try await engine.task(id)?.memos == nil)
    try await next.end(engine)
  }

  @Test func `a runtime is of no use once its invocation has ended`() async throws {
    let bench = TestBench()
    let runtimes = Log<TaskRuntime>()
    let task = TestTask("work") { runtime, _ in
      runtimes.add(runtime)
      try await Self.complete(runtime)
    }
    let engine = try await bench.open([task])
    let id = try await engine.create(task)
    _ = try await engine.outcome(id)
    await engine.waitUntilQuiet()
    let runtime = try #require(runtimes.all.first)
    let uses: [() async throws -> Void] = [
      { try await runtime.commit { _, _ in nil } }, { _ = try runtime.memo("x") },
      { _ = try await runtime.memo("x", 1) }, { _ = try await runtime.task(id) },
      { _ = try await runtime.waitForTask(id) }, { _ = try await runtime.ownedTasks() },
      { _ = try await runtime.outcomes([id]) }, { _ = try await runtime.context(of: .root) },
      { try await runtime.abortOwned(id) },
    ]
    for use in uses { #expect(await code(use) == .invocationEnded) }
    try await bench.end(engine)
  }

  @Test func `a task lists and aborts what it owns and nothing else`() async throws {
    let bench = TestBench()
    let owned = TestTask("owned") { _, _ in await Event().waitOrCancel() }
    let found = Log<[String]>()
    let task = TestTask("work") { runtime, record in
      let other = try #require(TaskID(record.input))
      let own = Log<TaskID>()
      try await runtime.commit { tx, record in
        for _ in 0..<2 {
          let new = try await tx.createTask(
            owned.definition,
            input: .null,
            owner: record.id,
            conversation: .root
          )
          own.add(new.id)
        }
        return nil
      }
      let listed = try await runtime.ownedTasks().map { $0.id }
      #expect(listed == own.all)
      try await runtime.abortOwned(own.all[0])
      try await runtime.abortOwned(own.all[0])
      found.add(try await runtime.outcomes([own.all[0]]).map { $0.name })
      #expect(try await runtime.ownedTasks().map { $0.id } == [own.all[1]])
      do {
        try await runtime.abortOwned(other)
      } catch let error as PerdureError {
        found.add([error.code.rawValue])
      }
      do {
        _ = try await runtime.outcomes([own.all[1]])
      } catch let error as PerdureError {
        found.add([error.code.rawValue])
      }
      try await runtime.commit { _, _ in .terminal(.failed(message: "enough")) }
    }
    let engine = try await bench.open([owned, task])
    let other = try await engine.create(owned)
    let id = try await engine.create(task, input: other.json)
    #expect(try await engine.outcome(id)?.name == "failed")
    #expect(found.all == [["aborted"], ["not_found"], ["invalid_request"]])
    #expect(try await engine.status(other) == .running)
    try await engine.close()
  }

  @Test func `an abort handler that waits or sleeps faults`() async throws {
    for state: TaskState in [
      .waiting(checkpoint: ["phase": "start"], on: [], policy: .allSettled),
      .sleeping(checkpoint: ["phase": "start"], until: 9),
    ] {
      let bench = TestBench()
      let task = TestTask(
        "work",
        phases: ["start": { _, _ in await Event().waitOrCancel() }],
        abort: { runtime, _ in try await runtime.commit { _, _ in state } }
      )
      let engine = try await bench.open([task])
      let id = try await engine.create(task)
      _ = try await engine.abortTask(id)
      #expect(try await engine.outcome(id)?.name == "faulted")
      try await bench.end(engine)
    }
  }

  @Test func `a phase without durable progress faults`() async throws {
    let bench = TestBench()
    let task = TestTask("work") { _, _ in }
    let engine = try await bench.open([task])
    let id = try await engine.create(task)
    #expect(try await engine.outcome(id) == .faulted(message: "no durable progress"))
    try await bench.end(engine)
    // Told once it is on disk, and before the end, which waits for what runs.
    #expect(bench.reports.all.map(\.type) == ["task_faulted"])
  }

  @Test func `an ending task owns nothing new`() async throws {
    let bench = TestBench()
    let child = TestTask("child") { runtime, _ in try await Self.complete(runtime) }
    let task = TestTask("work") { runtime, _ in
      try await runtime.commit { tx, record in
        _ = try await tx.createTask(
          child.definition,
          input: .null,
          owner: record.id,
          conversation: .root
        )
        return .terminal(.completed(result: .null))
      }
    }
    let engine = try await bench.open([child, task])
    let id = try await engine.create(task)
    #expect(try await engine.outcome(id)?.name == "faulted")
    #expect(try await TestBench.tasks(engine).count == 1)
    try await bench.end(engine)
  }

  // MARK: Abort

  /// Where a task stands when it is aborted.
  enum Stand: String, CaseIterable {
    case pending, running, waiting, sleeping, blocked, completing
  }

  @Test(arguments: Stand.allCases)
  func `an abort ends a task wherever it stands`(_ stand: Stand) async throws {
    let bench = TestBench()
    let handled = Log<TaskID>()
    let task = TestTask(
      "work",
      phases: [
        "start": { runtime, record in
          let kind = record.input["kind"]?.text
          let on = TaskID(record.input["on"])
          switch kind {
          case "waiting":
            try await runtime.commit { _, _ in
              .waiting(
                checkpoint: ["phase": "start"],
                on: on.map { [$0] } ?? [],
                policy: .allSettled
              )
            }
          case "sleeping":
            try await runtime.commit { _, _ in
              .sleeping(checkpoint: ["phase": "start"], until: .max)
            }
          case "completing":
            try await runtime.commit { tx, _ in
              let home = try await tx.createConversation(owner: runtime.taskId)
              _ = try await tx.createTask(
                Self.endless.definition,
                input: .null,
                conversation: home.id
              )
              return nil
            }
            try await Self.complete(runtime)
          default: await Event().waitOrCancel()
          }
        }
      ],
      abort: { runtime, _ in
        handled.add(runtime.taskId)
        try await runtime.commit { _, _ in .terminal(.aborted()) }
      }
    )
    let tasks = stand == .blocked ? [Self.endless] : [task, Self.endless]
    let engine = try await bench.open(tasks, resuming: false)
    let commits = Commits(engine.session)
    let other = try await engine.create(Self.endless, background: true)
    let id = try await engine.create(
      task,
      input: ["kind": .string(JSONString(stand.rawValue)), "on": other.json]
    )
    if stand != .pending { try await engine.resume() }
    switch stand {
    case .pending: break
    case .blocked: _ = await commits.status(other, .running)
    case .running, .waiting, .sleeping, .completing:
      let status = try #require(TaskState.Status(rawValue: stand.rawValue))
      await commits.status(id, status)
    }
    #expect(try await engine.abortTask(id) == .marked)
    let outcome = try await engine.outcome(id)
    switch stand {
    case .blocked: #expect(outcome?.name == "orphaned")
    case .completing:
      #expect(outcome?.name == "completed")
      #expect(try await engine.task(id)?.abortRequested == true)
    case .pending, .running, .waiting, .sleeping: #expect(outcome?.name == "aborted")
    }
    let hasHandler = stand != .blocked && stand != .completing
    #expect(handled.all == (hasHandler ? [id] : []))
    try await engine.close()
  }

  private static let endless = TestTask("endless") { _, _ in await Event().waitOrCancel() }

  @Test func `an abort of a task that is missing is refused`() async throws {
    let bench = TestBench()
    let engine = try await bench.open([])
    #expect(await code { _ = try await engine.abortTask(.known(77)) } == .notFound)
    #expect(await code { _ = try await engine.waitForTask(.known(77)) } == .notFound)
    #expect(await code { try await engine.retryTask(.known(77)) } == .notFound)
    try await bench.end(engine)
  }

  @Test func `work created below a cancelled task is cancelled too`() async throws {
    let bench = TestBench()
    let mayAbort = Event()
    let slow = TestTask(
      "slow",
      phases: ["start": { _, _ in await Event().waitOrCancel() }],
      abort: { runtime, _ in
        await mayAbort.wait()
        try await runtime.commit { _, _ in .terminal(.aborted()) }
      }
    )
    let engine = try await bench.open([slow, Self.endless])
    let commits = Commits(engine.session)
    let top = try await engine.create(Self.endless)
    let home = try await engine.session.commit { try await $0.createConversation(owner: top).id }
    let first = try await engine.create(slow, in: home)
    await commits.status(first, .running)
    let stop = Task { try await engine.abortTask(top) }
    await commits.task(first) { $0.abortRequested }
    let late = try await engine.create(Self.endless, in: home)
    #expect(try await engine.outcome(late)?.name == "aborted")
    mayAbort.happen()
    #expect(try await engine.outcome(top)?.name == "aborted")
    _ = try await stop.value
    try await bench.end(engine)
  }

  @Test func `inputs queued below a cancelled task are withdrawn and writes stay`() async throws {
    let bench = TestBench()
    let engine = try await bench.open([Self.endless])
    let commits = Commits(engine.session)
    let top = try await engine.create(Self.endless)
    await commits.status(top, .running)
    let home = try await engine.session.commit { try await $0.createConversation(owner: top).id }
    func queue(
      _ conversation: ConversationID,
      _ kind: SubmissionRecord.Kind
    ) async throws
      -> SubmissionID
    {
      try await engine.session.commit { tx in
        let record = try await tx.createSubmission(
          in: conversation,
          requestId: nil,
          kind: kind,
          state: .queued
        )
        let item: JSON =
          kind == .input
          ? ["id": record.id.json, "mode": "followUp", "content": "x"]
          : ["id": record.id.json, "mode": "write", "entry": ["kind": "note"]]
        try await tx.edit(.inbox, conversation) { inbox in
          let items = inbox.value["items"]?.array ?? []
          try inbox.splice(["items"], at: items.count, remove: 0, insert: [item])
        }
        return record.id
      }
    }
    let own = try await queue(.root, .input)
    let input = try await queue(home, .input)
    let write = try await queue(home, .write)
    _ = try await engine.abortTask(top)
    _ = try await engine.outcome(top)
    #expect(try await engine.submission(input)?.reason == "aborted")
    #expect(try await engine.submission(write)?.status == .queued)
    #expect(try await engine.submission(own)?.status == .queued)
    try await engine.close()
  }

  // MARK: Restarts

  @Test func `a task that a restart abandons is aborted with that reason`() async throws {
    let bench = TestBench()
    let first = try await bench.open([Self.endless])
    let commits = Commits(first.session)
    let home = try await first.createConversation()
    let id = try await first.create(Self.endless, in: home, abandonOnRestart: true)
    let below = try await first.create(Self.endless, owner: id, in: home)
    let other = try await first.create(Self.endless)
    for task in [id, below, other] { await commits.status(task, .running) }
    try await first.session.barrier()
    let next = bench.afterDeath()
    try await first.close()
    let engine = try await next.open([Self.endless], resuming: false)
    #expect(try await engine.task(id)?.abortRequested == false)
    try await engine.resume()
    #expect(try await engine.outcome(id) == .aborted(reason: "restart"))
    #expect(try await engine.task(below)?.state.outcome == .aborted(reason: "restart"))
    #expect(try await engine.task(other)?.abortRequested == false)
    try await engine.close()
  }

  @Test func `a task that a restart abandons waits for its code`() async throws {
    let bench = TestBench()
    let first = try await bench.open([Self.endless], resuming: false)
    let id = try await first.create(Self.endless, abandonOnRestart: true)
    try await first.close()
    let engine = try await bench.afterDeath().open([])
    await engine.waitUntilQuiet()
    #expect(engine.scheduler.obstacles.map(\.reason) == ["missing_task"])
    #expect(try await engine.task(id)?.abortReason == "restart")
    try engine.registry.install(Extension(name: "late", tasks: [Self.endless]))
    #expect(try await engine.outcome(id) == .aborted(reason: "restart"))
    try await engine.close()
  }

  @Test func `a parked task goes on when it is retried`() async throws {
    let bench = TestBench()
    let quick = TestTask("quick") { runtime, _ in try await Self.complete(runtime) }
    let first = try await bench.open([quick], resuming: false)
    let id = try await first.create(quick)
    try await first.close()
    let death = bench.afterDeath()
    let session = try await Session.open(death.memory, clock: death.clock)
    var record = try #require(session.liveTask(id))
    record.restarts = 5
    _ = try await session.store.stage([.task(record)])
    try await session.close()
    let engine = try await death.afterDeath().open([quick])
    await engine.waitUntilQuiet()
    #expect(engine.scheduler.obstacles.map(\.reason) == ["restart_limit"])
    #expect(death.reports.all.map(\.type) == ["task_parked"])
    try await engine.retryTask(id)
    #expect(try await engine.outcome(id)?.isCompleted == true)
    try await engine.retryTask(id)
    try await engine.close()
  }

  /// Walk-through A11.
  @Test func `a generation that faults takes its calls along and then settles its inputs`()
    async throws
  {
    let bench = TestBench()
    let (hasStarted, mayEnd) = (Event(), Event())
    let tool = plainTool("works", replay: .safe) { _ in
      hasStarted.happen()
      await mayEnd.wait()
      return .text("lost")
    }
    let first = try await bench.open(calling(("a", "works", [:])), tools: [tool])
    _ = try await bench.start(first)
    let input = try await first.submit("hi", to: .root, requestId: "r")
    await hasStarted.wait()
    let death = bench.afterDeath()
    mayEnd.happen()
    try await first.close()
    let session = try await Session.open(death.memory, clock: death.clock)
    var broken = try #require(session.liveTasks.values.first { $0.kind == "pi.generation" })
    broken.state = .pending(checkpoint: ["phase": "tools"])
    _ = try await session.store.stage([.task(broken)])
    try await session.close()
    let held = plainTool("works", replay: .safe) { _ in
      await Event().waitOrCancel()
      return .text("cancelled")
    }
    let last = death.afterDeath()
    let engine = try await last.open(calling(("a", "works", [:])), tools: [held])
    let commits = Commits(engine.session)
    #expect(try await engine.wait(for: input).reason == "faulted")
    let order = commits.all.flatMap { $0.tasks }.map { record in
      "\(record.kind.string) \(record.state.outcome?.name ?? record.state.status.rawValue)"
        + (record.isLive ? "" : " ended")
    }
    let fault = try #require(order.firstIndex(of: "pi.generation faulted"))
    let tools = try #require(order.firstIndex(of: "pi.tool aborted ended"))
    let end = try #require(order.firstIndex(of: "pi.generation faulted ended"))
    #expect(fault < tools && tools < end)
    #expect(try await TestBench.results(engine).count == 1)
    try await last.end(engine)
  }

  // MARK: Waits and looks from outside

  @Test func `cancelling a wait ends the wait and not the task`() async throws {
    let bench = TestBench()
    let engine = try await bench.open([Self.endless])
    let commits = Commits(engine.session)
    let id = try await engine.create(Self.endless)
    await commits.status(id, .running)
    let waits = [
      Task { _ = try await engine.waitForTask(id) }, Task { try await engine.waitForIdle(.root) },
      Task { try await engine.waitForIdle() },
    ]
    for wait in waits {
      wait.cancel()
      #expect(await code { try await wait.value } == .cancelled)
    }
    #expect(try await engine.status(id) == .running)
    try await engine.close()
  }

  @Test func `waits end when the harness closes`() async throws {
    let bench = TestBench()
    let engine = try await bench.open([Self.endless])
    let commits = Commits(engine.session)
    let id = try await engine.create(Self.endless)
    await commits.status(id, .running)
    let waits = [
      Task { _ = try await engine.waitForTask(id) }, Task { try await engine.waitForIdle(.root) },
    ]
    try await engine.close()
    for wait in waits { #expect(await code { try await wait.value } == .closed) }
  }

  @Test func `a conversation is idle when only background work is live`() async throws {
    let bench = TestBench()
    let engine = try await bench.open([Self.endless])
    let top = try await engine.create(Self.endless, background: true)
    let home = try await engine.session.commit { try await $0.createConversation(owner: top).id }
    let below = try await engine.create(Self.endless, in: home)
    try await engine.waitForIdle(.root)
    try await engine.waitForIdle()
    #expect(try await engine.status(below) != .terminal)
    try await engine.close()
  }

  @Test func `an inspection says what keeps each task and lets nothing run`() async throws {
    let bench = TestBench()
    let quick = TestTask("quick") { runtime, _ in try await Self.complete(runtime) }
    let engine = try await bench.open([quick], resuming: false)
    let ready = try await engine.create(quick)
    let missing = try await engine.create(Self.endless)
    let paused = try await engine.inspect()
    #expect(paused.scheduling == .paused)
    #expect(paused.tasks.map(\.record.id) == [ready, missing])
    #expect(
      paused.tasks.map(\.readiness) == [
        .ready(migrates: false), .blocked(reason: "missing_task", error: nil),
      ]
    )
    #expect(try await engine.wake() == Wake(isActive: true, at: nil))
    try await engine.resume()
    await engine.waitUntilQuiet()
    let running = try await engine.inspect()
    #expect(running.scheduling == .running)
    #expect(running.tasks.map(\.record.id) == [missing])
    #expect(try await engine.wake() == Wake(isActive: false, at: nil))
    try await bench.end(engine)
  }

  @Test func `a sleeping task is woken by the clock and by nothing before`() async throws {
    let bench = TestBench()
    let until = bench.clock.now() + 90_000
    let sleeper = TestTask(
      "sleeper",
      phases: [
        "start": { runtime, _ in
          try await runtime.commit { _, _ in
            .sleeping(checkpoint: ["phase": "end"], until: until)
          }
        },
        "end": { runtime, _ in try await Self.complete(runtime, .int(runtime.now)) },
      ]
    )
    let engine = try await bench.open([sleeper])
    let commits = Commits(engine.session)
    let id = try await engine.create(sleeper)
    await commits.status(id, .sleeping)
    #expect(try await engine.wake().at == until)
    // A long sleep looks at the clock once a minute.
    await bench.clock.waitForSleeper(ofExactly: .seconds(60))
    bench.clock.advance(by: .seconds(60))
    await bench.clock.waitForSleeper(ofExactly: .seconds(30))
    #expect(try await engine.status(id) == .sleeping)
    bench.clock.advance(by: .seconds(30))
    #expect(try await engine.outcome(id) == .completed(result: .int(until)))
    await engine.waitUntilQuiet()
    #expect(engine.scheduler.heldTaskCount == 0)
    try await bench.end(engine)
  }

  @Test func `nothing is remembered of tasks that have ended`() async throws {
    let bench = TestBench()
    let quick = TestTask("quick") { runtime, _ in try await Self.complete(runtime) }
    let parent = TestTask("parent") { runtime, _ in
      try await runtime.commit { tx, record in
        let home = try await tx.createConversation(owner: record.id)
        _ = try await tx.createTask(quick.definition, input: .null, conversation: home.id)
        _ = try await tx.createTask(
          quick.definition,
          input: .null,
          owner: record.id,
          conversation: record.conversationId
        )
        return nil
      }
      try await Self.complete(runtime)
    }
    let engine = try await bench.open([quick, parent])
    for _ in 0..<20 { _ = try await engine.create(parent) }
    try await engine.waitForIdle()
    await engine.waitUntilQuiet()
    #expect(engine.scheduler.heldTaskCount == 0)
    #expect(engine.session.liveTasks.isEmpty)
    try await bench.end(engine)
  }
}
