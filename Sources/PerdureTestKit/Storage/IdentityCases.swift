import PerdureModel
import PerdureValue

extension StorageConformance {
  static let identityCases: [Case] = [
    Case(name: "identities with lone surrogates stay apart") { store in
      _ = try await store.root()
      let names = [
        JSONString(utf16: [0xD800]), JSONString(utf16: [0xD801]), JSONString("\u{FFFD}"),
        JSONString("é"), JSONString("e\u{301}"), JSONString("\"\\\u{7F}\u{1}"),
      ]
      for (index, name) in names.enumerated() {
        let task = TaskRecord(try await store.mint(), kind: name)
        let submission = SubmissionRecord(try await store.mint(), requestId: name)
        let document = DocumentRecord(try await store.mint(), name)
        let member = DocumentRecord(try await store.mint(), "family", key: name)
        try await store.commit(
          .task(task),
          .submission(submission),
          .createDocument(document, version: 1, value: ["n": .int(index)]),
          .createDocument(member, version: 1, value: ["n": .int(index)])
        )
      }
      for (index, name) in names.enumerated() {
        let first = Int64(2 + 4 * index)
        let reads = await store.reads
        let tasks = try await reads.scanTasks(TaskQuery(kind: name), PageRequest(limit: 9))
        try expect(tasks.items.map { $0.id.value }, [first], "the tasks of kind \(index)")
        let submission = try await reads.submission(requestId: name, in: .root)
        try expect(submission?.id.value, first + 1, "the submission \(index)")
        let documents = try await reads.scanDocuments(
          DocumentQuery(scope: .session, kind: name),
          PageRequest(limit: 9)
        )
        try expect(documents.items.map { $0.id.value }, [first + 2], "the kind \(index)")
        let member = try await reads.findDocument(
          DocumentAddress(kind: "family", scope: .session, key: name),
          at: nil
        )
        try expect(member?.id.value, first + 3, "the member \(index)")
      }
    },
    Case(name: "all records share one range of ids, which ends") { store in
      _ = try await store.root()
      try await store.commit(.entry(EntryRecord(try id(100))))
      let next: TaskID = try await store.mint()
      try expect(next.value, 101, "the id behind an explicit one")
      try await expectError(.invalidBatch, "already belongs to entry", "a task with it") {
        try await store.commit(.task(TaskRecord(try id(100))))
      }
      try await expectError(.invalidBatch, "written as two record types", "two types") {
        try await store.commit(
          .task(TaskRecord(try id(200))),
          .submission(SubmissionRecord(try id(200)))
        )
      }
      try await expectError(.invalidBatch, "written more than once", "two entries") {
        try await store.commit(.entry(EntryRecord(try id(200))), .entry(EntryRecord(try id(200))))
      }
      try await store.commit(.entry(EntryRecord(try id(EntryID.greatest))))
      for _ in 0..<2 {
        try await expectError(nil, "ID space is exhausted", "minting at the end") {
          let _: EntryID = try await store.mint()
        }
      }
    },
    Case(name: "committed ids are never minted again") { store in
      _ = try await store.root()
      let first: EntryID = try await store.mint()
      try await store.commit(.entry(EntryRecord(first)))
      try await store.reopen()
      let second: EntryID = try await store.mint()
      try expect(second > first, true, "a greater id after reopening")
    },
  ]

