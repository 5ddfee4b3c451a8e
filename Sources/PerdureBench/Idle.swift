import CPerdureLinux
import Glibc
import Perdure

/// What very many conversations cost in which nothing happens, and whether they wake the process.
enum Idle {
  static func run(_ arguments: Arguments) async throws {
    switch arguments.mode {
    case "used": try await use(arguments)
    case "open": try await hold(arguments)
    default: try measure(arguments)
    }
  }

  /// Creates them, lets each answer a prompt and stays, so shortly after their use.
  private static func use(_ arguments: Arguments) async throws {
    let host = try await BenchHost.open(arguments, BenchModel(calls: 0, stamps: nil))
    let conversations = try await withThrowingTaskGroup(of: Conversation.self) { group in
      var conversations: [Conversation] = []
      for number in 0..<(arguments.count ?? 10_000) {
        if number >= arguments.width, let next = try await group.next() {
          conversations.append(next)
        }
        group.addTask {
          let one = BenchHost(
            harness: host.harness,
            conversation: try await host.harness.createConversation(),
            path: host.path
          )
          try await one.configure()
          try await one.ask()
          return one.conversation
        }
      }
      for try await next in group { conversations.append(next) }
      return conversations
    }
    try await stay(host, conversations)
  }

  /// Opens those of a store, looks at what each one chose and at what its model would be shown, and
  /// stays.
  private static func hold(_ arguments: Arguments) async throws {
    let host = try await BenchHost.open(arguments, BenchModel(calls: 0, stamps: nil))
    var conversations: [Conversation] = []
    for record in try await host.harness.reader.conversations() {
      guard let one = try await host.harness.conversation(record.id) else { continue }
      _ = try await one.context()
      conversations.append(one)
    }
    try await stay(host, conversations)
  }

  private static func stay(_ host: BenchHost, _ conversations: [Conversation]) async throws {
    print("READY")
    fflush(nil)
    // Until it is killed.
    await Child.sleepForever()
    _ = (host, conversations)
  }

  private static func measure(_ arguments: Arguments) throws {
    let calibration = try Calibration(in: arguments.folder)
    let count = arguments.count ?? 10_000
    let folder = arguments.folder + "/idle-\(Machine.now)-\(count)"
    for mode in ["used", "open"] {
      let sample = try Child.atRest(["idle", "--dir", folder, "--n", "\(count)", "--mode", mode])
      var line = ResultLine("idle")
      line["n"] = .int(Int64(count))
      line["mode"] = .string(JSONString(mode))
      line.set("rss_mb", sample.megabytes)
      line["wakeups_in_10_s"] = .int(sample.wakeups)
      line.print(calibration)
    }
  }
}
