import CPerdureLinux
import Glibc
import PerdureModel

/// The files of a store.
enum StorePath {
  /// Returns the path without symbolic links, so that two names of one store share one lock.
  static func resolved(_ path: String) -> String {
    if let full = real(path) { return full }
    if path.hasSuffix("/"), path != "/" { return resolved(String(path.dropLast())) }
    let slash = path.lastIndex(of: "/")
    let folder = slash.map { $0 == path.startIndex ? "/" : String(path[..<$0]) } ?? "."
    let name = slash.map { String(path[path.index(after: $0)...]) } ?? path
    guard let parent = real(folder) else { return path }
    return parent == "/" ? "/" + name : parent + "/" + name
  }

  private static func real(_ path: String) -> String? {
    guard let full = unsafe realpath(path, nil) else { return nil }
    defer { unsafe free(full) }
    return unsafe String(cString: full)
  }

  /// Throws unless the path names a file or, if `mayBeAbsent`, nothing.
  static func check(_ path: String, mayBeAbsent: Bool) throws {
    let kind = unsafe perdure_path_kind(path)
    switch kind {
    case Int32(PERDURE_PATH_FILE.rawValue): return
    case Int32(PERDURE_PATH_ABSENT.rawValue):
      if mayBeAbsent { return }
      throw PerdureError(
        .notFound,
        "there is no store at \(path)",
        hint: "check the path given with --store"
      )
    case Int32(PERDURE_PATH_DIRECTORY.rawValue):
      throw PerdureError(
        .storeUnreadable,
        "\(path) is a folder, not a SQLite store",
        hint: "name a file in it"
      )
    default:
      let cause = kind < 0 ? unsafe String(cString: strerror(-kind)) : "not a regular file"
      throw PerdureError(
        .storeUnreadable,
        "\(path) cannot be opened as a store",
        hint: "choose another path for the store",
        cause: cause
      )
    }
  }

  /// Throws unless the path names a folder or, if `mayBeAbsent`, nothing.
  static func checkFolder(_ path: String, mayBeAbsent: Bool) throws {
    switch unsafe perdure_path_kind(path) {
    case Int32(PERDURE_PATH_DIRECTORY.rawValue): return
    case Int32(PERDURE_PATH_ABSENT.rawValue): try check(path, mayBeAbsent: mayBeAbsent)
    case Int32(PERDURE_PATH_FILE.rawValue):
      throw PerdureError(
        .storeUnreadable,
        "\(path) is a file, not the folder of a JSONL store",
        hint: "name a folder"
      )
    default: try check(path, mayBeAbsent: false)
    }
  }

  static func exists(_ path: String) -> Bool {
    unsafe perdure_path_kind(path) == Int32(PERDURE_PATH_FILE.rawValue)
  }

  /// Throws if the file has a second name: each would have a lock and a write-ahead log of its own,
  /// and the two would destroy each other's commits.
  static func checkIsOnlyName(_ path: String) throws {
    guard unsafe perdure_file_name_count(path) > 1 else { return }
    throw PerdureError(
      .storeUnwritable,
      "the store \(path) has a second name, a hard link, which would not share its lock",
      hint: "remove one of the names, or give the path of a copy"
    )
  }

  /// Creates an empty file that only its owner may read: transcripts hold secrets.
  static func create(_ path: String) throws {
    let code = unsafe perdure_file_create_private(path)
    guard code < 0 else { return }
    throw PerdureError(
      .storeUnwritable,
      "the store \(path) cannot be created",
      hint: "make its folder writable, or choose another path",
      cause: unsafe String(cString: strerror(-code))
    )
  }
}

/// What tells a file apart from another that takes its path.
struct FileIdentity: Equatable {
  private let device: UInt
  private let number: UInt

  /// Looks at the file; `nil` if there is none.
  init?(path: String) {
    var device: UInt = 0
    var number: UInt = 0
    guard unsafe perdure_path_identity(path, &device, &number) == 0 else { return nil }
    self.device = device
    self.number = number
  }
}
