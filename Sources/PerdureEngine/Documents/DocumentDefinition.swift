package import PerdureModel
package import PerdureValue

/// What the kernel must know of a kind of document: its protocol with stores and with itself.
package struct DocumentDefinition: Sendable {
  /// What documents of this kind belong to.
  package enum Scope: Sendable, Hashable {
    case session
    case conversation(DocumentHistory, DocumentFork)
    case task
  }

  /// An ordinary change, for the one who decides how it is stored.
  package struct Change: Sendable {
    /// The complete value after the change.
    package var value: JSON
    package var operations: [Operation]
    /// How many deltas follow the newest base already.
    package var deltasSinceBase: Int
  }

  package var kind: JSONString
  package var version: Int64
  package var scope: Scope
  /// Whether there are many documents of this kind in one scope, told apart by a key.
  package var isFamily: Bool
  /// The value of a new document, made of a seed at a time in milliseconds since 1970.
  package var initial: @Sendable (_ seed: JSON?, _ now: Int64) throws -> JSON
  /// Leads a value of an older version to this one.
  package var migrate: (@Sendable (_ value: JSON, _ from: Int64) throws -> JSON)?
  /// Whether this change is stored as a complete value rather than as operations.
  package var storesBase: @Sendable (Change) throws -> Bool

  /// Makes a definition.
  package init(
    kind: JSONString,
    version: Int64 = 1,
    scope: Scope,
    isFamily: Bool = false,
    initial: @escaping @Sendable (_ seed: JSON?, _ now: Int64) throws -> JSON,
    migrate: (@Sendable (_ value: JSON, _ from: Int64) throws -> JSON)? = nil,
    storesBase: @escaping @Sendable (Change) throws -> Bool
  ) {
    self.kind = kind
    self.version = version
    self.scope = scope
    self.isFamily = isFamily
    self.initial = initial
    self.migrate = migrate
    self.storesBase = storesBase
  }

  /// Where the document of a conversation is found.
  package func address(in conversation: ConversationID) -> DocumentAddress {
    DocumentAddress(kind: kind, scope: .conversation(conversation))
  }

  /// Where a document of this kind is found; throws `documentMismatch` if it cannot be there.
  package func address(in scope: DocumentScope, key: JSONString?) throws -> DocumentAddress {
    guard !kind.isEmpty, version >= 1, self.scope != .conversation(.latest, .asOf) else {
      throw PerdureError(
        .documentMismatch,
        "the definition of document '\(kind.string)' has an empty kind, a version below 1, or the"
          + " fork 'asOf' without the history 'rewindable'"
      )
    }
    switch (self.scope, scope) {
    case (.session, .session), (.conversation, .conversation), (.task, .task): break
    default:
      throw PerdureError(
        .documentMismatch,
        "document '\(kind.string)' does not belong to a \(scope.kind)"
      )
    }
    guard isFamily == (key != nil) else {
      throw PerdureError(
        .documentMismatch,
        "document '\(kind.string)' \(isFamily ? "is a family and needs a key" : "has no keys")"
      )
    }
    return DocumentAddress(kind: kind, scope: scope, key: key)
  }

  /// Throws `documentMismatch` unless the stored document has the history and fork of this kind.
  func check(_ record: DocumentRecord) throws {
    let (history, fork): (DocumentHistory?, DocumentFork?) =
      if case .conversation(let history, let fork) = scope { (history, fork) } else { (nil, nil) }
    guard record.history == history, record.fork == fork else {
      throw PerdureError(
        .documentMismatch,
        "document '\(kind.string)' (\(record.id)) was stored with another history or fork"
      )
    }
  }

  /// Returns a stored value as this version has it; nothing is written.
  func current(_ value: JSON, version stored: Int64) throws -> JSON {
    if stored == version { return value }
    guard stored < version else {
      throw PerdureError(
        .unsupportedFeature,
        "document '\(kind.string)' has version \(stored), this program knows \(version)",
        hint: "use the program that wrote the store"
      )
    }
    guard let migrate else {
      throw PerdureError(
        .documentMismatch,
        "document '\(kind.string)' has version \(stored), and version \(version) does not migrate",
        hint: "give its definition a migration"
      )
    }
    return try object(try migrate(value, stored), "a migration")
  }

  /// Returns the value of a new document.
  func first(_ seed: JSON?, _ now: Int64) throws -> JSON {
    try object(try initial(seed, now), "the initial value")
  }

  private func object(_ value: JSON, _ what: String) throws -> JSON {
    if value.object != nil { return value }
    throw PerdureError(
      .documentMismatch,
      "document '\(kind.string)': \(what) is no object"
    )
  }
}
