import PerdureModel
import PerdureStorage
import PerdureTestKit
import Synchronization
import Testing

/// A backend under test.
enum Backend: String, CaseIterable, CustomTestStringConvertible {
  case memory, sqlite, jsonl
  /// In the database of an application, under names of its own.
  case shared

  var testDescription: String { rawValue }
}

/// A case with the way it is run.
struct Run: CustomTestStringConvertible, Sendable {
  let test: StorageConformance.Case
  let backend: Backend
  let reopens: Bool

  var testDescription: String {
    "\(backend.rawValue)\(reopens ? ", reopened after every commit" : ""): \(test.name)"
  }

  static func all(_ cases: [StorageConformance.Case]) -> [Run] {
    Backend.allCases.flatMap { backend in
      [false, true].flatMap { reopens in
        cases.map { Run(test: $0, backend: backend, reopens: reopens) }
      }
    }
  }
}

struct ConformanceTests {
  @Test(arguments: Run.all(StorageConformance.cases + StorageConformance.backendCases))
  func `a backend keeps what every store must keep`(run: Run) async throws {
    let folder = TemporaryFolder()
    let memory = Mutex(MemoryStorage())
    let harness = try await StorageHarness(reopensAfterCommits: run.reopens) {
      switch run.backend {
      case .memory:
        let storage = memory.withLock {
          $0 = MemoryStorage(continuing: $0)
          return $0
        }
        return try await DirectStore(storage)
      case .sqlite:
        let path = folder.file("store.sqlite")
        return try await DirectStore(try await SQLiteStorage.open(path: path, durability: .normal))
      case .shared:
        let connection = try AppConnection(path: folder.file("app.db"))
        return try await DirectStore(try await SQLiteStorage.open(on: connection, prefix: "p_"))
      case .jsonl:
        let path = folder.file("store")
        return try await DirectStore(try await JSONLStorage.open(path: path, durability: .normal))
      }
    }
    try await run.test.run(harness)
    await harness.close()
  }
}
