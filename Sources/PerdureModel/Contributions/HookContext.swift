public import PerdureValue

/// What code that is called for a conversation may look at.
///
/// It sees what is on disk, and at least all that was decided before it was called: a read may
/// therefore cost a write of the store. Such code may be called again after a crash, so it must be
/// repeatable. Everything that throws throws `invocationEnded` once the call is over.
public protocol ContributionReads: Sendable {
  var conversationId: ConversationID { get }
  /// Whether the call is to end; its Swift task is cancelled then, too.
  var isCancelled: Bool { get }
  /// Milliseconds since 1970.
  func now() -> Int64
  /// The settings as they are now.
  func settings() throws -> JSON
  /// Returns what is known of a model, or `nil`.
  func model(_ reference: ModelReference) throws -> ModelInfo?
  /// Returns an entry that the conversation sees, or `nil`.
  func entry(_ id: EntryID) async throws -> EntryRecord?
  /// Returns a task, or `nil`.
  func task(_ id: TaskID) async throws -> TaskRecord?
  /// Returns the messages that a model would be shown of the conversation.
  func messages() async throws -> [JSON]
  /// Returns the stored value of a document, or `nil` if there is none.
  func document(_ kind: JSONString, of scope: DocumentScope, key: JSONString?) async throws -> JSON?
  /// Returns when everything decided so far is on disk: before an effect that must not be
  /// forgotten.
  func durable() async throws
  /// Sends a report to the host.
  func report(_ message: String)
}

extension ContributionReads {
  /// Returns the stored value of a document of the conversation, or `nil` if there is none.
  public func document(_ kind: JSONString, key: JSONString? = nil) async throws -> JSON? {
    try await document(kind, of: .conversation(conversationId), key: key)
  }
}

/// What a hook may use: reads, and the memos of the task that calls it.
public protocol HookContext: ContributionReads {
  /// The task at which the hook is called.
  var taskId: TaskID { get }
  /// What the conversation's choices come to in this phase of the task.
  var agent: AgentInfo { get }
  /// Returns the value that the task keeps under a name, or `nil`.
  func memo(_ name: JSONString) async throws -> JSON?
  /// Keeps a value under a name unless there is one, and returns the kept one once it is on disk.
  ///
  /// The first one wins, also over restarts. The names of a task are shared by all hooks: begin
  /// yours with the name of your extension. Memos go with the outcome of the task.
  func memo(_ name: JSONString, _ candidate: JSON) async throws -> JSON
  /// Returns the files and processes of the conversation, or `nil` where the host has none for it.
  ///
  /// What changes something there needs `durable()` before it.
  func environment() async throws -> (any Environment)?
}

extension HookContext {
  public func environment() async throws -> (any Environment)? { nil }
}
