import Glibc
import Perdure
import PerdureValue

/// W3: a conversation that has been long already.
enum LongTranscript {
  private static let heights = [10, 1_000, 10_000]

  /// Turns behind H entries.
  static func run(_ arguments: Arguments) async throws {
    guard arguments.history > 0 else { return try measureHeights(arguments) }
    let calibration = try Calibration(in: arguments.folder)
    let turns = arguments.count ?? 20
    try Seed.start(arguments, entries: arguments.history, length: arguments.history)
    let stamps = Stamps()
    let host = try await BenchHost.open(arguments, BenchModel(calls: turns, stamps: stamps))
    try await host.configure()
    let before = try Database(path: host.path).number("PRAGMA page_count")
    try await host.ask()
    try await host.harness.close()
    var line = ResultLine("w3")
    line["h"] = .int(Int64(arguments.history))
    stamps.summary.add(to: &line, turns: turns)
    line["sync"] = .string(arguments.sync)
    let database = try Database(path: host.path)
    let pages = try database.number("PRAGMA page_count") - before
    let bytes = try pages * database.number("PRAGMA page_size")
    line.set("db_bytes_per_turn", Double(bytes) / Double(max(1, turns)))
    line.print(calibration)
  }

  /// All heights; each in a process of its own, so that none finds what another one left.
  private static func measureHeights(_ arguments: Arguments) throws {
    var costs: [Double] = []
    for height in heights {
      var words = ["w3", "--dir", arguments.folder, "--h", String(height)]
      words += ["--sync", arguments.sync]
      if let count = arguments.count { words += ["--n", String(count)] }
      let result = try Child.result(of: words)
      print(result.compactText)
      costs.append(result["cpu_ms_per_turn"]?.double ?? 0)
    }
    var line = ResultLine("w3")
    line.set("cpu_10000_to_10", (costs.last ?? 0) / max(costs.first ?? 0, 0.000_1))
    line.print(try Calibration(in: arguments.folder))
  }

  /// From the opening of a store with H entries to its first request.
  static func open(_ arguments: Arguments) async throws {
    if arguments.resumes { return try await firstRequest(arguments) }
    let calibration = try Calibration(in: arguments.folder)
    let height = arguments.history > 0 ? arguments.history : 10_000
    try Seed.start(arguments, entries: height, length: height)
    let results = try (0..<max(1, arguments.count ?? 5)).map { _ in
      try Child.result(
        of: ["w3open", "--dir", arguments.folder, "--sync", arguments.sync, "--resume"]
      )
    }
    var line = ResultLine("w3open")
    line["h"] = .int(Int64(height))
    line["n"] = .int(Int64(results.count))
    for key: JSONString in ["open_ms", "ms", "cpu_ms", "rss_peak_mb"] {
      line.set(key, percentile(results.map { $0[key]?.double ?? 0 }, 50))
    }
    let times = results.map { $0["ms"]?.double ?? 0 }
    line.set("min_ms", times.min() ?? 0)
    line.set("max_ms", times.max() ?? 0)
    line.print(calibration, process: false)
  }

  private static func firstRequest(_ arguments: Arguments) async throws {
    let stamps = Stamps()
    let start = Machine.now
    let processor = Machine.processorTime
    let host = try await BenchHost.open(arguments, BenchModel(calls: 0, stamps: stamps))
    let open = Machine.now
    try await host.configure()
    try await host.ask()
    var line = ResultLine("w3open")
    line.set("open_ms", milliseconds(open - start))
    line.set("ms", milliseconds((stamps.first ?? start) - start))
    line.set("cpu_ms", milliseconds(Machine.processorTime - processor))
    line.print(try Calibration(in: arguments.folder))
    try await host.harness.close()
  }
}
