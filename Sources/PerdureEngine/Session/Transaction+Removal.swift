package import PerdureModel
import PerdureValue

/// What a commit takes away.
struct TransactionRemovals {
  var references: [RecordReference] = []
  /// The documents among them, as they were.
  var documents: [DocumentRecord] = []
  /// The conversations that were deleted, whether or not their records are kept.
  var conversations: [ConversationID] = []
}

extension Transaction {
  /// Takes a record away; that nothing refers to it is the caller's business.
  package func remove(_ reference: RecordReference) throws {
    try check()
    hasWrittenTable = true
    facts.types[reference.id] = reference.type
    removals.references.append(reference)
    for scope in Self.factScopes(of: reference.type) {
      try put(extra: ExtraWrite(scope: scope, id: reference.id, value: nil))
    }
  }

  /// Takes a document of any time away.
  func remove(_ record: DocumentRecord) throws {
    try remove(RecordReference(record.id))
    facts.documents[record.id] = DocumentHead(record: record, version: nil)
    removals.documents.append(record)
  }

  /// Decides something about a conversation as a whole.
  func setMark(_ mark: ConversationMark, of id: ConversationID) throws {
    try put(extra: ExtraWrite(scope: ConversationMark.scope, id: id.value, value: mark.fact))
    marks[id] = mark
  }

  /// The facts that go with a record.
  private static func factScopes(of type: RecordType) -> [String] {
    switch type {
    case .entry: ["entry"]
    case .submission: ["submission", "failure"]
    case .conversation: [ConversationMark.scope]
    case .task, .document: []
    }
  }
}
