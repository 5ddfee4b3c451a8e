import Foundation
import PerdureEngine
import PerdureModel
import PerdureStorage
import PerdureTestKit
import PerdureValue
import Testing

/// The storages over which a claim about sessions must hold.
enum StoreKind: String, CaseIterable, Sendable { case memory, sqlite, jsonl }

/// A session with a root conversation over either storage, which can be opened again.
final class StoreBench {
  let kind: StoreKind
  let clock = ManualClock()
  private(set) var storage: RecordingStorage
  private(set) var session: Session
  private var memory: MemoryStorage
  private let folder: URL

  init(_ kind: StoreKind) async throws {
    self.kind = kind
    folder = URL(filePath: "/tmp/perdure-sessions-\(UUID().uuidString)")
    if kind != .memory {
      try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
    }
    memory = MemoryStorage()
    storage = RecordingStorage(try await Self.open(kind, memory, folder))
    session = try await Session.open(
      storage,
      clock: clock,
      onCreation: Engine.builtInDocuments
    )
    try await session.commit { _ = try await $0.createConversation(root: true) }
  }

  deinit { try? FileManager.default.removeItem(at: folder) }

  private static func open(
    _ kind: StoreKind,
    _ memory: MemoryStorage,
    _ folder: URL
  ) async throws -> any Storage {
    switch kind {
    case .memory: memory
    case .sqlite:
      try await SQLiteStorage.open(
        path: folder.appending(path: "store.sqlite").path,
        durability: .normal
      )
    case .jsonl:
      try await JSONLStorage.open(
        path: folder.appending(path: "store").path,
        durability: .normal
      )
    }
  }

  /// Closes the session and goes on with a new one over what is on disk.
  func reopen() async throws {
    try await session.close()
    memory = MemoryStorage(continuing: memory)
    storage = RecordingStorage(try await Self.open(kind, memory, folder))
    session = try await Session.open(
      storage,
      clock: clock,
      onCreation: Engine.builtInDocuments
    )
  }

  /// Checks that the store keeps every invariant, and closes it.
  func end() async throws {
    try await session.barrier()
    #expect(try await StoreInvariants.violations(of: storage) == [])
    try await session.close()
  }

  /// The writes of the last batch that is on disk.
  var lastWrites: [StorageWrite] { storage.batches.last?.writes ?? [] }

  /// The error with which a commit fails.
  func error(_ body: (Transaction) async throws -> Void) async -> PerdureError? {
    do {
      try await session.commit(body)
      return nil
    } catch {
      return error as? PerdureError
    }
  }

  /// A new task of the root conversation, or one that a task owns.
  func task() async throws -> TaskRecord {
    try await session.commit { tx in
      try await tx.createTask(TransactionTests.definition, input: [:], conversation: .root)
    }
  }

  func end(_ task: TaskRecord) async throws {
    try await session.commit { tx in
      var ended = task
      ended.state = TransactionTests.ended
      try await tx.replace(ended)
    }
  }

  /// A new entry.
  @discardableResult
  func append(
    _ data: JSON = .null,
    to conversation: ConversationID = .root
  ) async throws
    -> EntryID
  {
    try await session.commit { tx in
      try await tx.append(EntryDraft(kind: "test", data: data), to: conversation).id
    }
  }
}

extension DocumentDefinition {
  /// A document of tests that begins with its seed, or empty.
  static func test(
    _ scope: Scope = .conversation(.latest, .initial),
    kind: JSONString = "test.document",
    version: Int64 = 1,
    isFamily: Bool = false,
    migrate: (@Sendable (JSON, Int64) throws -> JSON)? = nil,
    storesBase: @escaping @Sendable (Change) throws -> Bool = { _ in false }
  ) -> DocumentDefinition {
    DocumentDefinition(
      kind: kind,
      version: version,
      scope: scope,
      isFamily: isFamily,
      initial: { seed, _ in seed ?? [:] },
      migrate: migrate,
      storesBase: storesBase
    )
  }
}
