import Glibc
import Perdure

/// W5: from the start of a process with a new store to its first committed answer.
enum ColdStart {
  static func run(_ arguments: Arguments) async throws {
    guard !arguments.spawns else { return try measure(arguments) }
    let host = try await BenchHost.open(arguments, BenchModel(calls: 0, stamps: nil))
    try await host.configure()
    try await host.ask()
    print("COMMITTED")
    fflush(nil)
    try await host.harness.close()
  }

  /// Starts processes that do it, and times them.
  private static func measure(_ arguments: Arguments) throws {
    let calibration = try Calibration(in: arguments.folder)
    var times: [Double] = []
    for number in 0..<max(1, arguments.count ?? 9) {
      let folder = arguments.folder + "/w5-\(Machine.now)-\(number)"
      let start = Machine.now
      let child = try Child.start(["w5", "--dir", folder, "--sync", arguments.sync])
      let answer = child.readLine()
      times.append(milliseconds(Machine.now - start))
      let status = child.wait()
      guard answer == "COMMITTED", status == 0 else {
        throw PerdureError(.invalidInput, "the measured process ended with status \(status)")
      }
    }
    var line = ResultLine("w5")
    line["n"] = .int(Int64(times.count))
    line.set("ms", percentile(times, 50))
    line.set("min_ms", times.min() ?? 0)
    line.set("max_ms", times.max() ?? 0)
    line["sync"] = .string(arguments.sync)
    line.print(calibration)
  }
}
