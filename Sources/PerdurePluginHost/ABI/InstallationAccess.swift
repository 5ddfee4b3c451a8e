import Glibc
internal import PerdureModel

/// What an installation folder asks of the file system, durably and with sentences for failures.
enum InstallationAccess {
  // MARK: Folders

  /// Makes a folder that only this user can use, with its parents, and lets that last.
  static func makeFolder(_ path: String) throws(PerdureError) {
    var prefix = path.hasPrefix("/") ? "/" : ""
    for part in path.split(separator: "/") {
      let parent = prefix.isEmpty ? "." : prefix
      prefix += (prefix.isEmpty || prefix.hasSuffix("/") ? "" : "/") + part
      if unsafe mkdir(prefix, 0o700) == 0 {
        try sync(folder: parent)
      } else if errno != EEXIST {
        throw failure(prefix, "cannot be created")
      }
    }
  }

  /// Throws unless the folder belongs to this user and nobody else can write to it.
  static func checkOwner(_ path: String) throws(PerdureError) {
    var status = stat()
    guard unsafe stat(path, &status) == 0, status.st_mode & S_IFMT == S_IFDIR else {
      throw failure(path, "is not a folder")
    }
    guard status.st_uid == geteuid(), status.st_mode & 0o022 == 0 else {
      throw PerdureError(
        .invalidConfiguration,
        "the folder \(path) of the installed plugins can be written by others",
        hint: "make it yours and run chmod 700 on it"
      )
    }
  }

  /// Whether there is anything of this name.
  static func exists(_ path: String) -> Bool {
    var status = stat()
    return unsafe lstat(path, &status) == 0
  }

  /// Whether there is a folder of this name.
  static func isFolder(_ path: String) -> Bool {
    var status = stat()
    return unsafe stat(path, &status) == 0 && status.st_mode & S_IFMT == S_IFDIR
  }

  /// Waits until the names in a folder are on disk.
  static func sync(folder path: String) throws(PerdureError) {
    let descriptor = unsafe open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
    guard descriptor >= 0 else { throw failure(path, "cannot be opened") }
    defer { close(descriptor) }
    // Some file systems know no such thing; those keep names without it.
    guard fsync(descriptor) == 0 || errno == EINVAL else {
      throw failure(path, "cannot be flushed")
    }
  }

  /// Gives a file or a folder another name, in the place of what has that name.
  static func rename(_ old: String, _ new: String) throws(PerdureError) {
    guard unsafe Glibc.rename(old, new) == 0 else { throw failure(new, "cannot be put in place") }
  }

  /// Removes a folder with what is in it, two levels deep; what resists is left.
  static func remove(folder path: String) {
    for name in FileAccess.names(in: path) where name != "." && name != ".." {
      let item = "\(path)/\(name)"
      if unsafe unlink(item) != 0 { remove(inner: item) }
    }
    unsafe rmdir(path)
  }

  private static func remove(inner path: String) {
    for name in FileAccess.names(in: path) { unsafe unlink("\(path)/\(name)") }
    unsafe rmdir(path)
  }

  /// The names in a folder without the two that are always there, sorted.
  static func names(in path: String) -> [String] {
    FileAccess.names(in: path).filter { $0 != "." && $0 != ".." }.sorted()
  }

  // MARK: Files

  /// Writes a file and waits until its data is on disk.
  static func write(_ bytes: [UInt8], to path: String, mode: mode_t) throws(PerdureError) {
    let descriptor = unsafe open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0o600)
    guard descriptor >= 0 else { throw failure(path, "cannot be created") }
    let isWhole =
      FileAccess.put(bytes, into: descriptor) && fchmod(descriptor, mode) == 0
      && fsync(descriptor) == 0
    let reason = errno
    close(descriptor)
    guard isWhole else {
      errno = reason
      throw failure(path, "cannot be written")
    }
  }

  /// Gives the bytes of a file of the system, whose size nobody knows before; none if there is none.
  static func systemFile(_ path: String) -> [UInt8] {
    let descriptor = unsafe open(path, O_RDONLY | O_CLOEXEC)
    guard descriptor >= 0 else { return [] }
    defer { close(descriptor) }
    var bytes: [UInt8] = []
    var buffer = [UInt8](repeating: 0, count: 65_536)
    while true {
      let count = unsafe buffer.withUnsafeMutableBytes {
        unsafe read(descriptor, $0.baseAddress, $0.count)
      }
      if count < 0, errno == EINTR { continue }
      if count <= 0 { return bytes }
      bytes += buffer.prefix(count)
    }
  }

  // MARK: Locks

  /// Takes the lock of a file or folder; `nil` if another descriptor holds it.
  ///
  /// What is missing is created as a file. The descriptor holds the lock until it is closed.
  static func tryLock(_ path: String, isFolder: Bool = false) throws(PerdureError) -> Int32? {
    let flags = isFolder ? O_RDONLY | O_DIRECTORY : O_RDWR | O_CREAT
    let descriptor = unsafe open(path, flags | O_CLOEXEC, 0o600)
    guard descriptor >= 0 else { throw failure(path, "cannot be opened") }
    if flock(descriptor, LOCK_EX | LOCK_NB) == 0 { return descriptor }
    let isBusy = errno == EWOULDBLOCK
    let problem = failure(path, "cannot be locked")
    close(descriptor)
    if isBusy { return nil }
    throw problem
  }

  /// Ends a lock.
  static func unlock(_ descriptor: Int32) { close(descriptor) }

  private static func failure(_ path: String, _ what: String) -> PerdureError {
    let reason = unsafe String(cString: strerror(errno))
    return PerdureError(
      .invalidConfiguration,
      "\(path) \(what)",
      hint: "check its permissions and the free space",
      cause: reason
    )
  }
}
