import CPerdureLinux
import Glibc
import PerdureModel
import PerdureValue

/// What this process has used and what the machine gives.
enum Machine {
  /// Processor time of this process, in nanoseconds.
  static var processorTime: Int64 { perdure_bench_cpu_ns() }

  /// Bytes handed to write calls so far, logs and checkpoints included.
  static var writtenBytes: Int64 { perdure_bench_written_bytes() }

  /// Bytes that this process has caused to be sent to a disk.
  static var diskBytes: Int64 { perdure_bench_disk_bytes() }

  /// The greatest resident size so far.
  static var peakMegabytes: Double { Double(perdure_bench_peak_kib()) / 1_024 }

  /// What this process has in memory that no file can give back.
  static var anonymousKibibytes: Int {
    var text = [CChar](repeating: 0, count: 4_096)
    guard let file = unsafe fopen("/proc/self/smaps_rollup", "r") else { return 0 }
    defer { unsafe _ = fclose(file) }
    let count = unsafe fread(&text, 1, text.count, file)
    let lines = String(decoding: text.prefix(count).map { UInt8(bitPattern: $0) }, as: UTF8.self)
      .split(separator: "\n")
    guard let line = lines.first(where: { $0.hasPrefix("Anonymous:") }) else { return 0 }
    return line.split(separator: " ").dropFirst().first.flatMap { Int($0) } ?? 0
  }

  static var now: Int64 { perdure_monotonic_ns() }

  /// Makes the folder of the databases unless it is there.
  static func prepare(_ folder: String) throws {
    try unsafe check(perdure_bench_make_folder(folder), "the folder \(folder) cannot be made")
  }

  /// Removes the file of a database and what SQLite keeps beside it.
  static func removeDatabase(_ path: String) {
    for suffix in ["", "-wal", "-shm"] { unsafe _ = unlink(path + suffix) }
  }

  /// The size of a file, or 0 without one.
  static func size(of path: String) -> Int64 { unsafe perdure_bench_file_bytes(path) }

  /// Appends a line to a file; it is on disk when this returns.
  static func append(_ line: String, to path: String) throws {
    let bytes = Array((line + "\n").utf8)
    let code = unsafe bytes.withUnsafeBytes { buffer in
      unsafe perdure_bench_append_synced(
        path,
        buffer.baseAddress?.assumingMemoryBound(to: CChar.self),
        buffer.count
      )
    }
    try check(code, "\(path) cannot be written")
  }

  static func check(_ code: Int32, _ message: String) throws {
    if code < 0 { throw PerdureError(.storageFailed, message, cause: "error \(-code)") }
  }
}

/// How busy the machine is, which says whether wall times mean anything.
struct Calibration: Sendable {
  /// The load average of the last minute.
  let load: Double
  /// The median of 4 KiB write and fdatasync, in milliseconds.
  let syncMilliseconds: Double

  /// Measures, with a file in `folder` that is removed.
  init(in folder: String) throws {
    load = perdure_bench_load()
    var times = [Int64](repeating: 0, count: 100)
    let code = unsafe times.withUnsafeMutableBufferPointer { buffer in
      unsafe perdure_bench_sync_times(folder + "/calib", buffer.baseAddress, Int32(buffer.count))
    }
    try Machine.check(code, "\(folder) cannot be written")
    syncMilliseconds = percentile(times.map(milliseconds), 50)
  }

  /// Whether wall times may be judged.
  var isQuiet: Bool { load < 0.7 && syncMilliseconds < 0.3 }
}
