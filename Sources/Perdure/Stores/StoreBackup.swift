package import PerdureModel
import PerdureStorage
import Synchronization

/// Copies a store while its owner goes on.
package enum StoreBackup {
  /// Copies the store to a path that names nothing, as it is at one moment.
  ///
  /// The copy has its name once all of it is on disk. Returns what is damaged in it: a copy of a
  /// damaged store is better than none.
  package static func run(_ site: StoreSite, to path: String) async throws -> [StoreFinding] {
    try site.requireOutside(path)
    let destination = try Destination(path)
    do {
      let damage =
        switch site.format {
        case .sqlite: try await copySQLite(site.path, destination)
        case .jsonl: try await copyJSONL(site.path, destination)
        }
      try destination.publish()
      return damage
    } catch {
      destination.abandon()
      throw error
    }
  }

  private static func copySQLite(
    _ path: String,
    _ destination: Destination
  ) async throws -> [StoreFinding] {
    do {
      try await SQLiteStorage.backup(path: path, to: destination)
    } catch var error as PerdureError where error.code == .storeCorrupt {
      error.hint = "'perdure store check' names the damage; copy the files of the store as they are"
      throw error
    }
    let findings = Mutex<[StoreFinding]>([])
    let copy = try await SQLiteStorage.openSnapshot(path: destination.partial)
    do {
      try await copy.examine { finding in
        if finding.isDamage { findings.withLock { $0.append(finding) } }
      }
    } catch {
      await copy.close()
      throw error
    }
    await copy.close()
    return findings.withLock { $0 }
  }

  private static func copyJSONL(
    _ path: String,
    _ destination: Destination
  ) async throws -> [StoreFinding] {
    guard let error = try await JSONLStorage.backup(path: path, to: destination) else { return [] }
    let object = error.details?["file"]?.text ?? "the store"
    return [StoreFinding("unreadable", object, error.cause ?? error.message)]
  }
}
