import Perdure
import PerdureModel
import PerdureValue

/// A store with a great many entries: what it costs to open it and to read its end.
enum Scale {
  private static let repetitions = 5

  static func run(_ arguments: Arguments) async throws {
    let path = arguments.folder + "/perdure.db"
    if arguments.resumes { return try await measure(arguments, path) }
    let entries = arguments.count ?? 1_000_000
    if Machine.size(of: path) == 0 {
      let length = arguments.history > 0 ? arguments.history : min(1_000, entries)
      try Seed.start(arguments, entries: entries, length: length)
    }
    // In a process of its own, whose memory is that of this store alone.
    let words = ["scale", "--dir", arguments.folder, "--sync", arguments.sync, "--resume"]
    var line = ResultLine("scale")
    let calibration = try Calibration(in: arguments.folder)
    for (key, value) in try Child.result(of: words).object ?? [:] { line[key] = value }
    let database = try Database(path: path)
    line["entries"] = .int(try database.number("SELECT count(*) FROM entries"))
    line["conversations"] = .int(try database.number("SELECT count(*) FROM conversations"))
    line["db_bytes"] = .int(Machine.size(of: path))
    line.print(calibration, process: false)
  }

  private static func measure(_ arguments: Arguments, _ path: String) async throws {
    var opening: [Double] = []
    for _ in 0..<repetitions {
      let start = Machine.now
      let host = try await BenchHost.open(arguments, BenchModel(calls: 0, stamps: nil))
      opening.append(milliseconds(Machine.now - start))
      try await host.harness.close()
    }
    let reading = try await newest(path)
    let stamps = Stamps()
    let start = Machine.now
    let host = try await BenchHost.open(arguments, BenchModel(calls: 0, stamps: stamps))
    let conversation = try await host.harness.createConversation()
    let fresh = BenchHost(harness: host.harness, conversation: conversation, path: path)
    try await fresh.configure()
    try await fresh.ask()
    var line = ResultLine("scale")
    line.set("open_ms", percentile(opening, 50))
    line.set("open_max_ms", opening.max() ?? 0)
    line.set("newest_20_ms", percentile(reading, 50))
    line.set("newest_20_max_ms", reading.max() ?? 0)
    line.set("first_request_ms", milliseconds((stamps.first ?? start) - start))
    line.print(try Calibration(in: arguments.folder))
    try await host.harness.close()
  }

  /// Times a reader that opens the store and reads the newest entries of its first conversation.
  private static func newest(_ path: String) async throws -> [Double] {
    var times: [Double] = []
    for _ in 0..<repetitions {
      let start = Machine.now
      let reader = try await StoreReader.open(sqliteAt: path)
      let conversations = try await reader.reads.scanConversations(
        ConversationQuery(),
        PageRequest(limit: 1)
      )
      guard let conversation = conversations.items.first else {
        throw PerdureError(.notFound, "the store \(path) has no conversation")
      }
      let page = try await reader.reads.scanEntries(
        EntryQuery(conversationId: conversation.id),
        PageRequest(limit: 20, order: .descending)
      )
      times.append(milliseconds(Machine.now - start))
      await reader.close()
      guard page.items.count == 20 else {
        throw PerdureError(.notFound, "the store \(path) has too few entries")
      }
    }
    return times
  }
}
