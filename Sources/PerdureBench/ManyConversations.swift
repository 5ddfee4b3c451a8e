import Perdure

/// W2: many conversations in one process, a bounded number of them at a time.
enum ManyConversations {
  private static let calls = 4

  static func run(_ arguments: Arguments) async throws {
    let calibration = try Calibration(in: arguments.folder)
    let count = arguments.count ?? 500
    let host = try await BenchHost.open(arguments, BenchModel(calls: calls, stamps: nil))
    let start = Usage()
    try await converse(host, count, atOnce: arguments.width)
    var line = ResultLine("w2")
    line["n"] = .int(Int64(count))
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

  private static func converse(_ host: BenchHost, _ count: Int, atOnce width: Int) async throws {
    try await withThrowingTaskGroup(of: Void.self) { group in
      for number in 0..<count {
        if number >= width { try await group.next() }
        group.addTask {
          let one = BenchHost(
            harness: host.harness,
            conversation: try await host.harness.createConversation(),
            path: host.path
          )
          try await one.configure()
          try await one.ask()
        }
      }
      try await group.waitForAll()
    }
  }
}
