import PerdureModel
import PerdureValue

extension StorageConformance {
  static let removalCases: [Case] = [
    Case(name: "a removed record is gone for every read") { store in
      let room = try await Room(in: store)
      try await store.commit(room.all.map { .remove($0) })
      try await room.expectGone(await store.reads)
      try await store.reopen()
      try await room.expectGone(await store.reads)
    },
    Case(name: "a removal leaves everything else as it was") { store in
      let room = try await Room(in: store)
      let entry = EntryRecord(try await store.mint())
      let sequence = try await store.commit(.entry(entry))
      let kept = try await Room(in: store)
      try await store.commit(room.all.map { .remove($0) })
      try await store.reopen()
      let found = try await store.reads.entry(entry.id)
      try expect(found, EntryLookup(entry: entry, commitSequence: sequence), "the entry")
      try await kept.expectThere(await store.reads)
    },
    Case(name: "the id of a removed record is never minted again") { store in
      _ = try await store.root()
      let entry: EntryID = try await store.mint()
      let before = try await store.commit(.entry(EntryRecord(entry)))
      let after = try await store.commit(.remove(RecordReference(entry)))
      try expect(after, before + 1, "the sequence of the removal")
      try await store.reopen()
      let next: EntryID = try await store.mint()
      try expect(next > entry, true, "a greater id")
      try expect(
        try await store.commit(.entry(EntryRecord(next))),
        after + 1,
        "the sequence behind the removal"
      )
    },
    Case(name: "a removal that breaks a rule is refused") { store in
      _ = try await store.root()
      let task = TaskRecord(try await store.mint())
      let document = DocumentRecord(try await store.mint(), "doc")
      try await store.commit(
        .task(task),
        .createDocument(document, version: 1, value: ["n": 1])
      )
      let removal = StorageWrite.remove(RecordReference(task.id))
      let refused: [([StorageWrite], String)] = [
        ([.remove(RecordReference(.entry, 99))], "unknown"),
        ([.remove(RecordReference(.entry, task.id.value))], "unknown"),
        ([.remove(RecordReference(.document, 98))], "unknown"),
        ([removal, removal], "more than once"),
        ([removal, .task(task)], "written and removed"),
        (
          [
            .remove(RecordReference(document.id)),
            .changeDocument(document.id, .base(version: 1, value: [:])),
          ], "written and removed"
        ),
      ]
      for (writes, sentence) in refused {
        try await expectError(.invalidBatch, sentence, "\(writes)") {
          try await store.commit(writes)
        }
      }
      try expect(try await store.reads.task(task.id), task, "the task")
      let found = try await store.reads.document(document.id, at: nil)
      try expect(found?.value, ["n": 1], "the document")
    },
    Case(name: "a removed document leaves its address free") { store in
      _ = try await store.root()
      let documents = [
        DocumentRecord.rewindable(try await store.mint(), "doc"),
        DocumentRecord.rewindable(try await store.mint(), "doc"),
        DocumentRecord.rewindable(try await store.mint(), "doc"),
      ]
      func creation(_ place: Int) -> StorageWrite {
        .createDocument(documents[place], version: 1, value: ["n": .int(place)])
      }
      func removal(_ place: Int) -> StorageWrite {
        .remove(RecordReference(documents[place].id))
      }
      try await store.commit(creation(0))
      try await store.commit(removal(0), creation(1))
      let address = documents[0].address
      let second = try await store.reads.findDocument(address, at: nil)
      try expect(second?.id, documents[1].id, "the second")
      try await store.commit(removal(1))
      try expect(try await store.reads.findDocument(address, at: nil), nil, "none")
      try await store.commit(creation(2))
      try await store.reopen()
      let third = try await store.reads.document(documents[2].id, at: nil)
      try expect(third?.value, ["n": 2], "the third")
      let all = try await store.reads.scanDocuments(
        DocumentQuery(scope: .conversation(.root), includesRetired: true),
        PageRequest(limit: 9)
      )
      try expect(all.items.map { $0.id }, [documents[2].id], "the documents of all times")
    },
    Case(name: "a scan of documents of all times finds retired ones") { store in
      _ = try await store.root()
      let old = DocumentRecord.rewindable(try await store.mint(), "doc")
      let new = DocumentRecord.rewindable(try await store.mint(), "doc")
      try await store.commit(.createDocument(old, version: 1, value: [:]))
      try await store.commit(.retireDocument(old.id), .createDocument(new, version: 1, value: [:]))
      for (includesRetired, wanted) in [(false, [new.id]), (true, [old.id, new.id])] {
        let reads = await store.reads
        let found = try await all(limit: 1) { page in
          try await reads.scanDocuments(
            DocumentQuery(scope: .conversation(.root), includesRetired: includesRetired),
            page
          )
        }
        try expect(found.map { $0.id }, wanted, "with retired ones: \(includesRetired)")
      }
    },
  ]

