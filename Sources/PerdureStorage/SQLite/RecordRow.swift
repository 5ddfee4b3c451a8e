import PerdureModel
import PerdureValue

/// The row in which a record stands, as far as its columns repeat the record.
struct RecordRow {
  let table: String
  /// The columns besides the id, in the order of the table.
  let columns: [(name: String, value: SQLValue)]
  let id: Int64

  /// Makes the row of a record; `nil` for a part that is none.
  init?(_ part: StorePart) {
    table = StoreRows.table(part.section)
    id = part.place.id
    switch part {
    case .conversation(let record):
      columns = [
        ("owner_conversation_id", .optional(record.owner?.conversationId.value)),
        ("owner_task_id", .optional(record.owner?.taskId.value)),
      ]
    case .entry(let found):
      columns = [
        ("conversation_id", .int(found.entry.conversationId.value)),
        ("head", .optional(found.entry.head?.value)),
        ("commit_seq", .int(found.commitSequence)),
      ]
    case .task(let record):
      columns = [
        ("conversation_id", .int(record.conversationId.value)),
        ("kind", .string(record.kind.asciiLiteral)),
        ("status", .string(record.state.status.rawValue)),
        ("abort_requested", .int(record.abortRequested ? 1 : 0)),
        ("background", .int(record.background ? 1 : 0)),
      ]
    case .submission(let record):
      columns = [
        ("conversation_id", .int(record.conversationId.value)),
        ("request_id", record.requestId.map { .string($0.asciiLiteral) } ?? .null),
        ("status", .string(record.status.rawValue)),
      ]
    case .document(let record):
      columns = Self.columns(of: record)
    case .revision, .extra: return nil
    }
  }

  private static func columns(of record: DocumentRecord) -> [(name: String, value: SQLValue)] {
    let address = record.address
    return [
      ("kind", .string(address.kind.asciiLiteral)),
      ("family", .int(address.key == nil ? 0 : 1)),
      ("key_value", .string((address.key ?? "").asciiLiteral)),
      ("scope_kind", .string(address.scope.kind)),
      ("owner_id", .int(address.scope.ownerId)),
      ("created_at", .int(record.createdAt)),
      ("retired_at", .optional(record.retiredAt)),
    ]
  }

  /// The columns of each table of records, for reading them.
  static func columnNames(_ section: StoreSection) -> [String] {
    switch section {
    case .conversation: ["owner_conversation_id", "owner_task_id"]
    case .entry: ["conversation_id", "head", "commit_seq"]
    case .task: ["conversation_id", "kind", "status", "abort_requested", "background"]
    case .submission: ["conversation_id", "request_id", "status"]
    case .document:
      [
        "kind", "family", "key_value", "scope_kind", "owner_id", "created_at", "retired_at",
      ]
    case .revision: ["kind", "version", "content"]
    case .extra: ["value"]
    }
  }
}
