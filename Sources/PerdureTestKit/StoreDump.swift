import PerdureEngine
package import PerdureModel
package import PerdureValue

/// Everything that a store holds, as JSON.
package struct StoreDump {
  private let storage: any Storage

  /// Looks at this store.
  package init(_ storage: any Storage) { self.storage = storage }

  /// The records, the documents with their histories, and what each conversation sees.
  package func json() async throws -> JSONObject {
    let counters = try await storage.counters()
    let conversations = try await Page.all { try await storage.scanConversations(.init(), $0) }
    let tasks = try await Page.all { try await storage.scanTasks(.init(), $0) }
    let submissions = try await Page.all { try await storage.scanSubmissions(.init(), $0) }
    var transcripts = JSONObject()
    var scopes: [DocumentScope] = [.session]
    for conversation in conversations {
      transcripts[JSONString("\(conversation.id)")] = try await transcript(conversation.id)
      scopes.append(.conversation(conversation.id))
    }
    scopes += tasks.map { .task($0.id) }
    var documents: [JSON] = []
    for scope in scopes { documents += try await self.documents(scope, counters) }
    return [
      "counters": [
        "nextSequence": .int(counters.nextSequence), "nextId": .int(counters.nextId),
      ],
      "conversations": .array(conversations.map { $0.json }),
      "transcripts": .object(transcripts),
      "tasks": .array(tasks.map { $0.json }),
      "submissions": .array(try await submissions.mapAsync { try await lookedUp($0) }),
      "documents": .array(documents),
    ]
  }

  /// What a conversation sees: its entries with their commits, its head marker and its context.
  private func transcript(_ id: ConversationID) async throws -> JSON {
    let entries = try await Page.all(order: .ascending) {
      try await storage.scanEntries(EntryQuery(conversationId: id), $0)
    }
    let rows = try await entries.mapAsync { entry -> JSON in
      let lookup = try await storage.entry(entry.id, visibleIn: id)
      guard let sequence = lookup?.commitSequence else { return ["entry": entry.json] }
      return [
        "entry": entry.json, "commitSequence": .int(sequence),
        "documents": try await past(of: entry.conversationId, at: sequence),
      ]
    }
    let marker = try await storage.latestHeadMarker(id, atOrBefore: nil)
    return [
      "entries": .array(rows), "head": marker?.id.json ?? .null,
      "messages": .array(ContextView(of: entries).messages),
    ]
  }

  /// The documents with history of a conversation as they were after a commit, retired ones too.
  private func past(of conversation: ConversationID, at sequence: Int64) async throws -> JSON {
    let query = DocumentQuery(scope: .conversation(conversation), at: sequence)
    let records = try await Page.all { try await storage.scanDocuments(query, $0) }
    let rows = try await records.filter { !$0.isCurrentOnly }.mapAsync { record -> JSON in
      let found = try await storage.findDocument(record.address, at: sequence)
      let stored = try await storage.document(record.id, at: sequence)
      return [
        "id": found?.id.json ?? .null, "version": stored.map { .int($0.version) } ?? .null,
        "value": stored?.value ?? .null,
      ]
    }
    return .array(rows)
  }

  /// The record as a search by its request id finds it, which is the record itself.
  private func lookedUp(_ record: SubmissionRecord) async throws -> JSON {
    guard let requestId = record.requestId else { return record.json }
    return try await storage.submission(requestId: requestId, in: record.conversationId)?.json
      ?? .null
  }

  private func documents(_ scope: DocumentScope, _ counters: StoreCounters) async throws -> [JSON] {
    let records = try await Page.all { try await storage.scanDocuments(.init(scope: scope), $0) }
    return try await records.mapAsync { record in
      let stored = try await storage.document(record.id, at: nil)
      var row: JSONObject = ["record": record.json]
      row["version"] = stored.map { .int($0.version) }
      row["value"] = stored?.value
      if !record.isCurrentOnly {
        var history: [JSON] = []
        for sequence in 1..<max(2, counters.nextSequence) where record.isAlive(at: sequence) {
          history.append(try await storage.document(record.id, at: sequence)?.value ?? .null)
        }
        row["history"] = .array(history)
      }
      return .object(row)
    }
  }
}

extension Array {
  fileprivate func mapAsync<Result>(
    _ transform: (Element) async throws -> Result
  ) async throws -> [Result] {
    var results: [Result] = []
    for element in self { results.append(try await transform(element)) }
    return results
  }
}