  static let groupCases: [Case] = [
    Case(name: "a group is written as a whole") { store in
      let backend = try await store.backend()
      let (entry, document) = (EntryRecord(try id(2)), DocumentRecord(try id(3), "doc"))
      let group = [
        Batch(sequence: 1, writes: [.conversation(ConversationRecord(id: .root))], at: 0),
        Batch(
          sequence: 2,
          writes: [.entry(entry), .createDocument(document, version: 1, value: ["n": 1])],
          extras: [ExtraWrite(scope: "a", id: 0, value: 1)],
          at: 0
        ),
        Batch(
          sequence: 3,
          writes: [.changeDocument(document.id, .delta(version: 1, operations: [.set(["n"], 2)]))],
          extras: [ExtraWrite(scope: "a", id: 0, value: 2)],
          at: 0
        ),
      ]
      try await backend.apply(group, expecting: StoreCounters(), nextId: 40)
      try await store.reopen()
      let reads = try await store.backend()
      let counters = try await reads.counters()
      try expect(counters, StoreCounters(nextSequence: 4, nextId: 40), "the counters")
      try expect(try await reads.entry(entry.id)?.commitSequence, 2, "the entry's commit")
      let found = try await reads.document(document.id, at: nil)
      try expect(found?.value, ["n": 2], "the document")
      try expect(found?.record.createdAt, 2, "the document's stamp")
      try expect(found?.deltasSinceBase, 1, "its deltas")
      try expect(try await reads.extra(scope: "a", id: 0), 2, "the fact")
    },
    Case(name: "a refused batch takes its group back") { store in
      _ = try await store.root()
      let backend = try await store.backend()
      let before = try await backend.counters()
      let document = DocumentRecord(try id(3), "doc")
      let group = [
        Batch(
          sequence: 2,
          writes: [
            .task(TaskRecord(try id(2))), .createDocument(document, version: 1, value: [:]),
          ],
          extras: [ExtraWrite(scope: "a", id: 0, value: 1)],
          at: 0
        ),
        Batch(sequence: 3, writes: [.entry(EntryRecord(try id(2)))], at: 0),
      ]
      try await expectError(.invalidBatch, "already belongs to task", "the group") {
        try await backend.apply(group, expecting: before, nextId: 40)
      }
      try expect(try await backend.counters(), before, "the counters")
      try expect(try await backend.task(try id(2)), nil, "the task")
      let all = try await backend.scanTasks(TaskQuery(), PageRequest(limit: 9))
      try expect(all.items, [], "the tasks")
      try expect(try await backend.document(document.id, at: nil), nil, "the document")
      let found = try await backend.findDocument(document.address, at: nil)
      try expect(found, nil, "the document's address")
      try expect(try await backend.extra(scope: "a", id: 0), nil, "the fact")
      try await store.commit(.entry(EntryRecord(try id(2))))
    },
    Case(name: "a group sees its own earlier batches") { store in
      _ = try await store.root()
      let backend = try await store.backend()
      let old = DocumentRecord.rewindable(try id(2), "doc")
      let new = DocumentRecord.rewindable(try id(3), "doc")
      let copy = DocumentRecord.rewindable(try id(4), "doc", in: try id(5))
      let group = [
        Batch(sequence: 2, writes: [.createDocument(old, version: 1, value: ["n": 1])], at: 0),
        Batch(
          sequence: 3,
          writes: [.changeDocument(old.id, .delta(version: 1, operations: [.set(["n"], 2)]))],
          at: 0
        ),
        Batch(
          sequence: 4,
          writes: [
            .conversation(ConversationRecord(id: try id(5))),
            .copyDocument(copy, source: old.id, at: 3),
          ],
          at: 0
        ),
        Batch(
          sequence: 5,
          writes: [.retireDocument(old.id), .createDocument(new, version: 1, value: ["n": 3])],
          at: 0
        ),
        Batch(
          sequence: 6,
          writes: [.changeDocument(new.id, .base(version: 2, value: ["n": 4]))],
          at: 0
        ),
      ]
      let counters = try await backend.counters()
      try await backend.apply(group, expecting: counters, nextId: 6)
      try expect(try await backend.document(old.id, at: 2)?.value, ["n": 1], "the old one")
      try expect(try await backend.document(copy.id, at: nil)?.value, ["n": 2], "the copy")
      try expect(try await backend.document(new.id, at: 5)?.value, ["n": 3], "the new one")
      try expect(try await backend.document(new.id, at: nil)?.value, ["n": 4], "the new one now")
      let found = try await backend.findDocument(old.address, at: nil)
      try expect(found?.id, new.id, "the live one")
    },
    Case(name: "other counters than expected stop a group") { store in
      _ = try await store.root()
      let backend = try await store.backend()
      let before = try await backend.counters()
      for expected in [
        StoreCounters(nextSequence: before.nextSequence + 1, nextId: before.nextId),
        StoreCounters(nextSequence: before.nextSequence, nextId: before.nextId + 1),
      ] {
        let batch = Batch(
          sequence: expected.nextSequence,
          writes: [.entry(EntryRecord(try id(2)))],
          at: 0
        )
        try await expectError(.foreignWriter, "another program", "the group") {
          try await backend.apply([batch], expecting: expected, nextId: 40)
        }
      }
      try expect(try await backend.counters(), before, "the counters")
      try expect(try await backend.entry(try id(2)), nil, "the entry")
    },
    Case(name: "sequence numbers and ids do not go back") { store in
      _ = try await store.root()
      let backend = try await store.backend()
      let before = try await backend.counters()
      let entry = StorageWrite.entry(EntryRecord(try id(20)))
      let refused: [(Int64, Int64)] = [(before.nextSequence + 1, 40), (before.nextSequence, 20)]
      for (sequence, nextId) in refused {
        try await expectError(.invalidBatch, "", "sequence \(sequence), next id \(nextId)") {
          try await backend.apply(
            [Batch(sequence: sequence, writes: [entry], at: 0)],
            expecting: before,
            nextId: nextId
          )
        }
      }
      try await expectError(.invalidBatch, "", "an earlier next id") {
        try await backend.apply([], expecting: before, nextId: before.nextId - 1)
      }
      try await backend.apply([], expecting: before, nextId: 50)
      try expect(
        try await backend.counters(),
        StoreCounters(nextSequence: before.nextSequence, nextId: 50),
        "the counters"
      )
    },
  ]
}
