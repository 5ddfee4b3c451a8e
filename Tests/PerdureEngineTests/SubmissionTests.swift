import PerdureEngine
import PerdureModel
import PerdureStorage
import PerdureTestKit
import PerdureValue
import Testing

/// A conversation whose only engine part is its documents, so that every state can be made.
struct StillConversation {
  let bench = TestBench()
  let session: Session

  init() async throws {
    session = try await Session.open(
      bench.memory,
      clock: bench.clock,
      onCreation: Engine.builtInDocuments
    )
    try await session.commit { _ = try await $0.createConversation(root: true) }
  }

  /// Gives the conversation a run that nobody executes.
  func makeBusy() async throws -> TaskID {
    try await session.commit { tx in
      let task = try await tx.createTask(
        TransactionTests.definition.named("pi.generation"),
        input: [:],
        conversation: .root
      )
      try await tx.edit(.live, .root) { live in
        try live.set(["run"], ["taskId": task.id.json, "inputs": []])
      }
      return task.id
    }
  }

  @discardableResult
  func admit(
    _ draft: SubmissionDraft,
    requestId: JSONString? = nil,
    _ modes: QueueModes = QueueModes()
  ) async throws -> SubmissionID {
    try await session.commit(conversation: .root) { tx in
      try await tx.admit(draft, to: .root, requestId: requestId, modes)
    }
  }

  func status(_ id: SubmissionID) async throws -> SubmissionRecord.Status? {
    try await session.store.submission(id)?.status
  }

  func reason(_ id: SubmissionID) async throws -> String? {
    try await session.store.submission(id)?.reason
  }

  var queue: [JSON] {
    get async throws { try await session.snapshot(.inbox, .root)["items"]?.array ?? [] }
  }

  var run: JSON? { get async throws { try await session.snapshot(.live, .root)["run"] } }

  /// What each entry is, with its text.
  var transcript: [String] {
    get async throws {
      try await session.store.scanEntries(
        EntryQuery(conversationId: .root),
        PageRequest(limit: 256, order: .ascending)
      ).items.map { entry in
        let content = entry.model?.first?["content"]
        return entry.kind.string + (content?.text.map { " \($0)" } ?? "")
      }
    }
  }

  func end() async throws {
    try await session.close()
    try await bench.checkInvariants()
  }
}

extension SubmissionDraft {
  static let note = SubmissionDraft.write(EntryDraft(kind: "note", data: ["x": 1]))
  static let reset = SubmissionDraft.write(EntryDraft(kind: "pi.reset", head: .itself))

  static func message(_ text: JSONString, head: EntryDraft.Head? = nil) -> SubmissionDraft {
    let message: JSON = ["role": "user", "content": .string(text), "timestamp": 0]
    return .write(EntryDraft(kind: "fact", model: [message], head: head))
  }
}

