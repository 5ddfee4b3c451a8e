import PerdureEngine
public import PerdureModel
public import PerdureValue

/// What documents of a kind belong to.
public enum DocumentPlace: Sendable { case session, conversation, task }

/// An ordinary change of a document, for the one who decides how it is stored.
public struct DocumentChange: Sendable {
  /// The complete value after the change.
  public let value: JSON
  /// What leads to it from the value before.
  public let operations: [Operation]
  /// How many changes follow the newest complete value already.
  public let deltasSinceBase: Int

  /// Whether storing the complete value pays: after 100 changes, of a document larger than 100 KB
  /// once there is a change for each kilobyte.
  ///
  /// So what complete values cost stays in proportion to the changes, however large the document
  /// is, and reading the changes in proportion to reading the value.
  public var repaysCheckpoint: Bool {
    // The size of a large value is looked at now and then only.
    guard deltasSinceBase > 0, deltasSinceBase.isMultiple(of: 100) else { return false }
    return value.roughSize <= deltasSinceBase << 10
  }
}

/// A kind of document: durable state of an application beside the transcript.
///
///     struct Notes: Codable { var lines: [String] = [] }
///     let notes = Document("app.notes", scope: .conversation) { _ in Notes() }
///
///     try await conversation.commit { tx in
///       try await tx.update(notes, of: .conversation(conversation.id)) { $0.lines.append("hi") }
///     }
///
/// It is a token: nothing registers it. The kind is part of the store; whoever changes it has
/// another document. A document belongs to the store (`session`), to a conversation or to a task,
/// and ends with its task. There is one of a kind at each place, or with `keyed` one for each key.
public struct Document<Value: Codable & Sendable>: Sendable {
  let definition: DocumentDefinition

  /// Makes a kind of document.
  ///
  /// `history` and `fork` only count for documents of conversations: which revisions are kept, and
  /// what a fork begins with; `asOf` needs the history `rewindable`. `initial` makes the first
  /// value, of the seed that the first access gave. `migrate` leads the JSON form of an older
  /// version to this one; without it older documents are refused. `checkpointWhen` says which
  /// changes are stored as a complete value; a document is read from the newest one on.
  public init(
    _ kind: String,
    scope: DocumentPlace,
    history: DocumentHistory = .latest,
    fork: DocumentFork = .initial,
    version: Int = 1,
    keyed: Bool = false,
    migrate: (@Sendable (_ value: JSON, _ from: Int) throws -> JSON)? = nil,
    checkpointWhen: @escaping @Sendable (DocumentChange) throws -> Bool = { $0.repaysCheckpoint },
    initial: @escaping @Sendable (_ seed: JSON?) throws -> Value
  ) {
    let place: DocumentDefinition.Scope =
      switch scope {
      case .session: .session
      case .conversation: .conversation(history, fork)
      case .task: .task
      }
    var migration: (@Sendable (JSON, Int64) throws -> JSON)?
    if let migrate { migration = { try migrate($0, Int($1)) } }
    definition = DocumentDefinition(
      kind: JSONString(kind),
      version: Int64(version),
      scope: place,
      isFamily: keyed,
      initial: { seed, _ in try DocumentForm<Value>(kind).encode(try initial(seed)) },
      migrate: migration,
      storesBase: { change in
        try checkpointWhen(
          DocumentChange(
            value: change.value,
            operations: change.operations,
            deltasSinceBase: change.deltasSinceBase
          )
        )
      }
    )
  }

  var form: DocumentForm<Value> { DocumentForm(definition.kind.string) }
}

/// The way between a typed value and its JSON form.
struct DocumentForm<Value: Codable> {
  let kind: String

  init(_ kind: String) { self.kind = kind }

  func encode(_ value: Value) throws -> JSON {
    do {
      return try JSON(encoding: value)
    } catch {
      throw mismatch("cannot be encoded", error)
    }
  }

  func decode(_ json: JSON) throws -> Value {
    do {
      return try json.decoded(as: Value.self)
    } catch {
      throw mismatch("does not have the form of \(Value.self)", error)
    }
  }

  private func mismatch(_ problem: String, _ cause: any Error) -> PerdureError {
    PerdureError(.documentMismatch, "document '\(kind)' \(problem)", cause: "\(cause)")
  }
}
