import PerdureModel
import PerdureValue

extension StorageConformance {
  static let documentCases: [Case] = [
    Case(name: "a rewindable document has a value at every commit") { store in
      _ = try await store.root()
      let record = DocumentRecord.rewindable(try await store.mint(), "doc")
      var at: [Int64] = []
      at.append(
        try await store.commit(.createDocument(record, version: 1, value: ["n": 1]))
      )
      let contents: [DocumentContent] = [
        .delta(version: 1, operations: [.set(["n"], 2)]), .base(version: 2, value: ["m": 3]),
        .delta(version: 2, operations: [.replace(["m": 4])]),
      ]
      for content in contents {
        at.append(try await store.commit(.changeDocument(record.id, content)))
      }
      let wanted: [(Int64, JSON, Int)] = [
        (1, ["n": 1], 0), (1, ["n": 2], 1), (2, ["m": 3], 0), (2, ["m": 4], 1),
      ]
      for (sequence, (version, value, deltas)) in zip(at, wanted) {
        let found = try await store.reads.document(record.id, at: sequence)
        try expect(found?.value, value, "the value at \(sequence)")
        try expect(found?.version, version, "the version at \(sequence)")
        try expect(found?.deltasSinceBase, deltas, "the deltas at \(sequence)")
      }
      let now = try await store.reads.document(record.id, at: nil)
      try expect(now?.value, ["m": 4], "the value now")
      try expect(now?.record.createdAt, at.first, "the stamp of its creation")
    },
    Case(name: "a document and its successor share an address in turn") { store in
      _ = try await store.root()
      let old = DocumentRecord.rewindable(try await store.mint(), "doc")
      let created = try await store.commit(.createDocument(old, version: 1, value: ["n": 1]))
      let new = DocumentRecord.rewindable(try await store.mint(), "doc")
      let changed = try await store.commit(
        .retireDocument(old.id),
        .createDocument(new, version: 1, value: ["n": 9]),
        .changeDocument(old.id, .delta(version: 1, operations: [.set(["n"], 2)]))
      )
      let reads = await store.reads
      let address = old.address
      try expect(try await reads.findDocument(address, at: created)?.id, old.id, "before")
      try expect(try await reads.findDocument(address, at: changed)?.id, new.id, "after")
      try expect(try await reads.findDocument(address, at: nil)?.id, new.id, "now")
      try expect(try await reads.document(old.id, at: created)?.value, ["n": 1], "its past")
      try expect(try await reads.document(old.id, at: changed), nil, "its end")
      try expect(try await reads.document(old.id, at: nil), nil, "the retired one now")
      for (at, wanted) in [(created, old.id), (changed, new.id), (nil, new.id)] {
        let query = DocumentQuery(scope: .conversation(.root), at: at)
        let page = try await reads.scanDocuments(query, PageRequest(limit: 9))
        try expect(page.items.map { $0.id }, [wanted], "the documents")
      }
    },
    Case(name: "a long tail of deltas is replayed") { store in
      _ = try await store.root()
      let record = DocumentRecord(try await store.mint(), "rows")
      var value: JSON = ["rows": .array((0..<512).map { .int($0) })]
      try await store.commit(.createDocument(record, version: 1, value: value))
      for step in 0..<49 {
        let operations: [Operation] =
          step == 24
          ? [.replace(["rows": [0, 1, 2]])]
          : [
            .set(["rows", .index(step % 3)], .int(step)),
            .splice(["rows"], at: 1, remove: 0, insert: [.string("s\(step)")]),
          ]
        value = try value.applying(operations)
        try await store.commit(
          .changeDocument(record.id, .delta(version: 1, operations: operations))
        )
        guard step % 8 == 0 else { continue }
        let found = try await store.reads.document(record.id, at: nil)
        try expect(found?.value, value, "the value after \(step + 1) deltas")
        try expect(found?.deltasSinceBase, step + 1, "the number of deltas")
      }
    },
    Case(name: "addresses tell scopes, kinds and keys apart") { store in
      _ = try await store.root()
      let task = TaskRecord(try await store.mint())
      try await store.commit(.task(task))
      let keys: [JSONString?] = [nil, "", "__proto__", "constructor"]
      let scopes: [DocumentScope] = [.session, .conversation(.root), .task(task.id)]
      var wanted: [DocumentScope: [DocumentID]] = [:]
      for scope in scopes {
        for kind in ["a", "b"] as [JSONString] {
          for key in keys {
            let isOwn = scope == .conversation(.root)
            let record = DocumentRecord(
              try await store.mint(),
              kind,
              scope,
              key: key,
              history: isOwn ? .latest : nil,
              fork: isOwn ? .current : nil
            )
            try await store.commit(
              .createDocument(record, version: 1, value: ["id": record.id.json])
            )
            wanted[scope, default: []].append(record.id)
            let found = try await store.reads.findDocument(record.address, at: nil)
            try expect(found?.id, record.id, "the document at \(record.address)")
          }
        }
      }
      for scope in scopes {
        let found = try await all(limit: 3) {
          try await store.reads.scanDocuments(DocumentQuery(scope: scope), $0)
        }
        try expect(found.map { $0.id }, wanted[scope] ?? [], "the documents of \(scope)")
        let ofKind = try await all(limit: 3) {
          try await store.reads.scanDocuments(DocumentQuery(scope: scope, kind: "b"), $0)
        }
        try expect(ofKind.count, keys.count, "the documents of one kind")
      }
    },
  ]

