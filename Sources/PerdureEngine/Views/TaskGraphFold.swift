package import PerdureModel
package import PerdureValue

/// The graph of live tasks, and what it takes to carry it from commit to commit.
package struct TaskGraphFold: Fold {
  package enum Event: Sendable {
    case publication(Publication)
    /// The scheduler found that a task cannot go on, or, without a reason, that it can.
    case blocked(TaskID, reason: String?)
  }

  package private(set) var value = TaskGraph()
  /// What the scheduler says, also of tasks whose commit is not on disk yet.
  private var blocked: [TaskID: String]

  /// Makes the graph of live tasks as they lie on disk.
  package init(
    _ tasks: [TaskRecord],
    conversations: [TaskID: [ConversationID]],
    blocked: [TaskID: String]
  ) {
    self.blocked = blocked
    for record in tasks where record.isLive {
      value.tasks[record.id] = TaskGraph.Node(
        record,
        conversations: (conversations[record.id] ?? []).sorted(),
        blocked: blocked[record.id]
      )
    }
  }

  package var json: JSON { value.json }

  package mutating func apply(_ event: Event) -> [Operation] {
    switch event {
    case .publication(let publication): apply(publication)
    case .blocked(let id, let reason): apply(id, reason)
    }
  }

  private static func path(_ id: TaskID) -> [PathSegment] {
    ["tasks", .key(JSONString("\(id)"))]
  }

  private mutating func apply(_ publication: Publication) -> [Operation] {
    var operations: [Operation] = []
    for case .task(let record) in publication.changes {
      let old = value.tasks[record.id]
      guard record.isLive else {
        if value.tasks.removeValue(forKey: record.id) != nil {
          operations.append(.delete(Self.path(record.id)))
        }
        continue
      }
      let node = TaskGraph.Node(
        record,
        conversations: old?.conversations ?? [],
        blocked: blocked[record.id]
      )
      guard node != old else { continue }
      value.tasks[record.id] = node
      operations.append(.set(Self.path(record.id), node.json))
    }
    return operations + applyConversations(publication)
  }

  private mutating func applyConversations(_ publication: Publication) -> [Operation] {
    var owners: [TaskID] = []
    for case .conversation(let record) in publication.changes {
      guard let owner = record.owner?.taskId, value.tasks[owner] != nil else { continue }
      value.tasks[owner]?.conversations.append(record.id)
      if !owners.contains(owner) { owners.append(owner) }
    }
    return owners.compactMap { owner in
      value.tasks[owner]?.conversations.sort()
      guard let ids = value.tasks[owner]?.conversations else { return nil }
      return .set(Self.path(owner) + ["conversations"], .array(ids.map { $0.json }))
    }
  }

  private mutating func apply(_ id: TaskID, _ reason: String?) -> [Operation] {
    blocked[id] = reason
    guard let node = value.tasks[id], node.blocked != reason else { return [] }
    value.tasks[id]?.blocked = reason
    let path = Self.path(id) + ["blocked"]
    return [reason.map { .set(path, .string($0)) } ?? .delete(path)]
  }
}
