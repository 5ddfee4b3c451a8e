import PerdureEngine
import PerdureModel
import PerdureValue

/// The documents of the scenarios; all begin empty and never store a base.
struct ScenarioDocuments {
  private let definitions: [JSONString: DocumentDefinition]
  private let engine: Engine

  init(_ declarations: [JSON], engine: Engine) {
    self.engine = engine
    definitions = Dictionary(
      declarations.map(Self.definition).map { ($0.kind, $0) },
      uniquingKeysWith: { first, _ in first }
    )
  }

  private static func definition(_ declaration: JSON) -> DocumentDefinition {
    let scope: DocumentDefinition.Scope =
      declaration["scope"] == "session"
      ? .session
      : .conversation(
        DocumentHistory(rawValue: declaration["history"]?.text ?? "") ?? .latest,
        DocumentFork(rawValue: declaration["fork"]?.text ?? "") ?? .initial
      )
    return DocumentDefinition(
      kind: declaration["kind"]?.string ?? "",
      scope: scope,
      isFamily: declaration["family"] == true,
      initial: { _, _ in [:] },
      storesBase: { _ in false }
    )
  }

  private func definition(of item: JSON) throws -> DocumentDefinition {
    guard let kind = item["kind"]?.string, let definition = definitions[kind] else {
      throw PerdureError(.invalidInput, "nobody declares the document of \(item.compactText)")
    }
    return definition
  }

  private func scope(
    _ definition: DocumentDefinition,
    _ conversation: ConversationID
  ) -> DocumentScope {
    definition.scope == .session ? .session : .conversation(conversation)
  }

  /// One commit with an entry and the changes of documents.
  func edit(_ changes: [JSON], entry: JSON?, in conversation: ConversationID) async throws {
    try await engine.session.commit(conversation: conversation) { tx in
      try await tx.append(EntryDraft(kind: "interop.note", data: entry), to: conversation)
      for change in changes {
        let definition = try definition(of: change)
        let (scope, key) = (scope(definition, conversation), change["key"]?.string)
        if change["retire"] == true { try await tx.retire(definition, in: scope, key: key) }
        guard let members = change["set"]?.object else { continue }
        try await tx.edit(definition, in: scope, key: key) { draft in
          for (name, value) in members { try draft.assign([.key(name)], value) }
        }
      }
    }
  }

  /// An entry of `edit` that a conversation sees, counted from the oldest.
  func note(_ place: Int, in conversation: ConversationID) async throws -> EntryID {
    let entries = try await Page.all(order: .ascending) {
      try await engine.session.store.scanEntries(EntryQuery(conversationId: conversation), $0)
    }
    let notes = entries.filter { $0.kind == "interop.note" }
    guard notes.indices.contains(place) else {
      throw PerdureError(.invalidInput, "conversation \(conversation) has no note \(place)")
    }
    return notes[place].id
  }

  /// Compares values of documents, as they are or as they were behind an entry.
  func expect(_ items: [JSON], in conversation: ConversationID) async throws {
    for item in items {
      let definition = try definition(of: item)
      let key = item["key"]?.string
      let value: JSON?
      if let place = item["at"]?.int {
        let entry = try await note(Int(place), in: conversation)
        value = try await engine.session.snapshot(
          definition,
          in: conversation,
          asOf: entry,
          key: key
        )
      } else {
        value = try await engine.session.snapshot(
          definition,
          in: scope(definition, conversation),
          key: key
        )
      }
      guard value ?? .null == item["value"] else {
        throw PerdureError(
          .invalidInput,
          "\(value?.compactText ?? "nothing") instead of \(item.compactText)"
        )
      }
    }
  }
}