@Suite(.timeLimit(.minutes(5))) struct SubmissionTests {
  // MARK: Admission

  /// One row of the table: what is submitted where, and what becomes of it.
  struct Row: Sendable, CustomTestStringConvertible {
    var isBusy = false
    /// What is queued before.
    var backlog: [SubmissionDraft] = []
    var draft: SubmissionDraft
    /// What is done with the draft; `nil` if it is refused.
    var status: SubmissionRecord.Status?
    /// The modes of the queue afterwards.
    var queue: [JSON] = []
    var transcript: [String] = []
    var startsRun = false
    var testDescription: String

    init(
      _ name: String,
      busy: Bool = false,
      backlog: [SubmissionDraft] = [],
      _ draft: SubmissionDraft,
      _ status: SubmissionRecord.Status?,
      queue: [JSON] = [],
      transcript: [String] = [],
      startsRun: Bool = false
    ) {
      testDescription = name
      isBusy = busy
      self.backlog = backlog
      self.draft = draft
      self.status = status
      self.queue = queue
      self.transcript = transcript
      self.startsRun = startsRun
    }
  }

  private static let input = SubmissionDraft.input(content: "hi")
  private static let steer = SubmissionDraft.input(content: "hi", whenBusy: .steer)
  private static let reject = SubmissionDraft.input(content: "hi", whenBusy: .reject)
  private static let old = SubmissionDraft.input(content: "old")
  private static let fact = SubmissionDraft.message("fact")

  static let rows: [Row] = [
    Row("idle: an input", input, .placed, transcript: ["pi.user hi"], startsRun: true),
    Row("idle: a steering input", steer, .placed, transcript: ["pi.user hi"], startsRun: true),
    Row("idle: an input that asks", reject, .placed, transcript: ["pi.user hi"], startsRun: true),
    Row("idle: a write", fact, .done, transcript: ["fact fact"]),
    Row("idle: a reset", .reset, .done, transcript: ["pi.reset"]),
    Row("idle: a note", .note, .done, transcript: ["note"]),
    Row("busy: an input", busy: true, input, .queued, queue: ["followUp"]),
    Row("busy: a steering input", busy: true, steer, .queued, queue: ["steer"]),
    Row("busy: an input that asks", busy: true, reject, nil),
    Row("busy: a write", busy: true, fact, .queued, queue: ["write"]),
    Row("busy: a reset", busy: true, .reset, .queued, queue: ["write"]),
    Row("busy: a note", busy: true, .note, .done, transcript: ["note"]),
    Row(
      "busy, backlog: an input",
      busy: true,
      backlog: [old, fact],
      input,
      .queued,
      queue: ["followUp", "write", "followUp"]
    ),
    Row(
      "busy, backlog: a steering input",
      busy: true,
      backlog: [old],
      steer,
      .queued,
      queue: ["followUp", "steer"]
    ),
    Row("busy, backlog: an input that asks", busy: true, backlog: [old], reject, nil),
    Row(
      "busy, backlog: a write",
      busy: true,
      backlog: [old],
      fact,
      .queued,
      queue: ["followUp", "write"]
    ),
    Row(
      "busy, backlog: a reset",
      busy: true,
      backlog: [old],
      .reset,
      .queued,
      queue: ["followUp", "write"]
    ),
    Row(
      "busy, reset queued: an input",
      busy: true,
      backlog: [.reset],
      input,
      .queued,
      queue: ["write", "followUp"]
    ),
    Row(
      "busy, backlog: a note",
      busy: true,
      backlog: [old],
      .note,
      .done,
      queue: ["followUp"],
      transcript: ["note"]
    ),
    Row(
      "busy, reset queued: a note",
      busy: true,
      backlog: [.reset],
      .note,
      .queued,
      queue: ["write", "write"]
    ),
    Row(
      "backlog: an input",
      backlog: [old],
      input,
      .queued,
      queue: ["followUp"],
      transcript: ["pi.user old"],
      startsRun: true
    ),
    Row(
      "backlog: an input that asks",
      backlog: [old],
      reject,
      .queued,
      queue: ["followUp"],
      transcript: ["pi.user old"],
      startsRun: true
    ),
    Row(
      "backlog with a reset: an input",
      backlog: [old, .reset],
      input,
      .queued,
      queue: ["followUp"],
      transcript: ["pi.reset", "pi.user old"],
      startsRun: true
    ),
    Row(
      "backlog with a reset: a steering input",
      backlog: [old, .reset],
      steer,
      .placed,
      transcript: ["pi.reset", "pi.user old", "pi.user hi"],
      startsRun: true
    ),
    Row(
      "backlog with a reset: a write",
      backlog: [old, .reset],
      fact,
      .done,
      transcript: ["pi.reset", "fact fact", "pi.user old"],
      startsRun: true
    ),
    Row(
      "backlog: a steering input",
      backlog: [old],
      steer,
      .placed,
      transcript: ["pi.user old", "pi.user hi"],
      startsRun: true
    ),
    Row(
      "backlog of a write: an input",
      backlog: [fact],
      input,
      .placed,
      transcript: ["fact fact", "pi.user hi"],
      startsRun: true
    ),
    Row(
      "backlog: a write",
      backlog: [old],
      fact,
      .done,
      transcript: ["fact fact", "pi.user old"],
      startsRun: true
    ),
    Row(
      "backlog: a reset",
      backlog: [old],
      .reset,
      .done,
      transcript: ["pi.reset", "pi.user old"],
      startsRun: true
    ),
    Row(
      "backlog: a note",
      backlog: [old],
      .note,
      .done,
      queue: ["followUp"],
      transcript: ["note"]
    ),
    Row(
      "backlog with a reset: a note",
      backlog: [old, .reset],
      .note,
      .queued,
      queue: ["followUp", "write", "write"]
    ),
  ]

  /// Gives the conversation what is queued, behind a run; that is gone if it is to be idle.
  private func prepare(_ still: StillConversation, _ row: Row) async throws -> TaskID {
    let task = try await still.makeBusy()
    for draft in row.backlog { try await still.admit(draft) }
    if !row.isBusy {
      // What was queued stays, as after a failure.
      try await still.session.commit { tx in
        var record = try #require(still.session.liveTask(task))
        record.state = .terminal(.completed(result: [:]))
        try await tx.replace(record)
        try await tx.edit(.live, .root) { try $0.delete(["run"]) }
      }
    }
    return task
  }

  @Test(arguments: rows)
  func `each submission is placed queued or refused as the conversation stands`(
    _ row: Row
  ) async throws {
    let still = try await StillConversation()
    let task = try await prepare(still, row)
    let before = still.session.store.lastStaged
    guard let status = row.status else {
      let error = await #expect(throws: PerdureError.self) { try await still.admit(row.draft) }
      #expect(error?.code == .conversationBusy)
      #expect(still.session.store.lastStaged == before)
      return try await still.end()
    }
    let id = try await still.admit(row.draft)
    #expect(still.session.store.lastStaged == before + 1, "one commit")
    #expect(try await still.status(id) == status)
    #expect(try await still.queue.map { $0["mode"] } == row.queue)
    #expect(try await still.transcript == row.transcript)
    let run = try await still.run
    #expect((run != nil) == (row.isBusy || row.startsRun))
    if row.startsRun { #expect(TaskID(run?["taskId"]) != task) }
    try await still.end()
  }

  @Test(arguments: rows.filter { $0.status != nil })
  func `a repeated request is the first one and writes nothing`(_ row: Row) async throws {
    let still = try await StillConversation()
    _ = try await prepare(still, row)
    let first = try await still.admit(row.draft, requestId: "r")
    let before = still.session.store.lastStaged
    #expect(try await still.admit(row.draft, requestId: "r") == first)
    #expect(still.session.store.lastStaged == before)
    try await still.end()
  }

  @Test(arguments: [true, false])
  func `a request id stands for one type of submission`(_ beginsWithInput: Bool) async throws {
    let still = try await StillConversation()
    _ = try await still.makeBusy()
    let drafts = beginsWithInput ? [Self.input, Self.fact] : [Self.fact, Self.input]
    try await still.admit(drafts[0], requestId: "r")
    let error = await #expect(throws: PerdureError.self) {
      try await still.admit(drafts[1], requestId: "r")
    }
    #expect(error?.code == .requestIdConflict)
    try await still.end()
  }

  static let wrong: [(draft: SubmissionDraft, name: String)] = [
    (.input(content: "x", entry: InputEntry(kind: "")), "an empty kind"),
    (.input(content: "x", entry: InputEntry(kind: "pi.user")), "a kind of ours"),
    (.input(content: 7), "content that is none"), (.write(EntryDraft(kind: "")), "no kind"),
    (.write(EntryDraft(kind: "x", model: [["role": "nobody"]])), "a message of nobody"),
    (.write(EntryDraft(kind: "x", edits: [.replace(.known(2), [7])])), "an edit without a message"),
  ]

  @Test(arguments: 0..<wrong.count)
  func `what could not be placed is refused before it is queued`(_ index: Int) async throws {
    let (draft, name) = Self.wrong[index]
    let still = try await StillConversation()
    _ = try await still.makeBusy()
    let error = await #expect(throws: PerdureError.self, "\(name)") { try await still.admit(draft) }
    #expect(error?.code == .invalidInput)
    #expect(try await still.queue.isEmpty)
    try await still.end()
  }

  @Test func `an input may be placed as an entry of the application's own`() async throws {
    let still = try await StillConversation()
    let entry = InputEntry(kind: "app.mail", data: ["from": "a"])
    _ = try await still.makeBusy()
    try await still.admit(.input(content: "queued", entry: entry))
    #expect(try await still.queue.first?["entry"] == ["kind": "app.mail", "data": ["from": "a"]])
    try await still.session.commit { tx in
      var boundary = try await tx.prepareBoundary(.root, QueueModes())
      _ = try await boundary.apply(.final, tx)
    }
    let placed = try await still.session.store.scanEntries(
      EntryQuery(conversationId: .root),
      PageRequest(limit: 1)
    ).items.first
    #expect(placed?.kind == "app.mail")
    #expect(placed?.data == ["from": "a"])
    #expect(placed?.model?.first?["content"] == "queued")
    try await still.session.close()
  }

  @Test func `a queued write is stored with all that it holds`() async throws {
    let still = try await StillConversation()
    _ = try await still.makeBusy()
    let draft = EntryDraft(
      kind: "x",
      model: [["role": "user", "content": "a", "timestamp": 1]],
      data: .null,
      head: .entry(.known(7)),
      edits: [.omit(.known(8)), .replace(.known(9), [])]
    )
    try await still.admit(.write(draft))
    let stored = try #require(try await still.queue.first?["entry"])
    #expect(try EntryDraft(json: stored) == draft)
    #expect(stored["head"] == 7)
    try await still.end()
  }

  // MARK: Settlement

  @Test func `only a placed input can be done`() async throws {
    let still = try await StillConversation()
    let task = try await still.makeBusy()
    let id = try await still.admit(Self.input)
    let error = await #expect(throws: PerdureError.self) {
      try await still.session.commit { tx in
        try await tx.settle(id) { _ in .done(entry: .known(5), answer: .known(5)) }
      }
    }
    #expect(error?.code == .invalidBatch)
    _ = task
    try await still.end()
  }

  @Test func `a settled submission stays as it is`() async throws {
    let still = try await StillConversation()
    let id = try await still.admit(.note)
    let before = try await still.session.store.submission(id)
    try await still.session.commit { tx in
      try await tx.settle(id) { _ in .unanswered(reason: "x", detail: nil, entry: nil) }
    }
    #expect(try await still.session.store.submission(id) == before)
    try await still.end()
  }

  @Test func `only what is queued can be placed`() async throws {
    let still = try await StillConversation()
    let id = try await still.admit(.note)
    let error = await #expect(throws: PerdureError.self) {
      try await still.session.commit { try await $0.place(id, entry: .known(3)) }
    }
    #expect(error?.code == .invalidBatch)
    try await still.end()
  }

  // MARK: Withdrawal

  @Test func `what is queued is withdrawn and what is placed is not`() async throws {
    let still = try await StillConversation()
    _ = try await still.makeBusy()
    let queued = try await still.admit(Self.input)
    let write = try await still.admit(Self.fact)
    let done = try await still.admit(.note)
    func withdraw(_ id: SubmissionID, from id2: ConversationID? = nil) async throws -> Withdrawal {
      try await still.session.commit { try await $0.withdraw(id, from: id2) }
    }
    #expect(try await withdraw(queued, from: .known(99)) == .notFound)
    #expect(try await withdraw(.known(4_000)) == .notFound)
    #expect(try await withdraw(queued, from: .root) == .aborted)
    #expect(try await withdraw(queued) == .settled)
    #expect(try await withdraw(write) == .aborted)
    #expect(try await withdraw(done) == .settled)
    #expect(try await still.reason(queued) == "aborted")
    #expect(try await still.queue.isEmpty)
    try await still.end()
  }
}
