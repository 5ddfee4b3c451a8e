import Perdure

/// W1: one prompt that takes many turns of one tool call each.
enum ToolLoop {
  static func run(_ arguments: Arguments) async throws {
    let calibration = try Calibration(in: arguments.folder)
    let turns = arguments.count ?? 200
    let stamps = Stamps()
    let host = try await BenchHost.open(arguments, BenchModel(calls: turns, stamps: stamps))
    try await host.configure()
    try await host.ask()
    try await host.harness.close()
    var line = ResultLine("w1")
    stamps.summary.add(to: &line, turns: turns)
    line["sync"] = .string(arguments.sync)
    let bytes = try Database(path: host.path).usedBytes()
    line["db_bytes"] = .int(bytes)
    line.set("db_bytes_per_turn", Double(bytes) / Double(max(1, turns)))
    line.print(calibration)
  }
}
