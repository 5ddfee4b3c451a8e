import PerdureEngine
import PerdureModel
import PerdureStorage
import PerdureTestKit
import PerdureValue
import Testing

@Suite(.timeLimit(.minutes(5))) struct DeletionTests {
  private static let document = DocumentDefinition.test(kind: "test.document")

  /// A conversation with entries, an ended task, a settled submission and documents.
  private func conversation(
    _ bench: StoreBench,
    requestId: JSONString? = nil,
    owner: TaskID? = nil
  ) async throws -> ConversationID {
    let id = try await bench.session.commit { try await $0.createConversation(owner: owner).id }
    let task = try await bench.session.commit { tx in
      try await tx.createTask(TransactionTests.definition, input: [:], conversation: id)
    }
    try await bench.session.commit { tx in
      let entry = try await tx.append(EntryDraft(kind: "test"), to: id)
      try await tx.edit(Self.document, id) { try $0.set(["n"], 1) }
      let submission = try await tx.createSubmission(
        in: id,
        requestId: requestId,
        kind: .write,
        state: .queued
      )
      try await tx.settle(submission.id) { _ in
        .unanswered(reason: "stale", detail: nil, entry: entry.id)
      }
    }
    try await bench.end(task)
    try await bench.session.commit { tx in
      try await tx.retire(Self.document, in: .conversation(id))
      _ = try await tx.append(EntryDraft(kind: "test", head: .itself), to: id)
    }
    return id
  }

  private func fork(
    _ bench: StoreBench,
    _ parent: ConversationID,
    requestId: JSONString? = nil
  ) async throws -> ConversationID {
    let entry = try await bench.append(to: parent)
    return try await bench.session.commit { tx in
      let fork = try await tx.forkConversation(parent, at: entry).id
      guard let requestId else { return fork }
      let own = try await tx.append(EntryDraft(kind: "test"), to: fork)
      let submission = try await tx.createSubmission(
        in: fork,
        requestId: requestId,
        kind: .write,
        state: .queued
      )
      try await tx.settle(submission.id) { _ in
        .unanswered(reason: "stale", detail: nil, entry: own.id)
      }
      return fork
    }
  }

  /// The ids of all records that say that they belong to a conversation.
  private func remains(_ id: ConversationID, _ bench: StoreBench) async throws -> [Int64] {
    let reads = bench.storage
    var ids: [Int64] = []
    if try await reads.conversation(id) != nil { ids.append(id.value) }
    let entries = bench.storage.batches.flatMap { $0.writes }.compactMap {
      if case .entry(let entry) = $0, entry.conversationId == id { entry.id } else { nil }
    }
    for entry in entries where try await reads.entry(entry) != nil { ids.append(entry.value) }
    ids += try await reads.scanTasks(.init(conversationId: id), .init(limit: 99)).items
      .map { $0.id.value }
    ids += try await reads.scanSubmissions(.init(conversationId: id), .init(limit: 99)).items
      .map { $0.id.value }
    let scope = DocumentQuery(scope: .conversation(id), includesRetired: true)
    ids += try await reads.scanDocuments(scope, .init(limit: 99)).items.map { $0.id.value }
    return ids
  }

  @Test(arguments: StoreKind.allCases)
  func `a deletion takes all of a conversation in one commit`(_ kind: StoreKind) async throws {
    let bench = try await StoreBench(kind)
    let id = try await conversation(bench)
    let before = bench.storage.batches.count
    #expect(try await remains(id, bench).count > 8)
    let summary = try await bench.session.delete(id)
    #expect(bench.storage.batches.count == before + 1)
    #expect(summary.conversations == [id])
    #expect([summary.entries, summary.tasks, summary.submissions] == [2, 1, 1])
    #expect(try await remains(id, bench) == [])
    #expect(bench.lastWrites.allSatisfy { if case .remove = $0 { true } else { false } })
    for extra in bench.storage.batches.last?.extras ?? [] { #expect(extra.value == nil) }
    try await bench.reopen()
    #expect(try await bench.session.store.conversation(id) == nil)
    #expect(
      await bench.error { try await $0.append(EntryDraft(kind: "t"), to: id) }?.code == .notFound
    )
    try await bench.end()
  }

  @Test func `what stands in the way of a deletion is named, and nothing is written`() async throws
  {
    let bench = try await StoreBench(.memory)
    let owner = try await bench.task()
    let owned = try await conversation(bench, owner: owner.id)
    let parent = try await conversation(bench)
    let child = try await fork(bench, parent)
    let busy = try await conversation(bench)
    let live = try await bench.session.commit { tx in
      try await tx.createTask(TransactionTests.definition, input: [:], conversation: busy)
    }
    let queue = try await conversation(bench)
    let queued = try await bench.session.commit { tx in
      try await tx.createSubmission(in: queue, requestId: nil, kind: .write, state: .queued)
    }
    let named = try await conversation(bench)
    let naming = try await bench.session.commit { tx in
      try await tx.createTask(
        TransactionTests.definition,
        input: ["conversationId": named.json],
        conversation: .root
      )
    }
    let before = try await bench.storage.counters().nextSequence
    let refused: [(ConversationID, PerdureError.Code, String)] = [
      (.root, .conversationInUse, "root"),
      (.known(999), .notFound, "999"),
      (owned, .conversationInUse, "belongs to task \(owner.id) of conversation 1"),
      (parent, .conversationInUse, "conversation \(child) is a fork of it"),
      (busy, .conversationBusy, "its task \(live.id)"),
      (queue, .conversationBusy, "its submission \(queued.id)"),
      (named, .conversationInUse, "task \(naming.id) of conversation 1 refers to \(named)"),
    ]
    for (id, code, text) in refused {
      let error = await error { _ = try await bench.session.delete(id) }
      #expect(error?.code == code)
      #expect(error?.message.contains(text) == true, "\(error?.message ?? "no error")")
    }
    #expect(try await bench.storage.counters().nextSequence == before)
    try await bench.session.close()
  }

  private func error(_ body: () async throws -> Void) async -> PerdureError? {
    do {
      try await body()
      return nil
    } catch {
      return error as? PerdureError
    }
  }

  @Test(arguments: StoreKind.allCases)
  func `forks go with a conversation if they are to`(_ kind: StoreKind) async throws {
    let bench = try await StoreBench(kind)
    let parent = try await conversation(bench)
    let child = try await fork(bench, parent)
    let grandchild = try await fork(bench, child)
    let summary = try await bench.session.delete(parent, includingForks: true)
    #expect(summary.conversations == [parent, child, grandchild])
    for id in summary.conversations { #expect(try await remains(id, bench) == []) }
    try await bench.end()
  }

  @Test func `what the tasks of a conversation own goes with it`() async throws {
    let bench = try await StoreBench(.memory)
    let outer = try await conversation(bench)
    let task = try await bench.session.commit { tx in
      try await tx.createTask(TransactionTests.definition, input: [:], conversation: outer)
    }
    let inner = try await conversation(bench, owner: task.id)
    try await bench.end(task)
    let summary = try await bench.session.delete(outer)
    #expect(summary.conversations == [outer, inner])
    #expect(try await remains(inner, bench) == [])
    try await bench.end()
  }

  @Test func `a fork stays as it was when its sibling goes`() async throws {
    let bench = try await StoreBench(.sqlite)
    let first = try await bench.append(["n": 1])
    let forks = try await bench.session.commit { tx in
      [try await tx.forkConversation(.root, at: first).id]
    }
    let sibling = try await fork(bench, .root)
    try await bench.append(to: sibling)
    let own = try await bench.append(to: forks[0])
    try await bench.session.delete(sibling)
    try await bench.reopen()
    let seen = try await bench.session.store.scanEntries(
      EntryQuery(conversationId: forks[0]),
      PageRequest(limit: 9, order: .ascending)
    )
    #expect(seen.items.map { $0.id } == [first, own])
    try await bench.end()
  }

  @Test(arguments: StoreKind.allCases)
  func `a submission with a request id stays with the bare record`(_ kind: StoreKind) async throws {
    let bench = try await StoreBench(kind)
    let id = try await conversation(bench, requestId: "r1")
    let summary = try await bench.session.delete(id)
    #expect(summary.keptSubmissions == 1)
    for isReopened in [false, true] {
      if isReopened { try await bench.reopen() }
      let kept = try await bench.session.store.submission(requestId: "r1", in: id)
      #expect(kept?.status == .unanswered)
      #expect(try await bench.session.store.conversation(id) != nil)
      let refusals = [
        await bench.error { try await $0.append(EntryDraft(kind: "t"), to: id) },
        await bench.error { try await $0.edit(Self.document, id) { _ in } },
        await error { _ = try await bench.session.delete(id) },
        await error { try await bench.session.archive(id) },
      ]
      #expect(refusals.map { $0?.code } == Array(repeating: .conversationDeleted, count: 4))
    }
    try await bench.end()
  }

  @Test func `the rest of a fork keeps the record of its parent`() async throws {
    let bench = try await StoreBench(.memory)
    let parent = try await conversation(bench)
    let child = try await fork(bench, parent, requestId: "r1")
    try await bench.session.delete(child)
    try await bench.session.delete(parent)
    #expect(try await remains(parent, bench) == [parent.value])
    let seen = try await bench.storage.scanEntries(
      EntryQuery(conversationId: child),
      PageRequest(limit: 9)
    )
    #expect(seen.items == [])
    try await bench.end()
  }

  @Test func `observers are told what is gone, and views end`() async throws {
    let bench = TestBench()
    let engine = try await bench.open(ScriptedModel { _ in ScriptedModel.text("hello") })
    let id = try await engine.createConversation()
    let view = try await engine.views.watch(id)
    let address = DocumentDefinition.live.address(in: id)
    let live = try #require(try await engine.views.watch(.live, at: address))
    let commits = Commits(engine.session)
    _ = try await engine.session.delete(id)
    #expect(await view.waitForEnd().name == "deleted")
    #expect(await view.next() == nil)
    #expect(await live.waitForEnd().name == "retired")
    let publication = await commits.first { publication in
      publication.changes.contains { if case .deletion(id) = $0 { true } else { false } }
    }
    #expect(
      publication.changes.contains {
        if case .removal(RecordReference(.conversation, id.value)) = $0 { true } else { false }
      }
    )
    #expect(engine.views.mountCount == 0)
    #expect(await error { _ = try await engine.views.watch(id) }?.code == .notFound)
    try await bench.end(engine)
  }

  @Test func `a repeated submission to a deleted conversation learns what became of it`()
    async throws
  {
    var bench = TestBench()
    var engine = try await bench.open(ScriptedModel { _ in ScriptedModel.text("hello") })
    let id = try await engine.createConversation()
    try await engine.configure(id, ["model": ScriptedModel.reference.json])
    let first = try await engine.submit("hi", to: id, requestId: "r1")
    _ = try await engine.wait(for: first)
    await engine.waitUntilQuiet()
    _ = try await engine.session.delete(id)
    for isReopened in [false, true] {
      if isReopened {
        try await bench.end(engine)
        bench = bench.afterDeath()
        engine = try await bench.open(ScriptedModel { _ in ScriptedModel.text("hello") })
      }
      let again = await error { _ = try await engine.submit("hi", to: id, requestId: "r1") }
      #expect(again?.code == .conversationDeleted)
      #expect(again?.details?["submission"] == first.json)
      #expect(again?.details?["status"] == "done")
      let other = await error { _ = try await engine.submit("hi", to: id, requestId: "r2") }
      #expect(other?.code == .conversationDeleted)
      let context = await error { _ = try await engine.context(of: id) }
      #expect(context?.code == .conversationDeleted)
      let entry = try await engine.submission(first)?.entry
      #expect(
        await error { _ = try await engine.fork(id, at: try #require(entry)) }?.code
          == .conversationDeleted
      )
    }
    try await bench.end(engine)
  }

  @Test func `what is read right after a deletion is staged is what will be on disk`() async throws
  {
    let bench = try await StoreBench(.memory)
    let id = try await conversation(bench)
    let entry = try await bench.append(to: id)
    _ = try await bench.session.stage { tx in try tx.remove(RecordReference(entry)) }
    #expect(try await bench.session.store.entry(entry) == nil)
    let newest = try await bench.session.store.scanEntries(
      EntryQuery(conversationId: id),
      PageRequest(limit: 1)
    )
    #expect(newest.items.first?.id != entry)
    try await bench.end()
  }
}

@Suite(.timeLimit(.minutes(5))) struct ArchiveTests {
  private func error(_ body: () async throws -> Void) async -> PerdureError? {
    do {
      try await body()
      return nil
    } catch {
      return error as? PerdureError
    }
  }

  @Test func `an archived conversation is read and forked, and takes no submission`() async throws {
    var bench = TestBench()
    var engine = try await bench.open(ScriptedModel { _ in ScriptedModel.text("hello") })
    let root = try await bench.start(engine)
    let first = try await engine.submit("hi", to: root, requestId: "r1")
    let settled = try await engine.wait(for: first)
    await engine.waitUntilQuiet()
    try await engine.session.archive(root)
    for isReopened in [false, true] {
      if isReopened {
        try await bench.end(engine)
        bench = bench.afterDeath()
        engine = try await bench.open(ScriptedModel { _ in ScriptedModel.text("hello") })
      }
      let refusal = await error { _ = try await engine.submit("more", to: root) }
      #expect(refusal?.code == .conversationArchived)
      #expect(refusal?.hint?.contains("unarchive") == true)
      #expect(try await engine.submit("hi", to: root, requestId: "r1") == first)
      #expect(try await TestBench.entries(engine).isEmpty == false)
      let fork = try await engine.fork(root, at: try #require(settled.entry))
      #expect(try await bench.ask(engine, in: fork).status == .done)
    }
    try await engine.session.unarchive(root)
    #expect(try await bench.ask(engine).status == .done)
    try await bench.end(engine)
  }

  @Test func `a conversation with a run is not archived`() async throws {
    let model = LiveModel()
    let bench = TestBench()
    let engine = try await bench.open(model)
    let root = try await bench.start(engine)
    _ = try await engine.submit("hi", to: root)
    _ = await model.request(1)
    #expect(await error { try await engine.session.archive(root) }?.code == .conversationBusy)
    try await engine.close()
  }
}
