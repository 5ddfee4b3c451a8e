import Glibc
import PerdureModel
import PerdureStorage
import PerdureTestKit
import PerdureValue

/// The stores that are played on.
enum Backend: String {
  case sqlite, jsonl, memory

  /// Opens a store for writing, with a failpoint; its path says of which kind it is.
  static func open(_ path: String, _ failpoint: Failpoint) async throws -> any Storage {
    // A killed process, not a power failure, is what is played here.
    guard path.hasSuffix(".jsonl") else {
      return FailpointStorage(
        try await SQLiteStorage.open(path: path, durability: .normal),
        failpoint
      )
    }
    guard failpoint.layer == .files else {
      return FailpointStorage(
        try await JSONLStorage.open(path: path, durability: .normal),
        failpoint
      )
    }
    return try await JSONLStorage.open(path: path, durability: .normal) {
      FailpointFiles($0, failpoint)
    }
  }

  /// What a death left, before anybody opens the store for writing.
  struct Remains {
    var problems: [String] = []
    var dump: JSONObject?
  }

  /// Reads a store that a death left; nothing of it is changed.
  static func look(at path: String) async throws -> Remains {
    guard exists(path) else { return Remains() }
    if path.hasSuffix(".jsonl") {
      guard exists(path + "/main.jsonl") else { return Remains() }
      return try await look(
        through: try await JSONLStorage.open(path: path, durability: .normal, readOnly: true)
      )
    }
    let problems = try integrityProblems(of: path)
    guard let problems else { return Remains() }
    let storage: any Storage
    do {
      storage = try await SQLiteStorage.open(path: path, durability: .normal, readOnly: true)
    } catch let error as PerdureError where error.code == .storeUnreadable {
      // A death while it was being closed leaves its log without the index. Readers say so until it
      // is opened for writing; the copy was whole.
      return Remains(problems: problems)
    }
    var remains = try await look(through: storage)
    remains.problems += problems
    return remains
  }

  /// What SQLite finds wrong in a file; `nil` if no store has been made of it yet.
  ///
  /// It looks at a copy, which it may repair as the next opening would.
  private static func integrityProblems(of path: String) throws -> [String]? {
    let copy = path + ".copy"
    for suffix in ["", "-wal"] {
      _ = unsafe unlink(copy + suffix)
      if exists(path + suffix) { try duplicate(path + suffix, copy + suffix) }
    }
    defer { for suffix in ["", "-wal", "-shm"] { _ = unsafe unlink(copy + suffix) } }
    let check = try Connection(path: copy)
    defer { check.close() }
    let answer = try check.rows("PRAGMA integrity_check") { $0.string(0) }
    let tables = try check.rows("SELECT name FROM sqlite_schema") { $0.string(0) }
    if answer == ["ok"] { return tables.contains("durable_schema") ? [] : nil }
    return answer
  }

  private static func duplicate(_ path: String, _ copy: String) throws {
    let source = unsafe Glibc.open(path, O_RDONLY)
    let target = unsafe Glibc.open(copy, O_WRONLY | O_CREAT | O_TRUNC, 0o644)
    defer {
      close(source)
      close(target)
    }
    var buffer = [UInt8](repeating: 0, count: 1 << 16)
    while true {
      let count = unsafe read(source, &buffer, buffer.count)
      if count == 0 { return }
      guard count > 0, unsafe write(target, buffer, count) == count else {
        throw PerdureError(.invalidInput, "cannot copy \(path)")
      }
    }
  }

  /// Reads an open store and closes it.
  static func look(through storage: any Storage) async throws -> Remains {
    var remains = Remains()
    remains.problems = try await StoreInvariants.violations(of: storage)
    remains.dump = try await StoreDump(storage).json()
    await storage.close()
    return remains
  }

  private static func exists(_ path: String) -> Bool { unsafe access(path, F_OK) == 0 }
}
