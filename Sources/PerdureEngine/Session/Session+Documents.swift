package import PerdureModel
package import PerdureValue

/// Reads of documents: as staged inside the engine, as flushed for everybody else.
extension Session {
  /// How many addresses of documents are in memory.
  package var cachedDocumentCount: Int { documents.count }

  /// Returns the newest staged revision at an address as it is stored, or `nil` if there is none.
  ///
  /// Called on the line.
  func revision(at address: DocumentAddress) async throws -> DocumentCache.Revision? {
    if let entry = documents.entry(address) { return entry.newest }
    let loaded = try await load(address)
    documents.load(address, loaded)
    retention.arm()
    return documents.entry(address).map { $0.newest } ?? loaded
  }

  private func load(_ address: DocumentAddress) async throws -> DocumentCache.Revision? {
    guard let record = try await store.findDocument(address, at: nil),
      let stored = try await store.document(record.id, at: nil)
    else { return nil }
    return DocumentCache.Revision(stored)
  }

  /// Returns the newest staged value of a document of a conversation, or its initial value.
  ///
  /// Called on the line.
  func value(
    _ definition: DocumentDefinition,
    _ conversation: ConversationID
  ) async throws -> JSON {
    let address = definition.address(in: conversation)
    return try definition.value(of: try await revision(at: address))
      ?? definition.first(nil, clock.now())
  }

  /// Returns the flushed value of a document of a conversation, or its initial value.
  package func snapshot(
    _ definition: DocumentDefinition,
    _ conversation: ConversationID
  ) async throws -> JSON {
    try await snapshot(definition, in: .conversation(conversation))
      ?? definition.first(nil, clock.now())
  }

  /// Returns the flushed value of a document, or `nil` if there is none; never creates it.
  package func snapshot(
    _ definition: DocumentDefinition,
    in scope: DocumentScope,
    key: JSONString? = nil
  ) async throws -> JSON? {
    try admit()
    let address = try definition.address(in: scope, key: key)
    if let entry = documents.entry(address) { return try definition.value(of: entry.flushed) }
    let loaded = try await line.hold {
      if let entry = documents.entry(address) { return entry.flushed }
      // What is not cached is not staged either, so this is what lies on disk.
      return try await revision(at: address)
    }
    return try definition.value(of: loaded)
  }

  /// Returns the value that a document had at the end of the commit that wrote an entry.
  ///
  /// The document is that of the conversation to which the entry was appended, which may be one
  /// from which `conversation` was forked. `nil` if it did not live then. Throws `notFound` if the
  /// conversation does not see the entry, and `documentMismatch` for a document without history.
  package func snapshot(
    _ definition: DocumentDefinition,
    in conversation: ConversationID,
    asOf entry: EntryID,
    key: JSONString? = nil
  ) async throws -> JSON? {
    guard case .conversation(.rewindable, _) = definition.scope else {
      throw PerdureError(
        .documentMismatch,
        "document '\(definition.kind.string)' keeps no history",
        hint: "only documents of conversations with the history 'rewindable' do"
      )
    }
    try admit()
    let stored = try await line.hold { () async throws -> StoredDocument? in
      let lookup = try await visibleEntry(entry, in: conversation)
      try await store.flush(through: lookup.commitSequence)
      let address = try definition.address(
        in: .conversation(lookup.entry.conversationId),
        key: key
      )
      guard let record = try await store.findDocument(address, at: lookup.commitSequence) else {
        return nil
      }
      return try await store.document(record.id, at: lookup.commitSequence)
    }
    return try definition.value(of: stored.map { DocumentCache.Revision($0) })
  }

  /// Returns an entry that the conversation sees, or throws `notFound`.
  func visibleEntry(_ id: EntryID, in conversation: ConversationID) async throws -> EntryLookup {
    try await requireConversation(conversation)
    guard let lookup = try await store.entry(id, visibleIn: conversation) else {
      throw PerdureError(.notFound, "conversation \(conversation) does not see the entry \(id)")
    }
    return lookup
  }
}

extension DocumentCache.Revision {
  init(_ stored: StoredDocument) {
    self.init(
      record: stored.record,
      version: stored.version,
      value: stored.value,
      deltasSinceBase: stored.deltasSinceBase
    )
  }
}

extension DocumentDefinition {
  /// Returns the value of a stored revision as this version has it, or `nil` without a revision.
  func value(of revision: DocumentCache.Revision?) throws -> JSON? {
    guard let revision else { return nil }
    try check(revision.record)
    return try current(revision.value, version: revision.version)
  }
}
