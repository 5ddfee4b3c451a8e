import PerdureModel
import PerdureValue

extension StorageConformance {
  static let tableCases: [Case] = [
    Case(name: "the root id is reserved") { store in
      let first: EntryID = try await store.mint()
      try expect(first.value, 2, "the first minted id")
      let root = try await store.root()
      let found = try await store.reads.conversation(root)
      try expect(found, ConversationRecord(id: root), "the root conversation")
      try await expectError(
        .invalidBatch,
        "already belongs to conversation",
        "creating the root again"
      ) { try await store.commit(.conversation(ConversationRecord(id: root))) }
    },
    Case(name: "a batch is written to all tables or to none") { store in
      _ = try await store.root()
      let (entry, task): (EntryID, TaskID) = (try await store.mint(), try await store.mint())
      let submission: SubmissionID = try await store.mint()
      let sequence = try await store.commit(
        .entry(EntryRecord(entry, data: "a")),
        .task(TaskRecord(task)),
        .submission(SubmissionRecord(submission))
      )
      let lookup = EntryLookup(
        entry: EntryRecord(entry, data: "a"),
        commitSequence: sequence
      )
      try expect(try await store.reads.entry(entry), lookup, "the entry")
      try expect(try await store.reads.task(task), TaskRecord(task), "the task")
      let second: EntryID = try await store.mint()
      var terminal = TaskRecord(task)
      terminal.state = .terminal(.completed(result: 1))
      try await expectError(.invalidBatch, "already belongs to entry", "a bad last write") {
        try await store.commit(
          .task(terminal),
          .entry(EntryRecord(second)),
          .entry(EntryRecord(entry))
        )
      }
      try expect(try await store.reads.task(task), TaskRecord(task), "the task after it")
      try expect(try await store.reads.entry(second), nil, "the entry before the bad write")
      let next = try await store.commit(.entry(EntryRecord(second)))
      try expect(next > sequence, true, "a greater sequence number")
    },
    Case(name: "stored values are apart from the caller's") { store in
      _ = try await store.root()
      var entry = EntryRecord(try await store.mint(), data: ["list": [1, 2]])
      let original = entry
      try await store.commit(.entry(entry))
      entry.data = "changed"
      var read = try await store.reads.entry(entry.id)
      read?.entry.data = "changed as well"
      let again = try await store.reads.entry(entry.id)
      try expect(again?.entry, original, "the entry")
    },
    Case(name: "keys with a meaning in JavaScript are data") { store in
      _ = try await store.root()
      let data: JSON = [
        "__proto__": ["a": 1], "constructor": "b", "toString": .null, "é": 1, "e\u{301}": 2,
      ]
      let entry = EntryRecord(try await store.mint(), data: data)
      try await store.commit(.entry(entry))
      let read = try await store.reads.entry(entry.id)
      try expect(read?.entry.data?.compactText, data.compactText, "the data")
    },
    Case(name: "numbers keep their kind and strings their bytes") { store in
      _ = try await store.root()
      let data: JSON = [
        .int(Int64.max), .double(1.5), .bigInteger("123456789012345678901234567890"),
        .string(JSONString(utf16: [0xD800, 0x61])), "\u{0}\u{1F}\u{7F}\u{2028}😀",
      ]
      let entry = EntryRecord(try await store.mint(), data: data)
      try await store.commit(.entry(entry))
      try expect(try await store.reads.entry(entry.id)?.entry.data, data, "the data")
    },
    Case(name: "entries are ordered by id, not by arrival") { store in
      _ = try await store.root()
      var head = EntryRecord(try id(20))
      head.head = head.id
      try await store.commit(
        .entry(EntryRecord(try id(30))),
        .entry(EntryRecord(try id(10))),
        .entry(head)
      )
      let ids = try await all(limit: 2, order: .descending) {
        try await store.reads.scanEntries(EntryQuery(conversationId: .root), $0)
      }.map { $0.id.value }
      try expect(ids, [30, 20, 10], "newest first")
      let marker = try await store.reads.latestHeadMarker(.root, atOrBefore: nil)
      try expect(marker, head, "the head marker")
    },
    Case(name: "a descending scan goes on below newer commits") { store in
      _ = try await store.root()
      for _ in 0..<4 { try await store.commit(.entry(EntryRecord(try await store.mint()))) }
      let query = EntryQuery(conversationId: .root)
      let first = try await store.reads.scanEntries(query, PageRequest(limit: 2))
      try await store.commit(.entry(EntryRecord(try await store.mint())))
      let second = try await store.reads.scanEntries(
        query,
        PageRequest(limit: 9, cursor: first.next)
      )
      try expect(first.items.map { $0.id.value }, [5, 4], "the first page")
      try expect(second.items.map { $0.id.value }, [3, 2], "the second page")
    },
    Case(name: "a closed store answers nothing") { store in
      _ = try await store.root()
      await store.close()
      try await expectError(.closed, "closed", "a read") {
        _ = try await store.reads.conversation(.root)
      }
      try await expectError(nil, "closed", "a commit") {
        try await store.commit(.entry(EntryRecord(try id(9))))
      }
      try await expectError(nil, "closed", "minting") {
        let _: EntryID = try await store.mint()
      }
    },
  ]
}
