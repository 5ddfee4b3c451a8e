import PerdureModel
import PerdureValue

extension StorageConformance {
  static let forkCases: [Case] = [
    Case(name: "deep forks are read in pages, newest first or root first") { store in
      let family = try await Family(store)
      let newest = try await family.pages(of: 30, limit: 2)
      try expect(newest, [[33, 32], [31, 21], [11, 10]], "newest first")
      let oldest = try await family.pages(of: 30, limit: 2, order: .ascending)
      try expect(oldest, [[10, 11], [21, 31], [32, 33]], "root first")
      let single = try await family.pages(of: 40, limit: 1)
      try expect(single, [[41], [11], [10]], "a fork below the forks of its ancestors")
      let all = try await family.pages(of: 20, limit: 9, order: .ascending)
      try expect(all, [[10, 11, 21, 22, 23]], "the middle of the line")
    },
    Case(name: "a cursor through forks carries its order") { store in
      let family = try await Family(store)
      let query = EntryQuery(conversationId: try id(30))
      for order in [ScanOrder.ascending, .descending] {
        let first = try await store.reads.scanEntries(query, PageRequest(limit: 4, order: order))
        let rest = try await store.reads.scanEntries(
          query,
          PageRequest(limit: 9, cursor: first.next)
        )
        let wanted = order == .ascending ? family.leaf : family.leaf.reversed()
        try expect((first.items + rest.items).map { $0.id.value }, wanted, order.rawValue)
        let opposite = order == .ascending ? ScanOrder.descending : .ascending
        try await expectError(.invalidRequest, "cursor", "the opposite order") {
          _ = try await store.reads.scanEntries(
            query,
            PageRequest(limit: 9, cursor: first.next, order: opposite)
          )
        }
      }
    },
    Case(name: "bounds cut through forks") { store in
      let family = try await Family(store)
      let bounded = try await family.pages(of: 30, limit: 2, order: .ascending, 11...31)
      try expect(bounded, [[11, 21], [31]], "ascending between bounds")
      let between = try await family.pages(of: 30, limit: 9, order: .ascending, 12...20)
      try expect(between, [[]], "what no segment holds")
      let inherited = try await family.pages(of: 40, limit: 9, order: .descending, 11...30)
      try expect(inherited, [[11]], "what only the root holds")
    },
    Case(name: "head markers are found through forks") { store in
      _ = try await Family(store)
      try await store.commit(.conversation(ConversationRecord(id: try id(50))))
      let wanted: [(Int64, Int64?, Int64?)] = [
        (30, nil, 32), (30, 32, 32), (30, 31, 10), (30, 10, 10), (30, 9, nil), (20, nil, 10),
        (40, nil, 10), (1, nil, 13), (1, 12, 10), (50, nil, nil),
      ]
      for (conversation, limit, marker) in wanted {
        let found = try await store.reads.latestHeadMarker(
          try id(conversation),
          atOrBefore: try limit.map { try id($0) }
        )
        let text = "the marker of \(conversation) at or before \(limit.map(String.init) ?? "now")"
        try expect(found?.id.value, marker, text)
      }
    },
    Case(name: "the active range of a fork is read in pages") { store in
      let family = try await Family(store)
      let marker = try await store.reads.latestHeadMarker(try id(30), atOrBefore: nil)
      let start = marker?.head?.value ?? 0
      try expect(start, 21, "where the active range begins")
      let newest = try await family.pages(of: 30, limit: 2, order: .descending, start...1_000)
      try expect(newest, [[33, 32], [31, 21]], "newest first")
      let oldest = try await family.pages(of: 30, limit: 3, order: .ascending, start...1_000)
      try expect(oldest, [[21, 31, 32], [33]], "oldest first")
      let historical = try await family.pages(of: 30, limit: 9, order: .ascending, 10...31)
      try expect(historical, [[10, 11, 21, 31]], "the range before the marker")
    },
    Case(name: "a fork does not see what came with its last entry or later") { store in
      _ = try await Family(store)
      let reads = await store.reads
      let seen: [(Int64, [Int64])] = [
        (1, [10, 11, 12, 13]), (20, [10, 11, 21, 22, 23]), (30, [10, 11, 21, 31, 32, 33]),
        (40, [10, 11, 41]),
      ]
      for (conversation, visible) in seen {
        for entry in [10, 11, 12, 13, 21, 22, 23, 31, 32, 33, 41, 99] as [Int64] {
          let found = try await reads.entry(try id(entry), visibleIn: try id(conversation))
          let wanted = visible.contains(entry) ? entry : nil
          try expect(found?.entry.id.value, wanted, "entry \(entry) in \(conversation)")
        }
      }
      try expect(try await reads.entry(try id(99)), nil, "an unknown entry")
      let same = try await reads.entry(try id(22))?.commitSequence
      let point = try await reads.entry(try id(21), visibleIn: try id(30))?.commitSequence
      try expect(point, same, "the commit of the last entry")
      try await expectError(.invalidRequest, "unknown conversation", "a lookup") {
        _ = try await reads.entry(try id(10), visibleIn: try id(99))
      }
      try await expectError(.invalidRequest, "unknown conversation", "a scan") {
        _ = try await reads.scanEntries(
          EntryQuery(conversationId: try id(99)),
          PageRequest(limit: 1)
        )
      }
      try await expectError(.invalidRequest, "unknown conversation", "a search for a marker") {
        _ = try await reads.latestHeadMarker(try id(99), atOrBefore: nil)
      }
    },
  ]
}

