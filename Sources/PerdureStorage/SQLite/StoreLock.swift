import CPerdureLinux
import Glibc
import PerdureModel
import PerdureValue

/// The right to write a store, for one opener at a time.
///
/// The lock is on a file beside the store: closing any descriptor of the database itself would drop
/// the locks that SQLite holds on it. The kernel releases it when the process ends; the file stays,
/// because removing it would let two openers lock two files of one name.
package final class StoreLock: Sendable {
  /// Who holds a lock.
  package struct Owner: Sendable, Equatable {
    package var pid: Int64
    /// Milliseconds since 1970 at which the owner opened the store.
    package var since: Int64
    package var host: String
  }

  private let descriptor: Int32

  /// Takes the lock of the store at `path`; throws `storeInUse` naming the owner.
  package init(store path: String) throws {
    let file = path + ".lock"
    let opened = unsafe perdure_lock_open(file)
    guard opened >= 0 else { throw Self.failure(-opened, path) }
    let taken = perdure_lock_take(opened)
    guard taken == 0 else {
      let owner = Self.readOwner(opened)
      perdure_lock_close(opened)
      throw taken == -EWOULDBLOCK ? Self.inUse(path, owner) : Self.failure(-taken, path)
    }
    descriptor = opened
    // A hint for people; the lock holds without it.
    let hint: JSON = [
      "pid": .int(Int64(getpid())), "since": .int(perdure_wall_milliseconds()),
      "host": .string(Self.hostName),
    ]
    _ = unsafe hint.encoded.withUnsafeBytes { bytes in
      unsafe perdure_lock_write(
        opened,
        bytes.baseAddress?.assumingMemoryBound(to: CChar.self),
        bytes.count
      )
    }
  }

  deinit { perdure_lock_close(descriptor) }

  /// Returns who holds the lock of the store at `path`, without touching it; `nil` if nobody does.
  package static func owner(ofStore path: String) -> Owner? {
    let descriptor = unsafe perdure_lock_look(StorePath.resolved(path) + ".lock")
    guard descriptor >= 0 else { return nil }
    defer { perdure_lock_close(descriptor) }
    // What a process wrote that is gone stays in the file.
    guard let owner = readOwner(descriptor), perdure_lock_is_held(descriptor, owner.pid) == 1 else {
      return nil
    }
    return owner
  }

  private static func readOwner(_ descriptor: Int32) -> Owner? {
    var buffer = [UInt8](repeating: 0, count: 1_024)
    let count = unsafe buffer.withUnsafeMutableBytes { bytes in
      unsafe perdure_lock_read(
        descriptor,
        bytes.baseAddress?.assumingMemoryBound(to: CChar.self),
        bytes.count
      )
    }
    guard count > 0, let json = try? JSON(parsing: Array(buffer.prefix(count))),
      let pid = json["pid"]?.int, let since = json["since"]?.int, let host = json["host"]?.text
    else { return nil }
    return Owner(pid: pid, since: since, host: host)
  }

  private static func inUse(_ path: String, _ owner: Owner?) -> PerdureError {
    let hint = "stop that process, or use 'perdure log' to read the store meanwhile"
    guard let owner else {
      return PerdureError(
        .storeInUse,
        "the store \(path) is in use by another process",
        hint: hint
      )
    }
    return PerdureError(
      .storeInUse,
      "the store \(path) is in use by process \(owner.pid) on \(owner.host) "
        + "since \(utc(owner.since))",
      hint: hint,
      details: [
        "pid": .int(owner.pid), "since": .int(owner.since), "host": .string(owner.host),
      ]
    )
  }

  private static func failure(_ code: Int32, _ path: String) -> PerdureError {
    let reason = unsafe String(cString: strerror(code))
    switch code {
    case ENOENT, ENOTDIR:
      return PerdureError(
        .storeUnwritable,
        "the folder of the store \(path) does not exist",
        hint: "create it, or choose another path",
        cause: reason
      )
    default:
      return PerdureError(
        .storeUnwritable,
        "the lock file \(path).lock cannot be opened",
        hint: "make the folder of the store writable, or choose another path",
        cause: reason
      )
    }
  }

  private static var hostName: String {
    var buffer = [CChar](repeating: 0, count: 256)
    guard unsafe perdure_host_name(&buffer, buffer.count) == 0 else { return "unknown" }
    return String(decoding: buffer.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self)
  }

  private static func utc(_ milliseconds: Int64) -> String {
    var seconds = time_t(milliseconds / 1_000)
    var parts = unsafe tm()
    guard unsafe gmtime_r(&seconds, &parts) != nil else { return "an unknown time" }
    func two(_ value: Int32) -> String { (value < 10 ? "0" : "") + String(value) }
    let date = unsafe "\(parts.tm_year + 1_900)-\(two(parts.tm_mon + 1))-\(two(parts.tm_mday))"
    return unsafe "\(date) \(two(parts.tm_hour)):\(two(parts.tm_min)):\(two(parts.tm_sec)) UTC"
  }
}
