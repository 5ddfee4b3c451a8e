import PerdureEngine
public import PerdureModel
public import PerdureValue

/// One revision of a document that is observed.
public struct DocumentRevision<Value: Sendable>: Sendable {
  /// The value; `nil` once the document is retired.
  public let value: Value?
  /// 0 for the value with which the observation began, then the numbers of the commits, which
  /// grow.
  public let sequence: Int64
}

/// One incarnation of a document, as it is on disk.
///
/// It follows the document until that is retired or the store ends, and then keeps what it has; a
/// document that takes the place of a retired one has a state of its own.
public struct DocumentState<Value: Codable & Sendable>: Sendable {
  let base: PerdureEngine.DocumentState
  let form: DocumentForm<Value>
  let engine: Engine

  /// The value; `nil` once the document is retired.
  ///
  /// Throws `documentMismatch` if it does not have the form of its type.
  public var value: Value? {
    get throws { try base.value.map { try form.decode($0) } }
  }

  /// The value as it is, and then the newest one whenever it has changed.
  public func values() -> Updates<DocumentRevision<Value>> {
    let latest = base.latest()
    let form = form
    let isFirst = Mailbox<Bool>()
    isFirst.change { $0 = [true] }
    isFirst.end(.stopped)
    return Updates(
      next: { () async throws(PerdureError) in
        guard let (fold, sequence) = await latest.nextRevision() else {
          if let error = latest.ending?.error { throw error }
          return nil
        }
        let isHydration = await isFirst.next() != nil
        return try form.revision(fold.value, at: isHydration ? 0 : sequence)
      },
      observer: latest,
      report: engine.session.report
    )
  }

  /// The value as it is, and then every revision.
  ///
  /// A reader who falls more than 100 revisions behind gets the newest one for all of them.
  public func revisions() -> Updates<DocumentRevision<Value>> {
    let form = form
    let watch = base.frames()
    let start = watch.initialSequence
    return Updates(watch, of: engine) { (change) throws(PerdureError) in
      let value = change.value.isNull ? nil : change.value
      return try form.revision(value, at: change.sequence == start ? 0 : change.sequence)
    }
  }

  /// Ends it and those who follow it; the last value stays, and further calls do nothing.
  public func dispose() { base.dispose() }

  /// Why it changes no more, or `nil` as long as it may.
  public var ending: UpdatesEnd? { base.ending.map { UpdatesEnd($0) } }
}

extension DocumentForm where Value: Sendable {
  fileprivate func revision(
    _ json: JSON?,
    at sequence: Int64
  ) throws(PerdureError) -> DocumentRevision<Value> {
    DocumentRevision(value: try json.map(decoded), sequence: sequence)
  }

  /// Decodes as `decode` does, for those who throw nothing else.
  func decoded(_ json: JSON) throws(PerdureError) -> Value {
    do {
      return try decode(json)
    } catch let error as PerdureError {
      throw error
    } catch {
      throw PerdureError(.documentMismatch, "document '\(kind)' cannot be read", cause: "\(error)")
    }
  }
}

/// A member of a family of documents.
public struct DocumentMember<Value: Sendable>: Sendable {
  public let key: JSONString
  public let value: Value
}

/// A kind of document without its type, for views that show several kinds together.
public struct DocumentToken: Sendable {
  let definition: DocumentDefinition
}

extension Document {
  /// The kind without its type.
  public var token: DocumentToken { DocumentToken(definition: definition) }

  fileprivate func members(_ values: JSONObject) throws(PerdureError) -> [DocumentMember<Value>] {
    var members: [DocumentMember<Value>] = []
    for (key, json) in values {
      members.append(DocumentMember(key: key, value: try form.decoded(json)))
    }
    return members
  }
}

extension ConversationView {
  /// Returns a document that the view shows, or `nil`.
  public func value<Value>(_ document: Document<Value>, key: String? = nil) throws -> Value? {
    let shown = documents[document.definition.kind]
    let json = key.map { shown?[JSONString($0)] } ?? shown
    return try json.map { try document.form.decode($0) }
  }
}

extension Harness {
  /// Returns the state of a document, or `nil` if there is none; never creates it.
  public func state<Value>(
    of document: Document<Value>,
    in scope: DocumentScope = .session,
    key: String? = nil
  ) async throws -> DocumentState<Value>? {
    let definition = document.definition
    let address = try definition.address(in: scope, key: key.map { JSONString($0) })
    return try await engine.views.state(definition, at: address).map {
      DocumentState(base: $0, form: document.form, engine: engine)
    }
  }

  /// The value of a document as it is, and then the newest one whenever it has changed, or `nil` if
  /// there is none.
  public func values<Value>(
    of document: Document<Value>,
    in scope: DocumentScope = .session,
    key: String? = nil
  ) async throws -> Updates<DocumentRevision<Value>>? {
    try await state(of: document, in: scope, key: key)?.values()
  }

  /// A document as it is, and then every change of it, or `nil` if there is none.
  ///
  /// The last change of a document that is retired replaces it by null.
  public func changes<Value>(
    of document: Document<Value>,
    in scope: DocumentScope = .session,
    key: String? = nil
  ) async throws -> Updates<Change>? {
    let definition = document.definition
    let address = try definition.address(in: scope, key: key.map { JSONString($0) })
    return try await engine.views.watch(definition, at: address).map { Updates($0, of: engine) }
  }

  /// Returns the living members of a family, in the order in which they were created.
  public func members<Value>(
    of family: Document<Value>,
    in scope: DocumentScope = .session
  ) async throws -> [DocumentMember<Value>] {
    let watch = try await engine.views.watchMembers(family.definition, in: scope)
    return try family.members(watch.initial.value)
  }

  /// The living members of a family as they are, and then the newest whenever one has changed, was
  /// created or is gone.
  public func memberUpdates<Value>(
    of family: Document<Value>,
    in scope: DocumentScope = .session
  ) async throws -> Updates<[DocumentMember<Value>]> {
    let latest = try await engine.views.latestMembers(family.definition, in: scope)
    return Updates(latest, of: engine) { (values) throws(PerdureError) in
      try family.members(values)
    }
  }

  /// The living members of a family as one object by key, and then every change of it.
  public func memberChanges<Value>(
    of family: Document<Value>,
    in scope: DocumentScope = .session
  ) async throws -> Updates<Change> {
    Updates(try await engine.views.watchMembers(family.definition, in: scope), of: engine)
  }
}
