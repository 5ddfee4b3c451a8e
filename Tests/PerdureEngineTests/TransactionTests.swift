import PerdureEngine
import PerdureModel
import PerdureStorage
import PerdureTestKit
import PerdureValue
import Synchronization
import Testing

@Suite(.timeLimit(.minutes(5))) struct TransactionTests {
  static let definition = TaskDefinition(
    name: "test.task",
    version: 1,
    initial: { _ in ["phase": "one"] },
    phases: [:],
    abort: { _, _ in },
    migrate: nil,
    settle: { _, _, _ in }
  )

  /// A session over recorded batches, with a root conversation.
  struct Bench {
    let storage: RecordingStorage
    let clock = ManualClock()
    let session: Session

    init(_ memory: MemoryStorage = MemoryStorage()) async throws {
      storage = RecordingStorage(memory)
      session = try await Session.open(
        storage,
        clock: clock,
        onCreation: Engine.builtInDocuments
      )
      if try await session.store.conversation(.root) == nil {
        _ = try await session.commit { try await $0.createConversation(root: true) }
      }
    }

    func submission(
      _ state: SubmissionRecord.State = .queued,
      requestId: JSONString? = nil
    ) async throws -> SubmissionRecord {
      try await session.commit {
        try await $0.createSubmission(in: .root, requestId: requestId, kind: .input, state: state)
      }
    }

    func task(owner: TaskID? = nil) async throws -> TaskRecord {
      try await session.commit { tx in
        try await tx.createTask(
          TransactionTests.definition,
          input: [:],
          owner: owner,
          conversation: .root
        )
      }
    }

    func replace(_ record: TaskRecord, _ state: TaskState) async throws {
      var record = record
      record.state = state
      let next = record
      try await session.commit { try await $0.replace(next) }
    }

    func code(_ body: (Transaction) async throws -> Void) async -> PerdureError.Code? {
      do {
        try await session.commit(body)
        return nil
      } catch {
        return (error as? PerdureError)?.code
      }
    }
  }

  static let ended = TaskState.terminal(.completed(result: .null))

  @Test func `a table is not read after a table was written`() async throws {
    let bench = try await Bench()
    let reads: [(String, @Sendable (Transaction) async throws -> Void)] = [
      ("conversation", { _ = try await $0.conversation(.root) }),
      ("entry", { _ = try await $0.entry(.known(9)) }),
      ("task", { _ = try await $0.task(.known(9)) }),
      ("submissionByRequest", { _ = try await $0.submission(requestId: "r", in: .root) }),
      ("scanEntries", { _ = try await $0.newestEntry(in: .root) }),
      ("latestHeadMarker", { _ = try await $0.latestHeadMarker(.root) }),
    ]
    for (name, read) in reads {
      let error = await #expect(throws: PerdureError.self) {
        try await bench.session.commit { tx in
          try await tx.append(EntryDraft(kind: "test"), to: .root)
          try await read(tx)
        }
      }
      #expect(error?.code == .readAfterWrite)
      #expect(error?.message.contains(name) == true)
    }
  }

  @Test func `documents are read after a table was written`() async throws {
    let bench = try await Bench()
    let value = try await bench.session.commit { tx in
      try await tx.append(EntryDraft(kind: "test"), to: .root)
      return try await tx.value(.inbox, .root)
    }
    #expect(value == ["items": []])
  }

  @Test func `a commit that fails leaves nothing behind`() async throws {
    let bench = try await Bench()
    let before = bench.session.store.lastStaged
    await #expect(throws: PerdureError.self) {
      try await bench.session.commit { tx in
        try await tx.append(EntryDraft(kind: "test"), to: .root)
        try await tx.edit(.agent, .root) { try $0.set(["a"], 1) }
        throw PerdureError(.invalidInput, "no")
      }
    }
    #expect(bench.session.store.lastStaged == before)
    #expect(try await bench.session.snapshot(.agent, .root) == [:])
  }

  @Test func `an empty commit writes nothing and takes no sequence number`() async throws {
    let bench = try await Bench()
    let (before, calls) = (bench.session.store.lastStaged, bench.storage.batches.count)
    let (_, publication) = try await bench.session.stage { tx in
      _ = try await tx.conversation(.root)
      // An equal scalar changes nothing.
      try await tx.edit(.inbox, .root) { try $0.assign(["items"], []) }
    }
    #expect(publication == nil)
    #expect(bench.session.store.lastStaged == before)
    #expect(bench.storage.batches.count == calls)
  }

  @Test func `an empty commit of somebody outside waits for what it read`() async throws {
    let bench = try await Bench()
    _ = try await bench.session.stage { try await $0.append(EntryDraft(kind: "t"), to: .root) }
    let count = bench.storage.batches.count
    _ = try await bench.session.commit { try await $0.newestEntry(in: .root) }
    #expect(bench.storage.batches.count == count + 1)
  }

  @Test func `a transaction is of no use after its closure`() async throws {
    let bench = try await Bench()
    var kept: Transaction?
    try await bench.session.commit { kept = $0 }
    let transaction = try #require(kept)
    let error = await #expect(throws: PerdureError.self) {
      _ = try await transaction.value(.agent, .root)
    }
    #expect(error?.code == .transactionSettled)
  }

  @Test(arguments: ["entry", "task", "submission", "document"])
  func `nothing is created in a conversation that does not exist`(_ what: String) async throws {
    let bench = try await Bench()
    let unknown = ConversationID.known(77)
    let code = await bench.code { tx in
      switch what {
      case "entry": try await tx.append(EntryDraft(kind: "t"), to: unknown)
      case "task":
        _ = try await tx.createTask(Self.definition, input: [:], conversation: unknown)
      case "submission":
        _ = try await tx.createSubmission(
          in: unknown,
          requestId: nil,
          kind: .input,
          state: .queued
        )
      default: try await tx.edit(.agent, unknown) { try $0.set(["a"], 1) }
      }
    }
    #expect(code == .notFound)
  }

  @Test func `a second root is refused and the session lives on`() async throws {
    let bench = try await Bench()
    let code = await bench.code { _ = try await $0.createConversation(root: true) }
    #expect(code == .invalidBatch)
    _ = try await bench.session.commit { try await $0.append(EntryDraft(kind: "t"), to: .root) }
  }

  @Test func `an entry without a kind is refused`() async throws {
    let bench = try await Bench()
    let code = await bench.code { try await $0.append(EntryDraft(kind: ""), to: .root) }
    #expect(code == .invalidInput)
  }

  @Test func `the head of an entry may be itself`() async throws {
    let bench = try await Bench()
    let entry = try await bench.session.commit { tx in
      try await tx.append(EntryDraft(kind: "t", head: .itself), to: .root)
    }
    #expect(entry.head == entry.id)
  }

  static let endings: [(name: String, state: TaskState, aborts: Bool)] = [
    ("completing", .completing(.completed(result: .null)), false), ("terminal", ended, false),
    ("abort-marked", .running(checkpoint: [:]), true),
  ]

  @Test(arguments: 0..<3)
  func `a task that is ending owns nothing new`(_ index: Int) async throws {
    let bench = try await Bench()
    let ending = Self.endings[index]
    var owner = try await bench.task()
    owner.abortRequested = ending.aborts
    try await bench.replace(owner, ending.state)
    let code = await bench.code { [owner] tx in
      _ = try await tx.createTask(
        Self.definition,
        input: [:],
        owner: owner.id,
        conversation: .root
      )
    }
    #expect(code == .invalidBatch)
  }

  @Test func `the commit that ends a task creates nothing for it`() async throws {
    let bench = try await Bench()
    let owner = try await bench.task()
    let code = await bench.code { tx in
      _ = try await tx.createTask(Self.definition, input: [:], owner: owner.id, conversation: .root)
      var ended = owner
      ended.state = Self.ended
      try await tx.replace(ended)
    }
    #expect(code == .invalidBatch)
  }

  @Test func `a task may own one that the same commit creates`() async throws {
    let bench = try await Bench()
    try await bench.session.commit { tx in
      let owner = try await tx.createTask(Self.definition, input: [:], conversation: .root)
      _ = try await tx.createTask(Self.definition, input: [:], owner: owner.id, conversation: .root)
    }
    #expect(bench.session.liveTasks.count == 2)
  }

  @Test func `a terminal task is not replaced`() async throws {
    let bench = try await Bench()
    let task = try await bench.task()
    try await bench.replace(task, Self.ended)
    let code = await bench.code { try await $0.replace(task) }
    #expect(code == .invalidBatch)
  }

  @Test func `a task that one commit ended is not replaced in it`() async throws {
    let bench = try await Bench()
    let task = try await bench.task()
    let code = await bench.code { tx in
      var ended = task
      ended.state = Self.ended
      try await tx.replace(ended)
      try await tx.replace(task)
    }
    #expect(code == .invalidBatch)
  }

  @Test func `a task does not move to another conversation`() async throws {
    let bench = try await Bench()
    let task = try await bench.task()
    let other = try await bench.session.commit { try await $0.createConversation() }
    let code = await bench.code { tx in
      var moved = task
      moved.conversationId = other.id
      try await tx.replace(moved)
    }
    #expect(code == .invalidBatch)
  }

  @Test func `start and end of a task are stamped once`() async throws {
    let bench = try await Bench()
    let task = try await bench.task()
    let begin = bench.clock.now()
    try await bench.replace(task, .running(checkpoint: [:]))
    bench.clock.advance(by: .seconds(1))
    try await bench.replace(try #require(bench.session.liveTask(task.id)), .running(checkpoint: 1))
    bench.clock.advance(by: .seconds(1))
    // A record without stamps does not lose them.
    try await bench.replace(task, Self.ended)
    let ended = try #require(try await bench.session.task(task.id))
    #expect(ended.startedAt == begin)
    #expect(ended.endedAt == begin + 2_000)
  }

  @Test func `an outcome drops memos and the restart count`() async throws {
    let bench = try await Bench()
    var task = try await bench.task()
    task.memos = ["a": 1]
    task.restarts = 3
    try await bench.replace(task, Self.ended)
    let ended = try #require(try await bench.session.task(task.id))
    #expect(ended.memos == nil)
    #expect(ended.restarts == nil)
  }

  @Test func `a settled submission stays as it is`() async throws {
    let bench = try await Bench()
    let record = try await bench.submission(.placed(entry: .known(2)))
    let first = SubmissionRecord.State.unanswered(reason: "aborted", detail: nil, entry: nil)
    try await bench.session.commit { try await $0.settle(record.id) { _ in first } }
    try await bench.session.commit { tx in
      try await tx.settle(record.id) { _ in .done(entry: .known(2), answer: .known(2)) }
    }
    #expect(try await bench.session.store.submission(record.id)?.state == first)
  }

  @Test(arguments: [true, false])
  func `done needs a placed input and its answer`(isPlaced: Bool) async throws {
    let bench = try await Bench()
    let record = try await bench.submission(isPlaced ? .placed(entry: .known(2)) : .queued)
    let code = await bench.code { tx in
      try await tx.settle(record.id) { _ in
        .done(entry: .known(2), answer: isPlaced ? nil : .known(2))
      }
    }
    #expect(code == .invalidBatch)
  }

  @Test func `an unknown submission is not settled`() async throws {
    let bench = try await Bench()
    let code = await bench.code { try await $0.settle(.known(99)) { $0.state } }
    #expect(code == .notFound)
  }

  @Test func `a submission is found by its request id before and after the flush`() async throws {
    let bench = try await Bench()
    let staged = try await bench.session.stage { tx in
      try await tx.createSubmission(in: .root, requestId: "r", kind: .input, state: .queued)
    }.result
    for _ in 0..<2 {
      let found = try await bench.session.stage {
        try await $0.submission(requestId: "r", in: .root)
      }.result
      #expect(found?.id == staged.id)
      try await bench.session.barrier()
    }
  }

  @Test func `a batch holds entries, submissions, tasks and documents in this order`() async throws
  {
    let bench = try await Bench()
    try await bench.session.commit { tx in
      try await tx.edit(.agent, .root) { try $0.set(["a"], 1) }
      _ = try await tx.createTask(Self.definition, input: [:], conversation: .root)
      _ = try await tx.createSubmission(in: .root, requestId: nil, kind: .input, state: .queued)
      try await tx.append(EntryDraft(kind: "t"), to: .root)
    }
    let kinds = bench.storage.batches.last?.writes.map(\.kindOfTest)
    #expect(kinds == ["entry", "submission", "task", "document"])
  }

  @Test func `documents of a task end with it`() async throws {
    let memory = MemoryStorage()
    let first = try await Bench(memory)
    let task = try await first.task()
    // Another program gave it one.
    let id = DocumentID.known(try first.session.store.mintId())
    let record = DocumentRecord(
      id: id,
      address: DocumentAddress(kind: "other", scope: .task(task.id)),
      createdAt: 0
    )
    _ = try await first.session.store.stage([.createDocument(record, version: 1, value: [:])])
    try await first.session.close()
    let bench = try await Bench(MemoryStorage(continuing: memory))
    let commits = Commits(bench.session)
    try await bench.replace(task, Self.ended)
    #expect(bench.storage.batches.last?.writes.last == .retireDocument(id))
    let retired = commits.all.last?.changes.contains { change in
      if case .document(let document, nil, nil, _) = change {
        document.id == id && document.retiredAt != nil
      } else {
        false
      }
    }
    #expect(retired == true)
  }

  @Test func `a document is created once although two edits open it`() async throws {
    let bench = try await Bench()
    let other = try await bench.session.commit { try await $0.createConversation() }
    try await bench.session.commit { tx in
      try await tx.edit(.agent, other.id) { try $0.set(["a"], 1) }
      try await tx.edit(.agent, other.id) { try $0.set(["b"], 2) }
    }
    #expect(try await bench.session.snapshot(.agent, other.id) == ["a": 1, "b": 2])
  }

  @Test func `deltas since a base are replayed after a reopening`() async throws {
    let memory = MemoryStorage()
    let first = try await Bench(memory)
    for number in 1...5 {
      try await first.session.commit { tx in
        try await tx.edit(.live, .root) { live in
          try live.set(["generation"], ["attempt": .int(Int64(number))])
        }
      }
    }
    try await first.session.close()
    let second = try await Bench(MemoryStorage(continuing: memory))
    #expect(try await second.session.snapshot(.live, .root) == ["generation": ["attempt": 5]])
  }
}

extension StorageWrite {
  fileprivate var kindOfTest: String {
    switch self {
    case .conversation: "conversation"
    case .entry: "entry"
    case .task: "task"
    case .submission: "submission"
    case .createDocument, .copyDocument, .changeDocument: "document"
    case .retireDocument: "retirement"
    case .remove: "removal"
    }
  }
}
