import PerdureModel
import PerdureStorage
import PerdureTestKit
import PerdureValue

/// A new SQLite store in a folder of its own.
func openStore(
  _ folder: TemporaryFolder,
  durability: Durability = .normal,
  readOnly: Bool = false
) async throws -> SQLiteStorage {
  try await SQLiteStorage.open(
    path: folder.file("store.sqlite"),
    durability: durability,
    readOnly: readOnly,
    busyMilliseconds: 10
  )
}

/// A connection beside the store, as another program would have it.
func connect(_ folder: TemporaryFolder) throws -> Connection {
  try Connection(path: folder.file("store.sqlite"))
}

/// An id that is in range.
func known<Record>(_ value: Int64) -> Identifier<Record> { .known(value) }

/// An entry of the root conversation.
func entry(_ id: Int64, _ data: JSON? = nil) -> StorageWrite {
  .entry(EntryRecord(id: known(id), conversationId: .root, kind: "test", data: data))
}

/// A task of the root conversation.
func task(_ id: Int64, kind: JSONString = "test", _ state: TaskState) -> StorageWrite {
  .task(
    TaskRecord(
      id: known(id),
      conversationId: .root,
      kind: kind,
      version: 1,
      input: .null,
      state: state
    )
  )
}

/// A document of the session.
func document(_ id: Int64, _ kind: JSONString = "doc") -> DocumentRecord {
  DocumentRecord(
    id: known(id),
    address: DocumentAddress(kind: kind, scope: .session),
    createdAt: 0
  )
}

/// The code of the error that `body` throws.
func code(of body: () async throws -> Void) async -> PerdureError.Code? {
  do {
    try await body()
    return nil
  } catch {
    return (error as? PerdureError)?.code
  }
}

/// The sentence of the error that `body` throws.
func sentence(of body: () async throws -> Void) async -> String {
  do {
    try await body()
    return "no error"
  } catch {
    return "\(error)"
  }
}