  static let removalBackendCases: [Case] = [
    Case(name: "a group may remove what an earlier batch of it wrote") { store in
      _ = try await store.root()
      let backend = try await store.backend()
      let document = DocumentRecord(try id(3), "doc")
      let before = try await backend.counters()
      let batches: [[StorageWrite]] = [
        [
          .task(TaskRecord(try id(2))), .createDocument(document, version: 1, value: ["n": 1]),
          .entry(EntryRecord(try id(4))),
        ],
        [
          .remove(RecordReference(.task, 2)), .remove(RecordReference(.document, 3)),
          .remove(RecordReference(.entry, 4)),
        ],
        [.createDocument(DocumentRecord(try id(5), "doc"), version: 1, value: ["n": 2])],
      ]
      let group = batches.enumerated().map { index, writes in
        Batch(sequence: before.nextSequence + Int64(index), writes: writes, at: 0)
      }
      try await backend.apply(group, expecting: before, nextId: 6)
      try await store.reopen()
      let reads = try await store.backend()
      try expect(try await reads.task(try id(2)), nil, "the task")
      try expect(try await reads.entry(try id(4)), nil, "the entry")
      try expect(try await reads.document(document.id, at: nil), nil, "the document")
      let found = try await reads.findDocument(document.address, at: nil)
      try expect(found?.id.value, 5, "its successor")
    },
    Case(name: "a refused batch brings back what its group removed") { store in
      let room = try await Room(in: store)
      let backend = try await store.backend()
      let before = try await backend.counters()
      let group = [
        Batch(sequence: before.nextSequence, writes: room.all.map { .remove($0) }, at: 0),
        Batch(
          sequence: before.nextSequence + 1,
          writes: [.remove(RecordReference(.entry, before.nextId))],
          at: 0
        ),
      ]
      try await expectError(.invalidBatch, "unknown", "the group") {
        try await backend.apply(group, expecting: before, nextId: before.nextId)
      }
      try await room.expectThere(backend)
    },
    Case(name: "compaction keeps all that was not removed, and its numbers") { store in
      let room = try await Room(in: store)
      let kept = try await Room(in: store)
      let last = try await Room(in: store)
      try await store.commit(room.all.map { .remove($0) })
      try await store.commit(last.all.map { .remove($0) })
      let counters = try await store.backend().counters()
      for _ in 0..<2 {
        guard let backend = try await store.backend() as? any CompactingStorage else { return }
        try await backend.compact()
        try await kept.expectThere(backend)
        try await store.reopen()
        let reads = try await store.backend()
        try expect(try await reads.counters(), counters, "the counters")
        try await room.expectGone(reads)
        try await last.expectGone(reads)
        try await kept.expectThere(reads)
      }
      let next: EntryID = try await store.mint()
      let sequence = try await store.commit(.entry(EntryRecord(next)))
      try expect(sequence, counters.nextSequence, "the next sequence")
      try expect(next.value >= counters.nextId, true, "the next id")
    },
  ]
}

/// A conversation with one record of each kind, and what it takes to look for them.
private struct Room {
  let conversation: ConversationRecord
  var entries: [EntryLookup] = []
  let task: TaskRecord
  let submissions: [SubmissionRecord]
  let latest: DocumentRecord
  let history: DocumentRecord
  let retired: DocumentRecord
  /// The commits that wrote the entries and the documents.
  let sequences: [Int64]
  let requestId: JSONString

  init(in store: StorageHarness) async throws {
    if try await store.reads.conversation(.root) == nil { _ = try await store.root() }
    let id: ConversationID = try await store.mint()
    conversation = ConversationRecord(id: id)
    requestId = JSONString("request \(id)")
    task = TaskRecord(
      try await store.mint(),
      state: .terminal(.completed(result: ["of": id.json]))
    )
    submissions = [
      SubmissionRecord(try await store.mint(), in: id, requestId: requestId),
      SubmissionRecord(try await store.mint(), in: id),
    ]
    latest = DocumentRecord(
      try await store.mint(),
      "latest",
      .conversation(id),
      history: .latest,
      fork: .initial
    )
    history = .rewindable(try await store.mint(), "history", in: id)
    retired = .rewindable(try await store.mint(), "retired", in: id)
    let first = EntryRecord(try await store.mint(), in: id, data: "first")
    var head = EntryRecord(try await store.mint(), in: id, data: "head")
    head.head = head.id
    var live = task
    live.state = .running(checkpoint: ["n": 1])
    let beginning = try await store.commit([
      .conversation(conversation), .entry(first), .task(live), .submission(submissions[0]),
      .submission(submissions[1]), .createDocument(latest, version: 1, value: ["n": 1]),
      .createDocument(history, version: 1, value: ["n": 1]),
      .createDocument(retired, version: 1, value: ["n": 1]),
    ])
    let end = try await store.commit([
      .entry(head), .task(task),
      .changeDocument(latest.id, .base(version: 1, value: ["n": 2])),
      .changeDocument(history.id, .delta(version: 1, operations: [.set(["n"], 2)])),
      .retireDocument(retired.id),
    ])
    try await store.commit([
      .changeDocument(latest.id, .delta(version: 1, operations: [.set(["m"], 3)]))
    ])
    entries = [
      EntryLookup(entry: first, commitSequence: beginning),
      EntryLookup(entry: head, commitSequence: end),
    ]
    sequences = [beginning, end]
  }

