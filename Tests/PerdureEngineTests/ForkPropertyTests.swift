import PerdureEngine
import PerdureModel
import PerdureTestKit
import PerdureValue
import Testing

/// What a store with forks must hold, kept the plain way: whole values and whole copies.
private struct ForkOracle {
  struct Conversation {
    var entries: [EntryID] = []
    var documents: [JSONString: JSON] = [:]
  }

  static let definitions: [DocumentDefinition] = [
    .test(.conversation(.rewindable, .asOf), kind: "asOf", storesBase: { $0.deltasSinceBase > 2 }),
    .test(.conversation(.rewindable, .current), kind: "rewindable"),
    .test(.conversation(.latest, .current), kind: "current", storesBase: { $0.value["n"] == 1 }),
    .test(kind: "initial"),
  ]

  var conversations: [ConversationID: Conversation] = [.root: Conversation()]
  /// The documents of the owner of each entry at the end of its commit.
  var past: [EntryID: [JSONString: JSON]] = [:]

  mutating func fork(_ parent: ConversationID, at entry: EntryID, as child: ConversationID) {
    let documents = conversations[parent]?.documents ?? [:]
    var copy = Conversation()
    copy.entries = (conversations[parent]?.entries ?? []).filter { $0 <= entry }
    copy.documents["asOf"] = past[entry]?["asOf"]
    for kind in ["rewindable", "current"] as [JSONString] { copy.documents[kind] = documents[kind] }
    conversations[child] = copy
  }
}

@Suite(.timeLimit(.minutes(20))) struct ForkPropertyTests {
  @Test(arguments: StoreKind.allCases)
  func `random forks and documents are those of a plain model`(_ kind: StoreKind) async throws {
    var random = SeededGenerator(for: "forks over \(kind)")
    let bench = try await StoreBench(kind)
    var oracle = ForkOracle()
    for _ in 0..<Effort.choose(120, long: 1_500) {
      let conversation = random.pick(oracle.conversations.keys.sorted())
      switch random.int(0...9) {
      case 0...5: try await change(conversation, bench, &oracle, &random)
      case 6, 7:
        let entries = oracle.conversations[conversation]?.entries ?? []
        guard !entries.isEmpty else { continue }
        let entry = random.pick(entries)
        let child = try await bench.session.stage { tx in
          try await tx.forkConversation(conversation, at: entry).id
        }.result
        oracle.fork(conversation, at: entry, as: child)
      case 8: try await bench.session.barrier()
      default: if random.chance(30) { try await bench.reopen() }
      }
    }
    try await compare(bench, oracle)
    try await bench.reopen()
    try await compare(bench, oracle)
    try await bench.end()
  }

  /// One commit with an entry, changes and retirements in any order.
  private func change(
    _ conversation: ConversationID,
    _ bench: StoreBench,
    _ oracle: inout ForkOracle,
    _ random: inout SeededGenerator
  ) async throws {
    let place = random.int(0...2)
    var documents = oracle.conversations[conversation]?.documents ?? [:]
    var generator = random
    let entry = try await bench.session.stage { tx in
      var entry: EntryID?
      for step in 0...2 {
        if step == place {
          entry = try await tx.append(EntryDraft(kind: "test"), to: conversation).id
        }
        let definition = generator.pick(ForkOracle.definitions)
        if generator.chance(15) {
          try await tx.retire(definition, in: .conversation(conversation))
          documents[definition.kind] = nil
        } else {
          let key = generator.pick(["n", "m", "o"] as [JSONString])
          let number = JSON.int(generator.int(0...3))
          documents[definition.kind] = try await tx.edit(definition, conversation) { draft in
            try draft.set([.key(key)], number)
            return draft.value
          }
        }
      }
      return entry
    }.result
    random = generator
    oracle.conversations[conversation]?.documents = documents
    guard let entry else { return }
    oracle.conversations[conversation]?.entries.append(entry)
    oracle.past[entry] = documents
  }

  private func compare(_ bench: StoreBench, _ oracle: ForkOracle) async throws {
    for (id, expected) in oracle.conversations {
      let entries = try await Page.all(order: .ascending, pageSize: 7) {
        try await bench.session.store.scanEntries(EntryQuery(conversationId: id), $0)
      }
      #expect(entries.map(\.id) == expected.entries)
      try await bench.session.barrier()
      for definition in ForkOracle.definitions {
        let value = try await bench.session.snapshot(definition, in: .conversation(id))
        #expect(value == expected.documents[definition.kind])
        guard case .conversation(.rewindable, _) = definition.scope else { continue }
        for entry in expected.entries {
          let past = try await bench.session.snapshot(definition, in: id, asOf: entry)
          #expect(past == oracle.past[entry]?[definition.kind])
        }
      }
    }
  }
}
