import PerdureValue
import Synchronization

/// When the model was invoked, and what had been used up by then.
///
/// The interval between two invocations is one turn: answer, commit, tool, commit, next request.
final class Stamps: Sendable {
  private struct Stamp {
    var time: Int64
    var processor: Int64
    var written: Int64
    var syncs: Int64
  }

  private let stamps = Mutex<[Stamp]>([])

  /// Takes a stamp.
  func hit() {
    let written = Machine.writtenBytes
    let stamp = Stamp(
      time: Machine.now,
      processor: Machine.processorTime,
      written: written,
      syncs: Syncs.count
    )
    stamps.withLock { $0.append(stamp) }
  }

  /// When the model was invoked first, or `nil`.
  var first: Int64? { stamps.withLock { $0.first?.time } }

  /// What the turns took.
  var summary: TurnSummary {
    stamps.withLock { stamps in
      let intervals = zip(stamps, stamps.dropFirst()).map { milliseconds($1.time - $0.time) }
      var processor = 0.0
      var written = 0.0
      var syncs = 0.0
      if let first = stamps.first, let last = stamps.last {
        processor = milliseconds(last.processor - first.processor)
        written = Double(last.written - first.written)
        syncs = Double(last.syncs - first.syncs)
      }
      return TurnSummary(
        intervals: intervals,
        processorMilliseconds: processor,
        writtenBytes: written,
        syncs: syncs
      )
    }
  }
}

/// What a series of turns took together.
struct TurnSummary {
  /// The length of each turn in milliseconds.
  var intervals: [Double]
  var processorMilliseconds: Double
  var writtenBytes: Double
  var syncs: Double

  /// Adds the columns that every workload of turns has.
  func add(to line: inout ResultLine, turns: Int) {
    let count = Double(max(1, intervals.count))
    let seconds = intervals.reduce(0, +) / 1_000
    line["n"] = .int(Int64(turns))
    line.set("turns_per_s", seconds > 0 ? Double(intervals.count) / seconds : 0)
    line.set("p50_ms", percentile(intervals, 50))
    line.set("p99_ms", percentile(intervals, 99))
    line.set("max_ms", intervals.max() ?? 0)
    line.set("cpu_ms_per_turn", processorMilliseconds / count)
    line.set("written_bytes_per_turn", writtenBytes / count)
    line.set("fsyncs_per_turn", syncs / count)
  }
}
