import CPerdureLinux
import Glibc
import Perdure
import PerdureModel
import PerdureValue

/// This program, running once more.
struct Child {
  let id: Int32
  private let output: Int32

  /// Starts it with these words on its command line.
  static func start(_ words: [String]) throws -> Child {
    var output: Int32 = -1
    let owned = unsafe (["perdure-bench"] + words).map { unsafe strdup($0) }
    defer { for index in unsafe owned.indices { unsafe free(owned[index]) } }
    let list = unsafe owned + [nil]
    let id = unsafe perdure_bench_spawn(list, &output)
    try Machine.check(id, "the benchmark cannot start itself")
    return Child(id: id, output: output)
  }

  /// Runs it to its end and returns the object that it printed.
  static func result(of words: [String]) throws -> JSON {
    let child = try start(words)
    let text = child.readLine()
    let status = child.wait()
    guard status == 0, let result = try? JSON(parsing: Array(text.utf8)) else {
      throw PerdureError(.invalidInput, "the measured process ended with status \(status)")
    }
    return result
  }

  /// Reads until a line is complete or the output ends; meant for one line.
  func readLine() -> String {
    var text: [UInt8] = []
    var buffer = [CChar](repeating: 0, count: 4_096)
    while !text.contains(0x0A) {
      let count = unsafe buffer.withUnsafeMutableBufferPointer { buffer in
        unsafe perdure_bench_read(output, buffer.baseAddress, buffer.count)
      }
      guard count > 0 else { break }
      text += buffer.prefix(count).map { UInt8(bitPattern: $0) }
    }
    return String(decoding: text.prefix { $0 != 0x0A }, as: UTF8.self)
  }

  /// Kills it at once, as a crash would.
  func kill() {
    perdure_bench_kill(id)
    perdure_bench_close(output)
  }

  /// Waits for its end; returns its exit status.
  func wait() -> Int32 {
    perdure_bench_close(output)
    return perdure_bench_wait(id)
  }

  // MARK: At rest

  /// Starts it, waits until it has said that it is ready and is at rest, and looks at it for ten
  /// seconds.
  static func atRest(_ words: [String]) throws -> (megabytes: Double, wakeups: Int64) {
    let child = try start(words)
    defer { child.kill() }
    guard child.readLine() == "READY" else {
      throw PerdureError(.invalidInput, "the measured process ended early")
    }
    // Threads that ran until now go to rest first.
    sleep(8)
    let wakeups = perdure_process_wakeups(child.id, 10)
    let resident = perdure_process_resident_kib(child.id)
    guard wakeups >= 0, resident >= 0 else {
      throw PerdureError(.storageFailed, "the measured process cannot be looked at")
    }
    return (Double(resident) / 1_024, wakeups)
  }

  /// Waits to be killed, without a timer of the Swift runtime.
  static func sleepForever() async {
    while true { await SystemClock().sleep(nanoseconds: .max) }
  }
}
