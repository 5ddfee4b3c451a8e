import PerdureValue

/// What this process had used at a moment.
struct Usage {
  private let time = Machine.now
  private let processor = Machine.processorTime
  private let written = Machine.writtenBytes
  private let syncs = Syncs.count

  /// Milliseconds since then.
  var elapsed: Double { milliseconds(Machine.now - time) }

  /// Adds what has been used since then, divided among `count`.
  func add(to line: inout ResultLine, count: Int, per unit: String) {
    let count = Double(max(1, count))
    line.set("cpu_ms_per_\(unit)", milliseconds(Machine.processorTime - processor) / count)
    line.set("written_bytes_per_\(unit)", Double(Machine.writtenBytes - written) / count)
    line.set("fsyncs_per_\(unit)", Double(Syncs.count - syncs) / count)
  }
}