  static let documentRuleCases: [Case] = [
    Case(name: "a new version of a document needs a base") { store in
      _ = try await store.root()
      let record = DocumentRecord(try await store.mint(), "doc")
      let created = try await store.commit(.createDocument(record, version: 1, value: ["n": 1]))
      try await store.commit(.changeDocument(record.id, .base(version: 2, value: ["n": 2])))
      try await expectError(.invalidBatch, "version transition requires a base", "a delta") {
        try await store.commit(
          .changeDocument(record.id, .delta(version: 1, operations: [.set(["n"], 3)]))
        )
      }
      try expect(try await store.reads.document(record.id, at: nil)?.value, ["n": 2], "the value")
      try await expectError(
        .invalidRequest,
        "does not retain historical content",
        "a read of the past"
      ) { _ = try await store.reads.document(record.id, at: created) }
    },
    Case(name: "an address has one live document") { store in
      _ = try await store.root()
      let record = DocumentRecord.rewindable(try await store.mint(), "doc")
      try await store.commit(.createDocument(record, version: 1, value: ["n": 1]))
      let second = DocumentRecord.rewindable(try await store.mint(), "doc")
      try await expectError(.invalidBatch, "already has a current incarnation", "a second one") {
        try await store.commit(
          .changeDocument(record.id, .base(version: 1, value: ["n": 2])),
          .createDocument(second, version: 1, value: [:])
        )
      }
      try expect(try await store.reads.document(record.id, at: nil)?.value, ["n": 1], "the value")
      let brief = DocumentRecord.rewindable(try await store.mint(), "brief")
      let sequence = try await store.commit(
        .retireDocument(brief.id),
        .createDocument(brief, version: 1, value: [:])
      )
      let reads = await store.reads
      try expect(try await reads.document(brief.id, at: nil), nil, "the brief one now")
      try expect(try await reads.document(brief.id, at: sequence), nil, "at its own commit")
      let found = try await reads.findDocument(brief.address, at: sequence)
      try expect(found, nil, "the brief one in a lookup")
    },
    Case(name: "a refused document takes the whole batch back") { store in
      _ = try await store.root()
      var task = TaskRecord(try await store.mint())
      let submission = SubmissionRecord(try await store.mint())
      try await store.commit(.task(task), .submission(submission))
      let before = task
      task.state = .terminal(.completed(result: .null))
      var done = submission
      done.state = .unanswered(reason: "x", detail: nil, entry: nil)
      let entry = EntryRecord(try await store.mint())
      try await expectError(.invalidBatch, "unknown document", "an unknown document") {
        try await store.commit(
          .task(task),
          .submission(done),
          .entry(entry),
          .createDocument(DocumentRecord(try id(90), "doc"), version: 1, value: [:]),
          .retireDocument(try id(91))
        )
      }
      let reads = await store.reads
      try expect(try await reads.task(task.id), before, "the task")
      try expect(try await reads.submission(submission.id), submission, "the submission")
      try expect(try await reads.entry(entry.id), nil, "the entry")
      let pending = try await reads.scanTasks(TaskQuery(status: .pending), PageRequest(limit: 9))
      try expect(pending.items, [before], "the pending tasks")
      let found = try await reads.scanDocuments(
        DocumentQuery(scope: .session),
        PageRequest(limit: 9)
      )
      try expect(found.items, [], "the documents")
      try await store.commit(.task(task))
    },
    Case(name: "commands for a document are checked") { store in
      _ = try await store.root()
      let record = DocumentRecord(try await store.mint(), "doc")
      let gone = DocumentRecord(try await store.mint(), "gone")
      try await store.commit(
        .createDocument(record, version: 1, value: [:]),
        .createDocument(gone, version: 1, value: [:])
      )
      try await store.commit(.retireDocument(gone.id))
      let change = StorageWrite.changeDocument(record.id, .base(version: 1, value: [:]))
      let refused: [(String, [StorageWrite])] = [
        ("more than one content command", [change, change]),
        ("retired more than once", [.retireDocument(record.id), .retireDocument(record.id)]),
        ("is retired", [.changeDocument(gone.id, .base(version: 1, value: [:]))]),
        ("is retired", [.retireDocument(gone.id)]),
        ("already belongs to document", [.createDocument(record, version: 1, value: [:])]),
        (
          "version transition requires a base",
          [.changeDocument(record.id, .delta(version: 2, operations: []))]
        ),
      ]
      for (text, writes) in refused {
        try await expectError(.invalidBatch, text, text) {
          try await store.commit(writes)
        }
      }
    },
  ]
}
