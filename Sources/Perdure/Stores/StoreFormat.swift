import PerdureStorage

/// How a store on disk is kept.
package enum StoreFormat: String, Sendable {
  /// In one SQLite file.
  case sqlite
  /// In a folder of JSON lines.
  case jsonl
}

/// A store on disk that need not exist yet.
package struct StoreSite: Sendable {
  package var path: String
  package var format: StoreFormat

  /// Names a store.
  package init(path: String, format: StoreFormat) {
    self.path = path
    self.format = format
  }
}
