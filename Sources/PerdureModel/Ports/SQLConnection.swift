/// A value that is bound to a parameter of a statement, or found in a column of a row.
public enum SQLValue: Sendable, Equatable {
  case null
  case int(Int64)
  case real(Double)
  /// UTF-8.
  case text([UInt8])
  case blob([UInt8])

  /// Makes a text value.
  public static func string(_ text: String) -> SQLValue { .text(Array(text.utf8)) }

  /// Makes an integer, or null.
  public static func optional(_ value: Int64?) -> SQLValue { value.map { .int($0) } ?? .null }
}

/// What statements of SQLite are run through: a connection, or one transaction of it.
///
/// Every call waits until it is done. Perdure makes its calls from a thread of its own, never from
/// those that Swift's tasks share.
public protocol SQLHandle {
  /// Runs one or more statements that have no parameters and whose rows nobody wants.
  func execute(_ sql: String) throws
  /// Runs one statement.
  func run(_ sql: String, _ values: [SQLValue]) throws
  /// Returns the first row of one statement, or `nil` without one.
  func first(_ sql: String, _ values: [SQLValue]) throws -> [SQLValue]?
  /// Returns all rows of one statement.
  func all(_ sql: String, _ values: [SQLValue]) throws -> [[SQLValue]]
}

/// A connection to a SQLite database that an application opened and shares with Perdure.
///
/// It may be used from any thread. Operations run in the order of their calls. The texts of
/// statements repeat, so a cache of prepared statements pays.
public protocol SQLConnection: SQLHandle, Sendable {
  /// Runs `body` in a transaction that may write from its start (`BEGIN IMMEDIATE`), and commits it.
  ///
  /// Until it is over, only calls through the handle run; all others wait. Afterwards the handle
  /// throws. An error of `body` takes everything back and is thrown as it is; if that fails too,
  /// another error says so, such as `SQLRollbackFailure`. A commit that fails is taken back.
  func transaction(_ body: (any SQLHandle) throws -> Void) throws
  /// Ends the use of the connection by a store, after the calls under way; later calls throw.
  func close()
}

/// A transaction that failed and could not be taken back.
public struct SQLRollbackFailure: Error, CustomStringConvertible {
  /// Why it failed.
  public let transaction: any Error
  /// Why it could not be taken back.
  public let rollback: any Error

  /// Makes a failure.
  public init(transaction: any Error, rollback: any Error) {
    self.transaction = transaction
    self.rollback = rollback
  }

  public var description: String {
    "\(transaction); what was done could not be taken back: \(rollback)"
  }
}
