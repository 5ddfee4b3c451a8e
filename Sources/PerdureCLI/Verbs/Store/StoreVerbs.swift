import Perdure
import PerdureModel
import PerdureValue

/// The verbs that look after a store, one file for each.
enum StoreVerbs {
  static let all = [
    StoreCheckVerb.verb, StoreBackupVerb.verb, StoreExportVerb.verb, StoreImportVerb.verb,
    StoreCompactVerb.verb,
  ]

  /// The option that names the store.
  static let storeOption = RunOptions.forOwnStores.filter { $0.name == "store" }
}

extension StoreAddress {
  /// The store on disk, which must exist; one in memory is refused.
  func existingSite(isNamed: Bool) throws -> StoreSite {
    let site = try site()
    if !exists { throw missing(isNamed: isNamed) }
    return site
  }

  /// The store on disk, which need not exist; one in memory is refused.
  func site() throws -> StoreSite {
    switch self {
    case .memory:
      throw Self.gone
    case .file(let path): return StoreSite(path: path, format: .sqlite)
    case .folder(let path): return StoreSite(path: path, format: .jsonl)
    }
  }
}
