import PerdureModel

/// The connection of an application, as the SQL of a store uses it, on the thread of the store.
final class SharedConnection {
  /// The file, for error messages.
  let path: String
  let names: TableNames
  private let application: any SQLConnection
  /// The transaction that runs.
  private var handle: (any SQLHandle)?
  /// The file of the database and what told it apart when it was opened; absent if it has none.
  private let file: (path: String, identity: FileIdentity?)?

  /// Finds out what the connection is connected to; throws `invalidConfiguration` for a bad prefix.
  init(_ application: any SQLConnection, prefix: String) throws {
    self.application = application
    names = try TableNames(prefix: prefix)
    let row = try Self.guarding("of the application's connection") {
      try application.all("PRAGMA database_list", []).first { $0.count > 2 && $0[1] == Self.main }
    }
    let found = row.map { Row(values: $0).string(2) } ?? ""
    if found.isEmpty {
      file = nil
      path = "in the application's memory"
    } else {
      let resolved = StorePath.resolved(found)
      file = (resolved, FileIdentity(path: resolved))
      path = prefix.isEmpty ? resolved : "\(prefix)* in \(resolved)"
    }
  }

  private static let main = SQLValue.string("main")

  /// Takes the lock of the store, which each prefix has of its own.
  ///
  /// Without a file nobody else can come, and there is no lock.
  func lock() throws -> StoreLock? {
    guard let file else { return nil }
    try StorePath.checkIsOnlyName(file.path)
    let suffix = names.prefix.isEmpty ? ".lock" : ".\(names.prefix).lock"
    return try StoreLock(store: path, file: file.path + suffix)
  }

  /// Whether the path no longer names the file that is open.
  var hasMoved: Bool {
    guard let file else { return false }
    return FileIdentity(path: file.path) != file.identity
  }

  func execute(_ sql: String) throws { try perform { try $0.execute(names.sql(sql)) } }

  func run(_ sql: String, _ values: [SQLValue]) throws {
    try perform { try $0.run(names.sql(sql), values) }
  }

  func rows<Value>(
    _ sql: String,
    _ values: [SQLValue],
    _ body: (Row) throws -> Value
  ) throws -> [Value] {
    let rows = try perform { try $0.all(names.sql(sql), values) }
    return try rows.map { try body(Row(values: $0)) }
  }

  func first<Value>(
    _ sql: String,
    _ values: [SQLValue],
    _ body: (Row) throws -> Value
  ) throws -> Value? {
    let row = try perform { try $0.first(names.sql(sql), values) }
    return try row.map { try body(Row(values: $0)) }
  }

  func transaction<Value>(_ body: () throws -> Value) throws -> Value {
    var value: Value?
    try Self.guarding(path) {
      try application.transaction { handle in
        self.handle = handle
        defer { self.handle = nil }
        value = try body()
      }
    }
    guard let value else {
      throw PerdureError(
        .storageFailed,
        "the store \(path) could not be used",
        cause: "the connection of the application ran no transaction"
      )
    }
    return value
  }

  func close() { application.close() }

  private func perform<Value>(_ body: (any SQLHandle) throws -> Value) throws -> Value {
    try Self.guarding(path) { try body(handle ?? application) }
  }

  /// Lets errors of ours pass, and says of which store the application's are.
  private static func guarding<Value>(_ path: String, _ body: () throws -> Value) throws -> Value {
    do {
      return try body()
    } catch let error as PerdureError {
      throw error
    } catch {
      throw PerdureError(
        .storageFailed,
        "the store \(path) could not be used",
        hint: "check the connection that the application gave",
        cause: "\(error)"
      )
    }
  }
}
