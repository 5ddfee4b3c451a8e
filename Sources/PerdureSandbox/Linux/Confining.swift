import CPerdureLinux
import Glibc

/// A user of this machine, by number.
struct FileUser: Sendable, Equatable {
  var user: UInt32
  var group: UInt32

  /// Whether this process is root.
  static var isRoot: Bool { geteuid() == 0 }
}

extension Descriptor {
  /// Who owns what this is.
  func owner() throws(SystemFailure) -> FileUser {
    var user: UInt32 = 0
    var group: UInt32 = 0
    let result = unsafe perdure_confine_owner(number, &user, &group)
    if result < 0 { throw SystemFailure(result) }
    return FileUser(user: user, group: group)
  }

  func give(to owner: FileUser) throws(SystemFailure) {
    let result = perdure_confine_give(number, owner.user, owner.group)
    if result < 0 { throw SystemFailure(result) }
  }

  /// Claims this folder until the descriptor is closed; throws if another process has it.
  func claim() throws(SystemFailure) {
    let result = perdure_confine_claim(number)
    if result < 0 { throw SystemFailure(result) }
  }
}

/// What threads of the host do to themselves before they serve files of a sandbox.
enum Confining {
  /// Lets this thread use files as a user without any capability.
  static func become(_ user: FileUser) throws(SystemFailure) {
    let result = perdure_confine_user(user.user, user.group)
    if result < 0 { throw SystemFailure(result) }
  }

  /// Lets this thread open what is below these alone.
  static func restrict(to files: [(file: Descriptor, isWritable: Bool)]) throws(SystemFailure) {
    let rules = files.map {
      perdure_confine_rule(descriptor: $0.file.number, writable: $0.isWritable ? 1 : 0)
    }
    let result = unsafe rules.withUnsafeBufferPointer {
      unsafe perdure_confine_files($0.baseAddress, Int32($0.count))
    }
    if result < 0 { throw SystemFailure(result) }
  }
}

/// The path of the program that this process runs; `nil` if the system does not say.
func ownProgram() -> String? {
  try? linkText(at: "/proc/self/exe")
}

private func linkText(at path: String) throws(SystemFailure) -> String {
  var buffer = [CChar](repeating: 0, count: 4_096)
  let length = unsafe buffer.withUnsafeMutableBufferPointer {
    unsafe $0.baseAddress.map { [count = $0.count] in unsafe readlink(path, $0, count) } ?? -1
  }
  guard length >= 0 else { throw SystemFailure(errno) }
  return String(decoding: buffer.prefix(length).map(UInt8.init(bitPattern:)), as: UTF8.self)
}
