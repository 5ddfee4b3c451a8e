import CPerdureLinux
import Glibc

/// What the kernel said no with.
struct SystemFailure: Error, Equatable {
  /// The number of the error, positive.
  var code: Int32

  init(_ result: Int32) { code = result < 0 ? -result : result }

  init(_ result: Int64) { code = Int32(clamping: -result) }

  /// What the system says about it.
  var text: String { unsafe String(cString: strerror(code)) }
}

/// An open file, folder or pipe, which is closed with its last user.
final class Descriptor: Sendable {
  let number: Int32

  /// Takes over an open descriptor.
  init(_ number: Int32) { self.number = number }

  deinit { perdure_tree_close(number) }

  /// Takes over what a call returned, or throws what it failed with.
  convenience init(returned result: Int32) throws(SystemFailure) {
    guard result >= 0 else { throw SystemFailure(result) }
    self.init(result)
  }
}

/// A name in a folder: bytes without `/` and zero, which need not be text.
struct FileName: Hashable, Sendable {
  private let terminated: [UInt8]

  init(_ text: String) { terminated = Array(text.utf8) + [0] }

  init(bytes: ArraySlice<UInt8>) { terminated = Array(bytes) + [0] }

  var bytes: ArraySlice<UInt8> { terminated.dropLast() }

  /// The name as text; what is no UTF-8 is U+FFFD.
  var text: String { String(decoding: bytes, as: UTF8.self) }

  func pass<Result>(_ body: (UnsafePointer<CChar>?) -> Result) -> Result {
    unsafe terminated.withUnsafeBytes { raw in
      unsafe body(raw.baseAddress?.assumingMemoryBound(to: CChar.self))
    }
  }
}
