import Perdure

/// W2: many conversations in one process, a bounded number of them at a time.
enum ManyConversations {
  private static let calls = 4

  static func run(_ arguments: Arguments) async throws {
    let calibration = try Calibration(in: arguments.folder)
    let count = arguments.count ?? 500
    let height = arguments.history
    if height > 0 { try Seed.start(arguments, entries: count * height, length: height) }
    let host = try await BenchHost.open(arguments, BenchModel(calls: calls, stamps: nil))
    let seeded =
      try await height > 0 ? host.harness.reader.conversations().prefix(count).map(\.id) : []
    let start = Usage()
    try await converse(host, seeded, count, atOnce: arguments.width)
    var line = ResultLine("w2")
    line["n"] = .int(Int64(count))
    line["h"] = .int(Int64(height))
    line["in_flight"] = .int(Int64(arguments.width))
    line.set("turns_per_s", Double(count * calls) / start.elapsed * 1_000)
    // All that a conversation costs counts here: its creation, its choices and its last answer too.
    start.add(to: &line, count: count * calls, per: "turn")
    start.add(to: &line, count: count * (calls + 1), per: "request")
    try await host.harness.close()
    line["sync"] = .string(arguments.sync)
    let bytes = try Database(path: host.path).usedBytes()
    line.set("db_bytes_per_turn", Double(bytes) / Double(max(1, count * calls)))
    line.print(calibration)
  }

  /// Goes on with the `seeded` conversations, or with new ones.
  private static func converse(
    _ host: BenchHost,
    _ seeded: [ConversationID],
    _ count: Int,
    atOnce width: Int
  ) async throws {
    try await withThrowingTaskGroup(of: Void.self) { group in
      for number in 0..<count {
        if number >= width { try await group.next() }
        group.addTask {
          let one = BenchHost(
            harness: host.harness,
            conversation: try await conversation(host.harness, seeded, number),
            path: host.path
          )
          try await one.configure()
          try await one.ask()
        }
      }
      try await group.waitForAll()
    }
  }

  private static func conversation(
    _ harness: Harness,
    _ seeded: [ConversationID],
    _ number: Int
  ) async throws -> Conversation {
    if number < seeded.count, let known = try await harness.conversation(seeded[number]) {
      return known
    }
    return try await harness.createConversation()
  }
}
