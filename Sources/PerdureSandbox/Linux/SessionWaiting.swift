import CPerdureLinux
import Glibc
import PerdureModel

/// What the thread of a session waits for.
struct SessionWaiting {
  var bell: Bell
  var output: Descriptor?
  var errors: Descriptor?
  var news: Descriptor?
  /// What is waited for until it can be written.
  var input: Descriptor?

  /// Waits until there is something to do, or until a time on the clock; for ever without one.
  func wait(until deadline: Int64?) {
    var milliseconds: Int32 = -1
    if let deadline {
      let left = max(0, deadline - monotonicNanoseconds())
      milliseconds = Int32(clamping: (left + 999_999) / 1_000_000)
    }
    _ = perdure_session_wait(
      bell.descriptor.number,
      output?.number ?? -1,
      errors?.number ?? -1,
      news?.number ?? -1,
      input?.number ?? -1,
      milliseconds
    )
  }
}

extension Descriptor {
  /// Writes what there is room for: how much that was, 0 if there is none.
  func writeWithoutWait(_ bytes: [UInt8]) throws(SystemFailure) -> Int {
    let written = unsafe bytes.withUnsafeBytes {
      unsafe perdure_session_write(number, $0.baseAddress, Int64($0.count))
    }
    if written == Int64(-EAGAIN) { return 0 }
    guard written >= 0 else { throw SystemFailure(written) }
    return Int(written)
  }

  /// Lets reading and writing it not wait.
  func withoutWait() throws(SystemFailure) {
    let result = perdure_session_prepare(number)
    if result < 0 { throw SystemFailure(result) }
  }

  /// Gives the terminal whose host's side it is another size.
  func resize(_ size: TerminalSize) throws(SystemFailure) {
    let result = perdure_session_resize(number, Int32(size.rows), Int32(size.columns))
    if result < 0 { throw SystemFailure(result) }
  }
}