/// A root, its fork 20, the fork 30 of that, and the fork 40 of that one, which goes back to the
/// root's part; every fork leaves in the middle of a commit.
private struct Family {
  let store: StorageHarness
  /// What conversation 30 sees.
  let leaf: [Int64] = [10, 11, 21, 31, 32, 33]

  init(_ store: StorageHarness) async throws {
    self.store = store
    _ = try await store.root()
    try await append([10, 11, 12], to: 1, heads: [10: 10])
    try await fork(20, of: 1, at: 11)
    try await append([21, 22], to: 20)
    try await fork(30, of: 20, at: 21)
    try await append([31, 32, 33], to: 30, heads: [32: 21])
    try await fork(40, of: 30, at: 11)
    try await append([41], to: 40)
    // What comes later is seen by no fork.
    try await append([23], to: 20)
    try await append([13], to: 1, heads: [13: 13])
  }

  private func fork(_ child: Int64, of parent: Int64, at entry: Int64) async throws {
    let parent = ConversationRecord.Parent(conversationId: try id(parent), at: try id(entry))
    try await store.commit(.conversation(ConversationRecord(id: try id(child), parent: parent)))
  }

  private func append(
    _ entries: [Int64],
    to conversation: Int64,
    heads: [Int64: Int64] = [:]
  ) async throws {
    let writes = try entries.map { value -> StorageWrite in
      var record = EntryRecord(try id(value), in: try id(conversation))
      record.head = try heads[value].map { try id($0) }
      return .entry(record)
    }
    try await store.commit(writes)
  }

  /// The ids of every page of a scan.
  func pages(
    of conversation: Int64,
    limit: Int,
    order: ScanOrder? = nil,
    _ bounds: ClosedRange<Int64>? = nil
  ) async throws -> [[Int64]] {
    let query = EntryQuery(
      conversationId: try id(conversation),
      minEntry: try bounds.map { try id($0.lowerBound) },
      maxEntry: try bounds.map { try id($0.upperBound) }
    )
    var pages: [[Int64]] = []
    var request = PageRequest(limit: limit, order: order)
    while true {
      let page = try await store.reads.scanEntries(query, request)
      pages.append(page.items.map { $0.id.value })
      guard let next = page.next else { return pages }
      // The order travels in the cursor alone.
      let text = next.json.compactText
      let cursor = try Cursor(json: try JSON(parsing: text), defaultOrder: .descending)
      request = PageRequest(limit: limit, cursor: cursor)
    }
  }
}
