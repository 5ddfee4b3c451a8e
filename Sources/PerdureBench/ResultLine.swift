import Glibc
import PerdureValue

/// One measurement, printed as one line of JSON with the keys of the other benchmarks.
struct ResultLine {
  private var members = JSONObject()

  init(_ workload: String, peer: String = "perdure") {
    members["peer"] = .string(peer)
    members["workload"] = .string(workload)
  }

  subscript(key: JSONString) -> JSON? {
    get { members[key] }
    set { members[key] = newValue }
  }

  /// Sets a number with four decimals.
  mutating func set(_ key: JSONString, _ value: Double) {
    members[key] = .double((value * 10_000).rounded() / 10_000)
  }

  /// Prints the line, with what this process has used and how busy the machine was before.
  ///
  /// Without `process` the line is about other processes, so that this one does not matter.
  mutating func print(_ calibration: Calibration, process: Bool = true) {
    if process {
      set("rss_peak_mb", (Machine.peakMegabytes * 10).rounded() / 10)
      set("cpu_s", milliseconds(Machine.processorTime) / 1_000)
    }
    set("fdatasync_ms", calibration.syncMilliseconds)
    set("load1", calibration.load)
    members["quiet"] = .bool(calibration.isQuiet)
    Swift.print(JSON.object(members).compactText)
    fflush(nil)
  }
}
