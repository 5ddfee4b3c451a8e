internal import CPerdureLinux
import Glibc
internal import PerdureModel

/// Reading and writing whole files, with sentences for what goes wrong.
enum FileAccess {
  static let pluginLimit = 512 << 20

  /// Gives the bytes of a regular file within `limit`.
  static func read(_ path: String, limit: Int) throws(PerdureError) -> [UInt8] {
    guard let bytes = try readIfPresent(path, limit: limit) else {
      throw PerdureError(
        .pluginRefused,
        "plugin file \(path) does not exist",
        hint: "check the path"
      )
    }
    return bytes
  }

  /// Gives the bytes of a regular file within `limit`, or `nil` if there is no file.
  static func readIfPresent(_ path: String, limit: Int) throws(PerdureError) -> [UInt8]? {
    let descriptor = unsafe open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK)
    if descriptor < 0, errno == ENOENT || errno == ENOTDIR { return nil }
    guard descriptor >= 0 else { throw failure(path, "cannot be opened") }
    defer { close(descriptor) }
    var status = stat()
    guard unsafe fstat(descriptor, &status) == 0 else { throw failure(path, "cannot be read") }
    guard status.st_mode & S_IFMT == S_IFREG else {
      throw PerdureError(
        .pluginRefused,
        "plugin file \(path) is not a regular file",
        hint: "name the .so file itself"
      )
    }
    let size = Int(status.st_size)
    guard size <= limit else {
      throw PerdureError(
        .pluginRefused,
        "plugin file \(path) is larger than \(limit) bytes",
        hint: "strip it"
      )
    }
    var failed = false
    let bytes = unsafe [UInt8](unsafeUninitializedCapacity: size) { buffer, count in
      while count < size, let base = buffer.baseAddress {
        let got = unsafe Glibc.read(descriptor, base + count, size - count)
        if got < 0, errno == EINTR { continue }
        if got < 0 { failed = true }
        if got <= 0 { break }
        count += got
      }
    }
    if failed { throw failure(path, "cannot be read") }
    return bytes
  }

  /// Writes all of these bytes to a descriptor; `false`, with `errno`, if that cannot be done.
  static func put(_ bytes: [UInt8], into descriptor: Int32) -> Bool {
    var written = 0
    while written < bytes.count {
      let count = unsafe bytes.withUnsafeBytes { buffer in
        guard let base = buffer.baseAddress else { return 0 }
        return unsafe Glibc.write(descriptor, base + written, bytes.count - written)
      }
      if count < 0, errno == EINTR { continue }
      if count <= 0 { return false }
      written += count
    }
    return true
  }

  /// Writes a new file under a name of its own and then gives it its final name.
  static func write(_ bytes: [UInt8], to path: String, mode: mode_t) throws(PerdureError) {
    let temporary = path + ".tmp"
    let descriptor = unsafe open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0o600)
    guard descriptor >= 0 else { throw failure(temporary, "cannot be created") }
    // No fsync: the copy lives no longer than the process, and it is hashed before it is used.
    let complete = put(bytes, into: descriptor) && fchmod(descriptor, mode) == 0
    let closed = close(descriptor) == 0
    guard complete, closed, unsafe rename(temporary, path) == 0 else {
      let error = failure(path, "cannot be written")
      unsafe unlink(temporary)
      throw error
    }
  }

  /// Makes a folder that only this user can write to, with its parents.
  static func makePrivateFolder(_ path: String) throws(PerdureError) {
    var prefix = path.hasPrefix("/") ? "/" : ""
    for part in path.split(separator: "/") {
      prefix += (prefix.isEmpty || prefix.hasSuffix("/") ? "" : "/") + part
      if unsafe mkdir(prefix, 0o700) != 0, errno != EEXIST {
        throw failure(prefix, "cannot be created")
      }
    }
    var status = stat()
    guard unsafe lstat(path, &status) == 0, status.st_mode & S_IFMT == S_IFDIR else {
      throw failure(path, "is not a folder")
    }
    guard status.st_uid == geteuid(), status.st_mode & 0o022 == 0 else {
      throw PerdureError(
        .pluginRefused,
        "the folder \(path) for private copies can be written by others",
        hint: "run chmod 700 on it or set XDG_CACHE_HOME to a folder of your own"
      )
    }
  }

  /// The names in a folder; none if it cannot be read.
  static func names(in path: String) -> [String] {
    guard let folder = unsafe opendir(path) else { return [] }
    defer { unsafe closedir(folder) }
    var names: [String] = []
    while let entry = unsafe readdir(folder) {
      names.append(
        unsafe withUnsafePointer(to: &entry.pointee.d_name) { name in
          unsafe name.withMemoryRebound(to: CChar.self, capacity: 256) { name in
            unsafe String(cString: name)
          }
        }
      )
    }
    return names
  }

  /// Removes a file; it may be gone already.
  static func remove(_ path: String) { unsafe unlink(path) }

  /// Whether a process with this id exists.
  static func processExists(_ process: Int32) -> Bool { kill(process, 0) == 0 || errno != ESRCH }

  /// Lets another thread run.
  static func yield() { sched_yield() }

  /// The id of this process.
  static var processID: Int32 { getpid() }

  /// The SHA-256 of `bytes` in hexadecimal.
  static func digest(_ bytes: [UInt8]) -> String {
    var digest = [UInt8](repeating: 0, count: 32)
    unsafe bytes.withUnsafeBytes { bytes in
      unsafe digest.withUnsafeMutableBufferPointer { digest in
        unsafe perdure_sha256(bytes.baseAddress, UInt(bytes.count), digest.baseAddress)
      }
    }
    let digits = Array("0123456789abcdef".utf8)
    return String(
      decoding: digest.flatMap { [digits[Int($0 >> 4)], digits[Int($0 & 15)]] },
      as: UTF8.self
    )
  }

  private static func failure(_ path: String, _ what: String) -> PerdureError {
    let reason = unsafe String(cString: strerror(errno))
    return PerdureError(
      .pluginRefused,
      "\(path) \(what)",
      hint: "check its permissions and the free space",
      cause: reason
    )
  }
}
