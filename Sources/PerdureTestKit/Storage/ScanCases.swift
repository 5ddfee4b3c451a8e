import PerdureModel
import PerdureValue

extension StorageConformance {
  static let scanCases: [Case] = [
    Case(name: "conversations come in pages") { store in
      _ = try await store.root()
      for _ in 0..<4 {
        try await store.commit(.conversation(ConversationRecord(id: try await store.mint())))
      }
      let records = try await all(limit: 2) {
        try await store.reads.scanConversations(ConversationQuery(), $0)
      }
      try expect(records.map { $0.id.value }, [1, 2, 3, 4, 5], "all conversations")
      let exact = try await store.reads.scanConversations(
        ConversationQuery(),
        PageRequest(limit: 5)
      )
      try expect(exact.next, nil, "no cursor behind the last item")
    },
    Case(name: "conversations are found by owner") { store in
      _ = try await store.root()
      let (task, other): (TaskID, TaskID) = (try await store.mint(), try await store.mint())
      let owners: [(Int64, TaskID)] = [(1, task), (1, other), (1, task), (9, task)]
      for (conversation, task) in owners {
        let owner = ConversationRecord.Owner(conversationId: try id(conversation), taskId: task)
        try await store.commit(
          .conversation(ConversationRecord(id: try await store.mint(), owner: owner))
        )
      }
      func ids(_ query: ConversationQuery) async throws -> [Int64] {
        try await all(limit: 1) { try await store.reads.scanConversations(query, $0) }
          .map { $0.id.value }
      }
      try expect(
        try await ids(ConversationQuery(ownerConversationId: .root)),
        [4, 5, 6],
        "by owner"
      )
      try expect(try await ids(ConversationQuery(ownerTaskId: task)), [4, 6, 7], "by task")
      let both = ConversationQuery(ownerConversationId: .root, ownerTaskId: task)
      try expect(try await ids(both), [4, 6], "by both")
    },
    Case(name: "scans go in either order") { store in
      _ = try await store.root()
      for _ in 0..<3 {
        try await store.commit(
          .conversation(ConversationRecord(id: try await store.mint())),
          .task(TaskRecord(try await store.mint())),
          .submission(SubmissionRecord(try await store.mint())),
          .entry(EntryRecord(try await store.mint()))
        )
      }
      let upward = try await Self.ids(store, .ascending)
      let downward = try await Self.ids(store, .descending)
      try expect(downward.map { $0.reversed() }, upward, "the scans in both orders")
      try expect(upward.map { $0.count }, [4, 3, 3, 3], "the number of items")
    },
    Case(name: "a cursor belongs to its order") { store in
      _ = try await store.root()
      for _ in 0..<3 { try await store.commit(.entry(EntryRecord(try await store.mint()))) }
      let query = EntryQuery(conversationId: .root)
      let page = try await store.reads.scanEntries(query, PageRequest(limit: 1))
      try await expectError(.invalidRequest, "cursor", "the other order") {
        _ = try await store.reads.scanEntries(
          query,
          PageRequest(limit: 1, cursor: page.next, order: .ascending)
        )
      }
      let same = try await store.reads.scanEntries(
        query,
        PageRequest(limit: 1, cursor: page.next, order: .descending)
      )
      try expect(same.items.map { $0.id.value }, [3], "the same order, repeated")
      try await expectError(.invalidRequest, "limit", "a limit of 0") {
        _ = try await store.reads.scanEntries(query, PageRequest(limit: 0))
      }
    },
    Case(name: "a scan of entries keeps within its bounds") { store in
      _ = try await store.root()
      for _ in 0..<6 { try await store.commit(.entry(EntryRecord(try await store.mint()))) }
      let query = EntryQuery(
        conversationId: .root,
        minEntry: try id(3),
        maxEntry: try id(6)
      )
      for order in [ScanOrder.ascending, .descending] {
        let ids = try await all(limit: 3, order: order) {
          try await store.reads.scanEntries(query, $0)
        }.map { $0.id.value }
        try expect(ids, order == .ascending ? [3, 4, 5, 6] : [6, 5, 4, 3], order.rawValue)
      }
    },
  ]

  private static func ids(_ store: StorageHarness, _ order: ScanOrder) async throws -> [[Int64]] {
    let reads = await store.reads
    let conversations = try await all(limit: 2, order: order) {
      try await reads.scanConversations(ConversationQuery(), $0)
    }
    let tasks = try await all(limit: 2, order: order) {
      try await reads.scanTasks(TaskQuery(), $0)
    }
    let submissions = try await all(limit: 2, order: order) {
      try await reads.scanSubmissions(SubmissionQuery(), $0)
    }
    let entries = try await all(limit: 2, order: order) {
      try await reads.scanEntries(EntryQuery(conversationId: .root), $0)
    }
    return [
      conversations.map { $0.id.value }, tasks.map { $0.id.value },
      submissions.map { $0.id.value }, entries.map { $0.id.value },
    ]
  }
}
