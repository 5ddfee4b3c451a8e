import PerdureModel
import PerdureValue

/// How views begin: read on the line, while everything that was staged is on disk.
extension Session {
  /// Reads the view of a conversation, or `nil` if there is none.
  func conversationFold(_ id: ConversationID) async throws -> ConversationFold? {
    guard let record = try await store.conversation(id) else { return nil }
    let head = try await store.latestHeadMarker(id, atOrBefore: nil)
    let query = EntryQuery(conversationId: id, minEntry: head?.head)
    let entries = try await Page.all(order: .ascending) {
      try await self.store.scanEntries(query, $0)
    }
    var documents: [StoredDocument] = []
    for definition in ConversationFold.definitions {
      let address = definition.address(in: id)
      if let document = try await storedDocument(definition, at: address) {
        documents.append(document)
      }
    }
    return ConversationFold(record, head: head, entries: entries, documents: documents)
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
