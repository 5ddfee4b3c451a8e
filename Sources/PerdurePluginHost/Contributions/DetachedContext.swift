package import PerdureModel
package import PerdureValue

/// What a hook may look at where there is no engine, which is nothing: for whoever calls the hooks of
/// a plugin by itself, to measure or to test them.
package struct DetachedContext: HookContext {
  package let taskId: TaskID

  /// Makes the context of a hook of this task, in the root conversation.
  package init(taskId: TaskID) { self.taskId = taskId }

  package var conversationId: ConversationID { .root }
  package var agent: AgentInfo { AgentInfo() }
  package var isCancelled: Bool { false }
  package func now() -> Int64 { 1_700_000_000_000 }
  package func settings() throws -> JSON { [:] }
  package func model(_ reference: ModelReference) throws -> ModelInfo? { nil }
  package func entry(_ id: EntryID) async throws -> EntryRecord? { nil }
  package func task(_ id: TaskID) async throws -> TaskRecord? { nil }
  package func messages() async throws -> [JSON] { [] }
  package func document(
    _ kind: JSONString,
    of scope: DocumentScope,
    key: JSONString?
  ) async throws -> JSON? { nil }
  package func durable() async throws {}
  package func report(_ message: String) {}
  package func memo(_ name: JSONString) async throws -> JSON? { nil }
  package func memo(_ name: JSONString, _ candidate: JSON) async throws -> JSON { candidate }
}
