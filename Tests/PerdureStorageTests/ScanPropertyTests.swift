import PerdureModel
import PerdureStorage
import PerdureTestKit
import PerdureValue
import Testing

/// A random tree of forks, with what each conversation sees kept as plain lists.
private struct ForkTree {
  struct Conversation {
    var id: ConversationID
    var entries: [EntryRecord]
  }

  private(set) var conversations: [Conversation]
  private(set) var batches: [[StorageWrite]]
  private var nextId: Int64 = 2

  init(using random: inout SeededGenerator) {
    conversations = [Conversation(id: .root, entries: [])]
    batches = [[.conversation(ConversationRecord(id: .root))]]
    for _ in 0..<random.int(10...60) {
      let place = random.int(0...(conversations.count - 1))
      if random.chance(25), let at = visible(place).randomElement(using: &random) {
        fork(place, at: at)
      } else {
        batches.append((0..<random.int(1...3)).map { _ in append(place, &random) })
      }
    }
  }

  private func visible(_ place: Int) -> [EntryRecord] { conversations[place].entries }

  private mutating func mint() -> Int64 {
    defer { nextId += 1 }
    return nextId
  }

  private mutating func fork(_ place: Int, at entry: EntryRecord) {
    let parent = conversations[place]
    let record = ConversationRecord(
      id: known(mint()),
      parent: ConversationRecord.Parent(conversationId: parent.id, at: entry.id)
    )
    batches.append([.conversation(record)])
    let inherited = parent.entries.filter { $0.id <= entry.id }
    conversations.append(Conversation(id: record.id, entries: inherited))
  }

  private mutating func append(_ place: Int, _ random: inout SeededGenerator) -> StorageWrite {
    let id = EntryID.known(mint())
    var entry = EntryRecord(id: id, conversationId: conversations[place].id, kind: "test")
    if random.chance(15) {
      entry.head = random.chance(50) ? id : visible(place).randomElement(using: &random)?.id
    }
    conversations[place].entries.append(entry)
    return .entry(entry)
  }
}

@Suite struct ScanPropertyTests {
  @Test(arguments: ["memory", "sqlite", "jsonl"])
  func `random pages of random trees of forks are those of plain lists`(
    _ backend: String
  ) async throws {
    var random = SeededGenerator(for: "scans over \(backend)")
    for _ in 0..<Effort.choose(6, long: 120) {
      let folder = TemporaryFolder()
      let storage: any Storage =
        switch backend {
        case "memory": MemoryStorage()
        case "sqlite": try await openStore(folder)
        default: try await JSONLStorage.open(path: folder.file("jsonl"), durability: .normal)
        }
      let tree = ForkTree(using: &random)
      let store = try await DirectStore(storage)
      for batch in tree.batches { _ = try await store.commit(batch, extras: []) }
      for _ in 0..<60 {
        let conversation = random.pick(tree.conversations)
        try await checkScan(storage, conversation, &random)
        try await checkHead(storage, conversation, &random)
        try await checkVisibility(storage, conversation, tree, &random)
      }
      await storage.close()
    }
  }

  private func bound(_ random: inout SeededGenerator) -> EntryID? {
    random.chance(50) ? nil : EntryID(Int64(random.int(1...120)))
  }

  /// A scan with bounds, in pages of random sizes whose cursors go through text.
  private func checkScan(
    _ storage: any Storage,
    _ conversation: ForkTree.Conversation,
    _ random: inout SeededGenerator
  ) async throws {
    let (least, greatest) = (bound(&random), bound(&random))
    let order: ScanOrder? = random.pick([nil, .ascending, .descending])
    var wanted = conversation.entries.filter { entry in
      least.map { entry.id >= $0 } ?? true && greatest.map { entry.id <= $0 } ?? true
    }
    if order != .ascending { wanted.reverse() }
    let query = EntryQuery(conversationId: conversation.id, minEntry: least, maxEntry: greatest)
    var found: [EntryRecord] = []
    var cursor: Cursor?
    repeat {
      let request = PageRequest(
        limit: random.int(1...9),
        cursor: cursor,
        order: random.chance(50) && cursor != nil ? nil : order
      )
      let page = try await storage.scanEntries(query, request)
      #expect(page.items.count == min(request.limit, wanted.count - found.count))
      found += page.items
      #expect((page.next != nil) == (found.count < wanted.count))
      cursor = try page.next.map { next in
        try Cursor(json: JSON(parsing: next.json.compactText), defaultOrder: next.order)
      }
    } while cursor != nil
    #expect(found == wanted)
  }

  private func checkHead(
    _ storage: any Storage,
    _ conversation: ForkTree.Conversation,
    _ random: inout SeededGenerator
  ) async throws {
    let limit = bound(&random)
    let wanted = conversation.entries.last { entry in
      entry.head != nil && limit.map { entry.id <= $0 } ?? true
    }
    #expect(try await storage.latestHeadMarker(conversation.id, atOrBefore: limit) == wanted)
  }

  private func checkVisibility(
    _ storage: any Storage,
    _ conversation: ForkTree.Conversation,
    _ tree: ForkTree,
    _ random: inout SeededGenerator
  ) async throws {
    let entries = random.pick(tree.conversations).entries
    guard let entry = entries.randomElement(using: &random) else { return }
    let isVisible = conversation.entries.contains { $0.id == entry.id }
    let found = try await storage.entry(entry.id, visibleIn: conversation.id)
    #expect(found?.entry == (isVisible ? entry : nil))
  }
}
