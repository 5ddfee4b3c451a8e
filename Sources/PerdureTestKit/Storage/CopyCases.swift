import PerdureModel
import PerdureValue

extension StorageConformance {
  static let copyCases: [Case] = [
    Case(name: "copies are apart from their source") { store in
      let (source, early) = try await Self.changedSource(store)
      let (one, two) = (try await Self.conversation(store), try await Self.conversation(store))
      let then = DocumentRecord.rewindable(try await store.mint(), "doc", in: one)
      let now = DocumentRecord.rewindable(try await store.mint(), "doc", in: two)
      let copied = try await store.commit(
        .copyDocument(then, source: source.id, at: early),
        .copyDocument(now, source: source.id, at: nil)
      )
      func check(_ when: String) async throws {
        for at in [nil, copied] {
          let first = try await store.reads.document(then.id, at: at)
          try expect(first?.value, ["n": 1], "the copy of the past \(when)")
          try expect(first?.record.createdAt, copied, "the stamp of the copy \(when)")
          let second = try await store.reads.document(now.id, at: at)
          try expect(second?.value, ["n": 2], "the copy of the present \(when)")
          try expect(second?.deltasSinceBase, 0, "the deltas of the copy \(when)")
        }
        let before = try await store.reads.document(then.id, at: copied - 1)
        try expect(before, nil, "the copy before its commit \(when)")
      }
      try await check("at first")
      try await store.commit(
        .changeDocument(source.id, .delta(version: 1, operations: [.set(["n"], 3)]))
      )
      try await check("after a change of the source")
      try await store.commit(.retireDocument(source.id))
      try await check("after the end of the source")
      try await store.commit(
        .changeDocument(then.id, .delta(version: 1, operations: [.set(["n"], 9)]))
      )
      let changed = try await store.reads.document(then.id, at: nil)
      try expect(changed?.value, ["n": 9], "the changed copy")
      try expect(changed?.deltasSinceBase, 1, "the deltas of the changed copy")
      let past = try await store.reads.document(source.id, at: early)
      try expect(past?.value, ["n": 1], "the past of the source")
    },
    Case(name: "a copy that its batch retires is absent") { store in
      let (source, early) = try await Self.changedSource(store)
      let other = try await Self.conversation(store)
      let copy = DocumentRecord.rewindable(try await store.mint(), "doc", in: other)
      let sequence = try await store.commit(
        .copyDocument(copy, source: source.id, at: early),
        .retireDocument(copy.id)
      )
      for at in [nil, sequence, sequence - 1] {
        let found = try await store.reads.findDocument(copy.address, at: at)
        try expect(found, nil, "the copy in a lookup")
        try expect(try await store.reads.document(copy.id, at: at), nil, "the copy")
      }
      try expect(try await store.reads.document(source.id, at: nil)?.value, ["n": 2], "the source")
    },
    Case(name: "a copy of a document without history outlives its source") { store in
      _ = try await store.root()
      let source = Self.latest(try await store.mint(), in: .root)
      try await store.commit(.createDocument(source, version: 3, value: ["n": 1]))
      try await store.commit(
        .changeDocument(source.id, .delta(version: 3, operations: [.set(["n"], 2)]))
      )
      let other = try await Self.conversation(store)
      let copy = Self.latest(try await store.mint(), in: other)
      try await store.commit(.copyDocument(copy, source: source.id, at: nil))
      try await store.commit(.retireDocument(source.id))
      let found = try await store.reads.document(copy.id, at: nil)
      try expect(found?.value, ["n": 2], "the copy")
      try expect(found?.version, 3, "its version")
      try expect(found?.deltasSinceBase, 0, "its deltas")
      try expect(try await store.reads.document(source.id, at: nil), nil, "the source")
    },
    Case(name: "a copy is refused if its batch touches the source") { store in
      let (source, _) = try await Self.changedSource(store)
      let other = try await Self.conversation(store)
      let copy = DocumentRecord.rewindable(try await store.mint(), "doc", in: other)
      let touches: [StorageWrite] = [
        .retireDocument(source.id),
        .changeDocument(source.id, .base(version: 1, value: ["n": 7])),
      ]
      for touch in touches {
        let writes: [StorageWrite] = [.copyDocument(copy, source: source.id, at: nil), touch]
        for ordered in [writes, writes.reversed()] {
          let entry = EntryRecord(try await store.mint())
          try await expectError(.invalidBatch, "rejected", "a touched source") {
            try await store.commit([.entry(entry)] + ordered)
          }
          try expect(try await store.reads.entry(entry.id), nil, "the rest of the batch")
        }
      }
      try await Self.expectUntouched(store, source, copy)
    },
    Case(name: "a copy is refused unless it matches its source") { store in
      let (source, early) = try await Self.changedSource(store)
      let other = try await Self.conversation(store)
      let copy = DocumentRecord.rewindable(try await store.mint(), "doc", in: other)
      let scope = DocumentScope.conversation(other)
      let wrong: [(String, DocumentRecord)] = [
        ("another kind", .rewindable(copy.id, "other", in: other)),
        ("another history", DocumentRecord(copy.id, "doc", scope, history: .latest, fork: .asOf)),
        (
          "another policy",
          DocumentRecord(copy.id, "doc", scope, history: .rewindable, fork: .current)
        ),
        (
          "a key",
          DocumentRecord(copy.id, "doc", scope, key: "k", history: .rewindable, fork: .asOf)
        ),
        ("another scope", DocumentRecord(copy.id, "doc", history: .rewindable, fork: .asOf)),
      ]
      for (what, record) in wrong {
        try await expectError(.invalidBatch, "rejected", what) {
          try await store.commit(.copyDocument(record, source: source.id, at: nil))
        }
      }
      try await expectError(.invalidBatch, "rejected", "no such source") {
        try await store.commit(.copyDocument(copy, source: try id(99), at: nil))
      }
      try await expectError(.invalidBatch, "rejected", "a source before its time") {
        try await store.commit(.copyDocument(copy, source: source.id, at: early - 1))
      }
      try await Self.expectUntouched(store, source, copy)
    },
  ]

  /// A rewindable document `{"n": 2}` of the root that was `{"n": 1}` after the returned commit.
  private static func changedSource(
    _ store: StorageHarness
  ) async throws -> (DocumentRecord, Int64) {
    _ = try await store.root()
    let source = DocumentRecord.rewindable(try await store.mint(), "doc")
    let early = try await store.commit(.createDocument(source, version: 1, value: ["n": 1]))
    try await store.commit(
      .changeDocument(source.id, .delta(version: 1, operations: [.set(["n"], 2)]))
    )
    return (source, early)
  }

  private static func conversation(_ store: StorageHarness) async throws -> ConversationID {
    let other: ConversationID = try await store.mint()
    try await store.commit(.conversation(ConversationRecord(id: other)))
    return other
  }

  private static func latest(
    _ id: DocumentID,
    in conversation: ConversationID
  ) -> DocumentRecord {
    DocumentRecord(id, "doc", .conversation(conversation), history: .latest, fork: .current)
  }

  private static func expectUntouched(
    _ store: StorageHarness,
    _ source: DocumentRecord,
    _ copy: DocumentRecord
  ) async throws {
    let found = try await store.reads.document(source.id, at: nil)
    try expect(found?.value, ["n": 2], "the source")
    try expect(found?.deltasSinceBase, 1, "the deltas of the source")
    try expect(try await store.reads.findDocument(copy.address, at: nil), nil, "the copy")
  }
}
