import PerdureEngine
import PerdureModel
import PerdureStorage
import PerdureTestKit
import PerdureValue
import Testing

/// Work that is aborted, and work that is waited for.
@Suite(.timeLimit(.minutes(5))) struct IdleTests {
  @Test func `an abort withdraws inputs and leaves writes queued`() async throws {
    let bench = TestBench()
    let model = LiveModel()
    let engine = try await bench.open(model)
    _ = try await bench.start(engine)
    let first = try await engine.submit("hi", to: .root)
    _ = await model.request(1)
    let queued = try await engine.submit("more", to: .root)
    let write = try await engine.write(
      EntryDraft(kind: "x", model: [["role": "user", "content": "fact", "timestamp": 0]]),
      to: .root
    )
    try await engine.abortAndWait(.root)
    #expect(engine.session.liveTasks.isEmpty)
    #expect(try await engine.submission(first)?.reason == "aborted")
    #expect(try await engine.submission(queued)?.reason == "aborted")
    #expect(try await engine.submission(write)?.status == .queued)
    let next = try await engine.submit("again", to: .root)
    let second = await model.request(2)
    #expect(second.request.texts == ["hi", "fact", "again"])
    second.say("yes")
    #expect(try await engine.wait(for: next).status == .done)
    try await bench.end(engine)
  }

  @Test func `a settled submission is returned while the host closes`() async throws {
    let bench = TestBench()
    let (hasStarted, mayEnd) = (Event(), Event())
    let tool = plainTool("deaf", grace: .seconds(4)) { _ in
      hasStarted.happen()
      await mayEnd.wait()
      return .text("late")
    }
    let engine = try await bench.open(calling(("a", "deaf", [:])), tools: [tool])
    _ = try await bench.start(engine)
    let note = try await engine.write(EntryDraft(kind: "note"), to: .root)
    let id = try await engine.submit("hi", to: .root)
    await hasStarted.wait()
    async let closed: Void = engine.close()
    await bench.clock.waitForSleeper(ofExactly: .seconds(4))
    #expect(try await engine.wait(for: note).status == .done)
    let error = await #expect(throws: PerdureError.self) { try await engine.wait(for: id) }
    #expect(error?.code == .closed)
    let idle = await #expect(throws: PerdureError.self) { try await engine.waitForIdle() }
    #expect(idle?.code == .closed)
    bench.clock.advance(by: .seconds(4))
    mayEnd.happen()
    try await closed
  }

  @Test func `a wait for idleness ends with the work or with its task`() async throws {
    let bench = TestBench()
    let model = LiveModel()
    let engine = try await bench.open(model)
    _ = try await bench.start(engine)
    let other = try await engine.createConversation()
    _ = try await engine.submit("hi", to: .root)
    let stream = await model.request(1)
    try await engine.waitForIdle(other)
    let cancelled = Task { try await engine.waitForIdle(.root) }
    cancelled.cancel()
    await #expect(throws: PerdureError.self) { try await cancelled.value }
    let waiting = Task { try await engine.waitForIdle() }
    stream.say("done")
    try await waiting.value
    #expect(engine.session.liveTasks.isEmpty)
    let error = await #expect(throws: PerdureError.self) {
      try await engine.waitForIdle(.known(99))
    }
    #expect(error?.code == .notFound)
    try await bench.end(engine)
  }

  @Test(arguments: [false, true])
  func `work in the background is aborted only if that is asked for`(
    _ background: Bool
  ) async throws {
    let bench = TestBench()
    let session = try await Session.open(bench.memory, clock: bench.clock)
    try await session.commit { _ = try await $0.createConversation(root: true) }
    let id = TaskID.known(try session.store.mintId())
    // Parked, so that it neither runs nor ends by itself.
    var record = TaskRecord(
      id: id,
      conversationId: .root,
      kind: "pi.tool",
      version: 2,
      input: ["kind": "model"],
      background: true,
      state: .pending(checkpoint: ["phase": "call"])
    )
    record.restarts = 9
    _ = try await session.store.stage([.task(record)])
    try await session.close()
    let engine = try await bench.afterDeath().open(LiveModel())
    try await engine.waitForIdle(.root)
    try await engine.abortAndWait(.root, background: background)
    #expect((engine.session.liveTask(id) == nil) == background)
    try await engine.close()
  }
}
