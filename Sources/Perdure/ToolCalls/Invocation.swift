import PerdureEngine
import PerdureModel

/// One run of the code of a task or a tool, and what it may look at.
struct Invocation: Sendable {
  let runtime: TaskRuntime
  let scope: InvocationScope

  private func engine() throws -> Engine {
    try scope.check()
    guard let engine = runtime.engine else {
      throw PerdureError(.closed, "the host is closed")
    }
    return engine
  }

  func conversation(_ id: ConversationID) async throws -> BoundConversation? {
    let engine = try engine()
    guard try await engine.session.store.conversation(id) != nil else { return nil }
    return BoundConversation(id: id, engine: engine, scope: scope)
  }

  func value<Value>(
    _ document: Document<Value>,
    of place: DocumentScope,
    key: String?
  ) async throws -> Value? {
    try scope.check()
    let key = key.map { JSONString($0) }
    let json = try await runtime.snapshot(document.definition, in: place, key: key)
    return try json.map { try document.form.decode($0) }
  }

  func value<Value>(
    _ document: Document<Value>,
    asOf entry: EntryID,
    key: String?
  ) async throws -> Value? {
    try await Conversation(id: runtime.conversationId, engine: engine())
      .value(document, asOf: entry, key: key)
  }

  func changes<Value>(
    of document: Document<Value>,
    in place: DocumentScope,
    key: String?
  ) async throws -> Updates<Change>? {
    let engine = try engine()
    let address = try document.definition.address(in: place, key: key.map { JSONString($0) })
    guard let watch = try await engine.views.watch(document.definition, at: address) else {
      return nil
    }
    try scope.add { [weak watch] in watch?.end(.stopped) }
    return Updates(watch, of: engine)
  }

  func state<Value>(
    of document: Document<Value>,
    in place: DocumentScope,
    key: String?
  ) async throws -> DocumentState<Value>? {
    let engine = try engine()
    let address = try document.definition.address(in: place, key: key.map { JSONString($0) })
    guard let state = try await engine.views.state(document.definition, at: address) else {
      return nil
    }
    try scope.add { [weak state] in state?.dispose() }
    return DocumentState(base: state, form: document.form, engine: engine)
  }
}
