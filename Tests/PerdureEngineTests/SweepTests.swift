import PerdureEngine
import PerdureModel
import PerdureStorage
import PerdureTestKit
import PerdureValue
import Testing

@Suite(.timeLimit(.minutes(5))) struct SweepTests {
  /// After all that a test does.
  private static let later = Int64.max

  private func ended(
    _ bench: StoreBench,
    owner: TaskID? = nil,
    then: (TaskRecord) async throws -> Void = { _ in }
  ) async throws -> TaskRecord {
    let task = try await bench.session.commit { tx in
      try await tx.createTask(
        TransactionTests.definition,
        input: [:],
        owner: owner,
        conversation: .root
      )
    }
    try await then(task)
    try await bench.end(task)
    return task
  }

  @Test func `a conversation goes on after its past tasks and submissions are gone`() async throws {
    let model = ScriptedModel { request in
      guard request.messages.count < 4 else { return ScriptedModel.text("done") }
      return ScriptedModel.calls(("c1", "echo", ["text": "again"]))
    }
    var bench = TestBench()
    var engine = try await bench.open(model, tools: [echo])
    _ = try await bench.start(engine)
    _ = try await bench.ask(engine)
    let kept = try await engine.submit("hi", to: .root, requestId: "r1")
    _ = try await engine.wait(for: kept)
    await engine.waitUntilQuiet()
    let entries = try await TestBench.entries(engine)
    let summary = try await engine.session.removeExpired(
      tasksEndedBefore: Self.later,
      submissionsBefore: Self.later
    )
    #expect(summary.tasks >= 3 && summary.submissions == 1, "\(summary)")
    #expect(try await TestBench.tasks(engine) == [])
    #expect(try await TestBench.entries(engine) == entries)
    #expect(try await engine.submit("hi", to: .root, requestId: "r1") == kept)
    try await bench.end(engine)
    bench = bench.afterDeath()
    engine = try await bench.open(model, tools: [echo])
    #expect(try await bench.ask(engine).status == .done)
    await engine.waitUntilQuiet()
    try await bench.end(engine)
  }

  @Test(arguments: StoreKind.allCases)
  func `what something that stays refers to stays`(_ kind: StoreKind) async throws {
    let bench = try await StoreBench(kind)
    let free = try await ended(bench)
    let owner = try await ended(bench) { task in
      _ = try await bench.session.commit { try await $0.createConversation(owner: task.id) }
    }
    let parent = try await ended(bench) { task in
      _ = try await ended(bench, owner: task.id) { child in
        _ = try await bench.session.commit { try await $0.createConversation(owner: child.id) }
      }
    }
    let named = try await ended(bench)
    let awaited = try await ended(bench)
    var waiting = try await bench.session.commit { tx in
      try await tx.createTask(
        TransactionTests.definition,
        input: ["after": [named.id.json]],
        conversation: .root
      )
    }
    waiting.state = .waiting(checkpoint: [:], on: [awaited.id], policy: .allSettled)
    try await bench.session.commit { [waiting] in try await $0.replace(waiting) }
    let summary = try await bench.session.removeExpired(
      tasksEndedBefore: Self.later,
      submissionsBefore: nil
    )
    #expect(summary.tasks == 1)
    #expect(try await bench.session.store.task(free.id) == nil)
    for task in [owner, parent, named, awaited] {
      #expect(try await bench.session.store.task(task.id) != nil, "\(task.id)")
    }
    try await bench.end()
  }

  @Test func `what is younger than the policy says stays`() async throws {
    let bench = try await StoreBench(.memory)
    let old = try await ended(bench)
    try await bench.session.commit { tx in
      let entry = try await tx.append(EntryDraft(kind: "test"), to: .root)
      let write = try await tx.createSubmission(
        in: .root,
        requestId: nil,
        kind: .write,
        state: .queued
      )
      try await tx.settle(write.id) { _ in
        .unanswered(reason: "stale", detail: nil, entry: entry.id)
      }
    }
    let now = bench.clock.now()
    let summary = try await bench.session.removeExpired(
      tasksEndedBefore: now,
      submissionsBefore: now
    )
    #expect([summary.tasks, summary.submissions, summary.documents] == [0, 0, 0])
    #expect(try await bench.session.store.task(old.id) != nil)
    let rest = try await bench.session.removeExpired(
      tasksEndedBefore: now + 1,
      submissionsBefore: now + 1
    )
    #expect([rest.tasks, rest.submissions] == [1, 1])
    try await bench.end()
  }

  @Test func `owners and what they own go together, in small commits`() async throws {
    let bench = try await StoreBench(.memory)
    for _ in 0..<100 {
      _ = try await ended(bench) { task in
        for _ in 0..<2 { _ = try await ended(bench, owner: task.id) }
      }
    }
    let before = bench.storage.batches.count
    let summary = try await bench.session.removeExpired(
      tasksEndedBefore: Self.later,
      submissionsBefore: Self.later
    )
    #expect(summary.tasks == 300)
    let batches = bench.storage.batches.dropFirst(before)
    #expect(batches.count == 3)
    #expect(batches.allSatisfy { $0.writes.count <= 128 })
    try await bench.end()
  }

  @Test func `the documents of a task go with it`() async throws {
    let bench = try await StoreBench(.sqlite)
    let document = DocumentDefinition.test(.task, kind: "test.work")
    let task = try await ended(bench) { task in
      try await bench.session.commit { tx in
        try await tx.edit(document, in: .task(task.id)) { try $0.set(["n"], 1) }
      }
    }
    let query = DocumentQuery(scope: .task(task.id), includesRetired: true)
    #expect(try await bench.storage.scanDocuments(query, .init(limit: 9)).items.count == 1)
    let summary = try await bench.session.removeExpired(
      tasksEndedBefore: Self.later,
      submissionsBefore: nil
    )
    #expect(summary.documents == 1)
    #expect(try await bench.storage.scanDocuments(query, .init(limit: 9)).items.isEmpty)
    try await bench.end()
  }

  @Test func `a crash at any commit of a deletion or a sweep leaves a whole store`() async throws {
    let memory = MemoryStorage()
    let copies = CopyingStorage(memory)
    let model = calling(("c1", "echo", ["text": "a"]), ("c2", "echo", ["text": "b"]))
    var bench = TestBench()
    bench.memory = memory
    bench.front = { _ in copies }
    let engine = try await bench.open(model, tools: [echo])
    let root = try await bench.start(engine)
    let other = try await engine.createConversation()
    try await engine.configure(other, ["model": ScriptedModel.reference.json])
    for id in [root, other] {
      let submission = try await engine.submit("hi", to: id, requestId: id == root ? "r" : nil)
      _ = try await engine.wait(for: submission)
    }
    await engine.waitUntilQuiet()
    let before = copies.all.count
    _ = try await engine.session.delete(other)
    _ = try await engine.session.removeExpired(
      tasksEndedBefore: Self.later,
      submissionsBefore: Self.later
    )
    try await engine.close()
    for copy in copies.all.dropFirst(before - 1) {
      #expect(try await StoreInvariants.violations(of: copy) == [])
      bench.memory = MemoryStorage(continuing: copy)
      bench.front = nil
      let next = try await bench.open(model, tools: [echo])
      _ = try await next.session.removeExpired(
        tasksEndedBefore: Self.later,
        submissionsBefore: Self.later
      )
      #expect(try await TestBench.tasks(next) == [])
      try await bench.end(next)
    }
  }

  @Test func `ids that were removed are not used again`() async throws {
    let bench = try await StoreBench(.sqlite)
    let task = try await ended(bench)
    let before = try await bench.storage.counters()
    _ = try await bench.session.removeExpired(
      tasksEndedBefore: Self.later,
      submissionsBefore: nil
    )
    try await bench.session.store.compact()
    try await bench.reopen()
    let after = try await bench.storage.counters()
    #expect(after.nextId == before.nextId && after.nextSequence == before.nextSequence + 1)
    #expect(try await bench.append().value > task.id.value)
    try await bench.end()
  }
}
