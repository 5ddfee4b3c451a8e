package import PerdureValue

/// An installed extension by its names.
package struct ExtensionListing: Sendable {
  package var name: String
  package var version: String
  package var tools: [String]
  package var sections: [String]
  package var hooks: [String]
  package var wraps: [String]
  package var tasks: [(type: String, version: Int64)]

  package init(
    name: String,
    version: String,
    tools: [String],
    sections: [String],
    hooks: [String],
    wraps: [String],
    tasks: [(type: String, version: Int64)]
  ) {
    self.name = name
    self.version = version
    self.tools = tools
    self.sections = sections
    self.hooks = hooks
    self.wraps = wraps
    self.tasks = tasks
  }
}

/// The tools that a call can ask for.
package enum ToolSet: String, Sendable, CaseIterable { case offered, callable, deferred, all }

/// What a model would be shown of a conversation.
package struct CallContext: Sendable {
  package var head: EntryRecord?
  package var entries: [EntryRecord]
  package var messages: [JSON]

  package init(head: EntryRecord?, entries: [EntryRecord], messages: [JSON]) {
    self.head = head
    self.entries = entries
    self.messages = messages
  }
}

/// Which tasks to visit, also by what stores do not index.
package struct TaskFilter: Sendable {
  package var query = TaskQuery()
  package var owner: TaskID?
  package var isLive: Bool?

  package init() {}

  /// Whether a task fits.
  package func fits(_ record: TaskRecord) -> Bool {
    (query.conversationId.map { $0 == record.conversationId } ?? true)
      && (query.kind.map { $0 == record.kind } ?? true)
      && (query.status.map { $0 == record.state.status } ?? true)
      && (query.abortRequested.map { $0 == record.abortRequested } ?? true)
      && (query.background.map { $0 == record.background } ?? true)
      && (owner.map { $0 == record.owner } ?? true)
      && (isLive.map { $0 == record.isLive } ?? true)
  }
}

/// What one hook at a point of a task type came to.
package struct HookListing: Sendable {
  package var index: Int
  package var extensionName: String
  package var value: JSON?
  package var denied: String?

  package init(index: Int, extensionName: String, value: JSON?, denied: String?) {
    self.index = index
    self.extensionName = extensionName
    self.value = value
    self.denied = denied
  }
}

/// Why an operation of a call is refused, in the words of its protocol.
package struct CallRefusal: Error, Sendable {
  /// What kind of refusal it is.
  package enum Reason: String, Sendable {
    case ended, aborting, closing, conflict
    case transactionExpired = "tx_expired"
    case conversationBusy = "conversation_busy"
    case limit
    case runActive = "run_active"
    case notFound = "not_found"
    case readAfterWrite = "read_after_write"
    case unresolvablePath = "unresolvable_path"
    case waitCycle = "wait_cycle"
    case owner
    case keyConflict = "key_conflict"
    case invalidArguments = "invalid_arguments"
    case initialFailed = "initial_failed"
    case migrationFailed = "migration_failed"
    case permission
    case shape
    case notHere = "not_here"
  }

  package var reason: Reason
  package var message: String
  /// The step of a commit that was refused.
  package var step: Int?

  package init(_ reason: Reason, _ message: String, step: Int? = nil) {
    self.reason = reason
    self.message = message
    self.step = step
  }
}
