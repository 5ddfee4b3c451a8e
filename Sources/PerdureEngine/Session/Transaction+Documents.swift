package import PerdureModel
package import PerdureValue

/// An incarnation of a document that a commit has to do with.
struct OpenDocument {
  /// What a fork copies.
  struct Copy {
    var record: DocumentRecord
    var source: CopySource
    var stored: StoredDocument
  }

  let address: DocumentAddress
  /// Absent while nobody opened it: it is only copied, or only retired.
  var definition: DocumentDefinition?
  /// What was there before; absent for a document that this commit creates.
  var base: DocumentCache.Revision?
  /// Present for a copy, also when it was opened and is therefore stored as a plain creation.
  var copy: Copy?
  var draft: DocumentDraft
  var isRetired = false
}

/// The documents of a commit.
extension Transaction {
  /// Returns the value of a document of a conversation as this commit sees it, or its initial
  /// value.
  ///
  /// Never creates it.
  package func value(
    _ definition: DocumentDefinition,
    _ conversation: ConversationID
  ) async throws -> JSON {
    try await value(definition, in: .conversation(conversation)) ?? definition.first(nil, now)
  }

  /// Returns the value of a document as this commit sees it, or `nil` if there is none.
  ///
  /// Never creates it.
  package func value(
    _ definition: DocumentDefinition,
    in scope: DocumentScope,
    key: JSONString? = nil
  ) async throws -> JSON? {
    try check()
    let address = try definition.address(in: scope, key: key)
    guard let place = places[address] else {
      return try definition.value(of: try await committed(at: address))
    }
    let open = opened[place]
    if open.isRetired { return nil }
    if open.definition == nil, let copy = open.copy {
      return try definition.value(of: DocumentCache.Revision(copy.stored))
    }
    return open.draft.value
  }

  /// Opens a document of a conversation, creating it if there is none, and lets `body` change it.
  package func edit<Result>(
    _ definition: DocumentDefinition,
    _ conversation: ConversationID,
    _ body: (inout DocumentDraft) throws -> Result
  ) async throws -> Result {
    try await edit(definition, in: .conversation(conversation), body)
  }

  /// Opens a document, creating it if there is none, and lets `body` change it.
  ///
  /// The first opening of an absent document decides with its `seed` what it begins with; seeds
  /// are ignored for a document that exists. Opening one of an older version migrates it.
  package func edit<Result>(
    _ definition: DocumentDefinition,
    in scope: DocumentScope,
    key: JSONString? = nil,
    seed: JSON? = nil,
    _ body: (inout DocumentDraft) throws -> Result
  ) async throws -> Result {
    try check()
    let address = try definition.address(in: scope, key: key)
    try await requireLiveTask(scope)
    let place: Int
    if let known = places[address], !opened[known].isRetired {
      try reopen(known, definition)
      place = known
    } else {
      place = try await open(definition, address, seed)
    }
    return try body(&opened[place].draft)
  }

  /// Retires a document, with what this commit changed in it; without one nothing happens.
  ///
  /// Opening it afterwards, also in this commit, creates a new one.
  package func retire(
    _ definition: DocumentDefinition,
    in scope: DocumentScope,
    key: JSONString? = nil
  ) async throws {
    try check()
    let address = try definition.address(in: scope, key: key)
    try await requireLiveTask(scope)
    if let place = places[address] {
      opened[place].isRetired = true
      return
    }
    guard let base = try await committed(at: address) else { return }
    try definition.check(base.record)
    add(
      OpenDocument(
        address: address,
        base: base,
        draft: DocumentDraft(base: base.value),
        isRetired: true
      )
    )
  }

  private func add(_ document: OpenDocument) {
    places[document.address] = opened.count
    opened.append(document)
  }

  /// The newest revision from before this commit.
  private func committed(at address: DocumentAddress) async throws -> DocumentCache.Revision? {
    switch address.scope {
    case .conversation(let id) where newConversations[id] != nil: nil
    case .task(let id) where newTasks.contains(id): nil
    default: try await session.revision(at: address)
    }
  }

  private func open(
    _ definition: DocumentDefinition,
    _ address: DocumentAddress,
    _ seed: JSON?
  ) async throws -> Int {
    // What was there before is retired in this commit if the address has a place.
    let base = places[address] == nil ? try await committed(at: address) : nil
    let value: JSON
    if let existing = try definition.value(of: base) {
      value = existing
    } else {
      if case .conversation(let id) = address.scope { try await requireConversation(id) }
      value = try definition.first(seed, now)
    }
    add(
      OpenDocument(
        address: address,
        definition: definition,
        base: base,
        draft: DocumentDraft(base: value)
      )
    )
    return opened.count - 1
  }

  /// Checks that a further opening means the same, and turns a mere copy into a creation.
  private func reopen(_ place: Int, _ definition: DocumentDefinition) throws {
    if let first = opened[place].definition {
      guard first.version == definition.version, first.scope == definition.scope else {
        throw PerdureError(
          .documentMismatch,
          "document '\(definition.kind.string)' is open in this transaction with another definition"
        )
      }
      return
    }
    guard let copy = opened[place].copy,
      let value = try definition.value(of: DocumentCache.Revision(copy.stored))
    else { return }
    opened[place].definition = definition
    opened[place].draft = DocumentDraft(base: value)
  }

  private func requireLiveTask(_ scope: DocumentScope) async throws {
    guard case .task(let id) = scope else { return }
    guard let record = try await candidate(id) else {
      throw PerdureError(.notFound, "task \(id) does not exist")
    }
    guard record.isLive else {
      throw PerdureError(.invalidBatch, "task \(id) has ended and has no documents any more")
    }
  }

  /// Returns the task that is to own something new, as this commit has it, or `nil`.
  package func ownerCandidate(_ id: TaskID) async throws -> TaskRecord? {
    try check()
    return try await candidate(id)
  }

  /// Returns the task as this commit has it, or `nil`.
  func candidate(_ id: TaskID) async throws -> TaskRecord? {
    if let staged = tasks[id] { return staged }
    return try await session.task(id)
  }
}
