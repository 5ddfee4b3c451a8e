import CSQLite

/// The SQLite that is linked.
package enum SQLiteLibrary {
  /// Its version, such as `3.40.1`.
  package static var version: String {
    let number = sqlite3_libversion_number()
    return "\(number / 1_000_000).\(number / 1_000 % 1_000).\(number % 1_000)"
  }
}
