import PerdureEngine
package import PerdureModel
import PerdureStorage
import Synchronization

/// Finds what is broken in a store and changes nothing, also while another process owns it.
package struct StoreCheckup: Sendable {
  /// How many findings say that something is broken.
  package var damages = 0
  /// How many others there are.
  package var notes = 0
  /// How many conversations and tasks were checked against each other; absent if they could not be.
  package var visited: (conversations: Int, tasks: Int)?

  /// Checks a store; throws if it cannot be read at all.
  ///
  /// Each finding is reported as soon as it is made. All that is read is of one moment; where that
  /// cannot be had, a finding says so.
  package static func run(
    _ site: StoreSite,
    report: @escaping FindingSink
  ) async throws -> StoreCheckup {
    let counts = Mutex(StoreCheckup())
    let known = Mutex<Set<String>>([])
    let counting: FindingSink = { finding in
      // The tables and the records may show one thing in the same words.
      guard known.withLock({ $0.insert(finding.description).inserted }) else { return }
      counts.withLock {
        if finding.isDamage { $0.damages += 1 } else { $0.notes += 1 }
      }
      report(finding)
    }
    let visited =
      switch site.format {
      case .sqlite: try await checkSQLite(site.path, counting)
      case .jsonl: try await checkJSONL(site.path, counting)
      }
    return counts.withLock {
      $0.visited = visited
      return $0
    }
  }

  private static func checkSQLite(
    _ path: String,
    _ report: @escaping FindingSink
  ) async throws -> (conversations: Int, tasks: Int)? {
    let watch = QuietFile(path)
    let store: SQLiteStorage
    do {
      store = try await SQLiteStorage.openSnapshot(path: path)
    } catch let error as PerdureError where error.code == .storeCorrupt {
      try await SQLiteStorage.examineTables(path: path, report)
      report(StoreFinding("unreadable", "the store", "it cannot be opened (\(error.message))"))
      return nil
    }
    do {
      try await store.examine(report)
      let visited = try await StoreCheck.run(store, report: report)
      await store.close()
      if watch.wasDisturbed {
        let message =
          "it was opened for writing meanwhile, so this may be of two moments; repeat it"
        report(StoreFinding("not_one_moment", "the store", message, isDamage: false))
      }
      return visited
    } catch let error as PerdureError where [.storeCorrupt, .storageFailed].contains(error.code) {
      await store.close()
      let cause = error.cause ?? error.message
      report(StoreFinding("unreadable", "the store", "the check could not be ended (\(cause))"))
      return nil
    } catch {
      await store.close()
      throw error
    }
  }

  private static func checkJSONL(
    _ path: String,
    _ report: @escaping FindingSink
  ) async throws -> (conversations: Int, tasks: Int)? {
    let snapshot = try await JSONLStorage.examine(path: path, report)
    return try await StoreCheck.run(snapshot, report: report)
  }
}
