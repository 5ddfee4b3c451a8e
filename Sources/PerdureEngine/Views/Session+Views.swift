import PerdureModel
import PerdureValue

/// How views begin: read on the line, while everything that was staged is on disk.
extension Session {
  /// Reads the view of a conversation, or `nil` if there is none.
  func conversationFold(
    _ id: ConversationID,
    mounting: [DocumentDefinition] = []
  ) async throws -> ConversationFold? {
    guard let record = try await store.conversation(id) else { return nil }
    try await mark(of: id).requireRecord(of: id)
    let head = try await store.latestHeadMarker(id, atOrBefore: nil)
    let query = EntryQuery(conversationId: id, minEntry: head?.head)
    let entries = try await Page.all(order: .ascending) {
      try await self.store.scanEntries(query, $0)
    }
    var documents: [StoredDocument] = []
    for definition in ConversationFold.definitions + mounting {
      if definition.isFamily {
        documents += try await members(definition, in: .conversation(id))
      } else if let document = try await storedDocument(
        definition,
        at: definition.address(in: .conversation(id), key: nil)
      ) {
        documents.append(document)
      }
    }
    return ConversationFold(
      record,
      head: head,
      entries: entries,
      documents: documents,
      mounting: mounting
    )
  }

  /// Reads what a conversation does, or `nil` if there is none.
  func agentEventFold(_ id: ConversationID) async throws -> AgentEventFold? {
    guard let view = try await conversationFold(id)?.value else { return nil }
    var documents: [StoredDocument] = []
    for definition in AgentEventFold.definitions {
      let address = try definition.address(in: .conversation(id), key: nil)
      if let document = try await storedDocument(definition, at: address) {
        documents.append(document)
      }
    }
    let decided = liveTasks.values.filter { task in
      task.conversationId == id && task.kind == GenerationTask.name
        && task.state.status == .completing
    }
    return AgentEventFold(view, documents: documents, decided: Set(decided.map { $0.id }))
  }

  /// Reads the living members of a family, as its definition sees them, in the order of their
  /// creation.
  ///
  /// Called on the line.
  func members(
    _ definition: DocumentDefinition,
    in scope: DocumentScope
  ) async throws -> [StoredDocument] {
    // The empty key stands for any: a definition that has no keys or another scope is refused.
    _ = try definition.address(in: scope, key: "")
    let query = DocumentQuery(scope: scope, kind: definition.kind)
    let records = try await Page.all { try await self.store.scanDocuments(query, $0) }
    var members: [StoredDocument] = []
    for record in records where record.address.key != nil {
      if let member = try await storedDocument(definition, at: record.address) {
        members.append(member)
      }
    }
    return members
  }

  /// Reads the document that lives at an address, as its definition sees it, or `nil`.
  func storedDocument(
    _ definition: DocumentDefinition,
    at address: DocumentAddress
  ) async throws -> StoredDocument? {
    guard let revision = try await revision(at: address),
      let value = try definition.value(of: revision)
    else { return nil }
    return StoredDocument(
      record: revision.record,
      version: definition.version,
      value: value,
      deltasSinceBase: revision.deltasSinceBase
    )
  }

  /// Reads the graph of live tasks.
  func taskGraphFold(blocked: [TaskID: String]) async throws -> TaskGraphFold {
    var conversations: [TaskID: [ConversationID]] = [:]
    var tasks: [TaskRecord] = []
    for status in TaskState.Status.allCases where status != .terminal {
      tasks += try await Page.all { try await self.store.scanTasks(.init(status: status), $0) }
    }
    for task in tasks {
      let query = ConversationQuery(ownerTaskId: task.id)
      let owned = try await Page.all { try await self.store.scanConversations(query, $0) }
      conversations[task.id] = owned.map { $0.id }
    }
    return TaskGraphFold(tasks, conversations: conversations, blocked: blocked)
  }
}
