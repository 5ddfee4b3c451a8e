import PerdureModel
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

  /// Throws `invalidInput` if a path lies in the folder of this store.
  func requireOutside(_ other: String) throws {
    guard format == .jsonl else { return }
    let folder = Destination.resolved(path)
    guard (Destination.resolved(other) + "/").hasPrefix(folder + "/") else { return }
    throw PerdureError(
      .invalidInput,
      "\(other) lies in the folder of the store \(path)",
      hint: "give a path outside of it"
    )
  }
}