  /// Everything that can be removed, the conversation last.
  var all: [RecordReference] {
    entries.map { RecordReference($0.entry.id) } + [RecordReference(task.id)]
      + submissions.map { RecordReference($0.id) }
      + [latest, history, retired].map { RecordReference($0.id) }
      + [RecordReference(conversation.id)]
  }

  private var documents: [DocumentRecord] { [latest, history, retired] }

  func expectGone(_ reads: any StorageReads) async throws {
    try expect(try await reads.conversation(conversation.id), nil, "the conversation")
    for found in entries {
      try expect(try await reads.entry(found.entry.id), nil, "entry \(found.entry.id)")
    }
    try await expectError(.invalidRequest, "unknown conversation", "a scan of its entries") {
      let query = EntryQuery(conversationId: conversation.id)
      _ = try await reads.scanEntries(query, PageRequest(limit: 9))
    }
    try expect(try await reads.task(task.id), nil, "the task")
    let tasks = try await reads.scanTasks(TaskQuery(), PageRequest(limit: 99)).items
    try expect(tasks.contains { $0.id == task.id }, false, "the task in a scan")
    for submission in submissions {
      try expect(try await reads.submission(submission.id), nil, "submission \(submission.id)")
    }
    let requested = try await reads.submission(requestId: requestId, in: conversation.id)
    try expect(requested, nil, "the submission of the request id")
    let open = try await reads.scanSubmissions(
      SubmissionQuery(conversationId: conversation.id),
      PageRequest(limit: 9)
    )
    try expect(open.items, [], "its submissions")
    for document in documents {
      for at in [nil, sequences[0], sequences[1]] {
        let found = try await reads.findDocument(document.address, at: at)
        try expect(found, nil, "document \(document.id)")
      }
      try expect(try await reads.document(document.id, at: nil), nil, "document \(document.id)")
    }
    let scope = DocumentQuery(scope: .conversation(conversation.id), includesRetired: true)
    let scanned = try await reads.scanDocuments(scope, PageRequest(limit: 9))
    try expect(scanned.items, [], "its documents")
    let conversations = try await reads.scanConversations(.init(), PageRequest(limit: 99)).items
    try expect(conversations.contains(conversation), false, "the conversation in a scan")
  }

  func expectThere(_ reads: any StorageReads) async throws {
    try expect(try await reads.conversation(conversation.id), conversation, "the conversation")
    for found in entries {
      try expect(try await reads.entry(found.entry.id), found, "entry \(found.entry.id)")
    }
    let scan = try await reads.scanEntries(
      EntryQuery(conversationId: conversation.id),
      PageRequest(limit: 9, order: .ascending)
    )
    try expect(scan.items, entries.map { $0.entry }, "its entries")
    let head = try await reads.latestHeadMarker(conversation.id, atOrBefore: nil)
    try expect(head, entries.last?.entry, "the head")
    try expect(try await reads.task(task.id), task, "the task")
    for submission in submissions {
      let found = try await reads.submission(submission.id)
      try expect(found, submission, "submission \(submission.id)")
    }
    let requested = try await reads.submission(requestId: requestId, in: conversation.id)
    try expect(requested, submissions[0], "the submission of the request id")
    let newest = try await reads.document(latest.id, at: nil)
    try expect(newest?.value, ["n": 2, "m": 3], "the latest value")
    try expect(newest?.record.createdAt, sequences[0], "its stamp")
    try expect(newest?.deltasSinceBase, 1, "its deltas")
    for (at, value) in zip(sequences, [1, 2]) {
      let found = try await reads.document(history.id, at: at)
      try expect(found?.value, ["n": .int(value)], "the history at \(at)")
    }
    let past = try await reads.findDocument(retired.address, at: sequences[0])
    try expect(past?.id, retired.id, "the retired one, then")
    try expect(past?.retiredAt, sequences[1], "its end")
    let scope = DocumentQuery(scope: .conversation(conversation.id), includesRetired: true)
    let scanned = try await reads.scanDocuments(scope, PageRequest(limit: 9))
    try expect(scanned.items.map { $0.id }, documents.map { $0.id }, "its documents")
  }
}
