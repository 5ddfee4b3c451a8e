package import PerdureValue

/// What a call of code from outside may ask of the engine, for as long as it runs.
///
/// Everything sees what is on disk, and at least all that was decided before it was asked; all of
/// it throws once the call is over. What a call may do beside its kind, and whose records it may
/// see, is the caller's business.
package protocol CallOperations: CallReads, CallWork {
  /// Tells apart the stores to which calls belong.
  var store: ObjectIdentifier { get }
  /// The conversation of the call, where it has one.
  var conversationId: ConversationID? { get }
  /// The task of the call, where it has one.
  var taskId: TaskID? { get }
  /// The models of the host.
  var models: any ModelProvider { get }

  /// Milliseconds since 1970 and monotonic nanoseconds.
  func clock() -> (now: Int64, monotonic: Int64)
  /// Sends a report about the call.
  func report(_ message: String)
  /// The settings as they are now.
  func settings() throws -> JSON
  /// Returns when everything decided so far is on disk.
  func barrier() async throws
  /// Runs what the host does for the call, whose deadline stands still meanwhile.
  func standingStill<Result: Sendable>(
    _ body: @Sendable () async throws -> Result
  ) async rethrows -> Result

  /// The installed extensions, as the call began.
  func extensions() throws -> [ExtensionListing]
  /// What the choices of a conversation come to; without one those of the call, fixed as it began.
  func agent(of conversation: ConversationID?) async throws -> AgentInfo
  /// The tools of a set, with the extensions that bring them.
  func tools(_ set: ToolSet) async throws -> [(tool: Tool, extensionName: String)]

  /// Returns the files and processes of the call's conversation, or `nil` where the host has none.
  func environment() async throws -> (any Environment)?

  /// Begins to watch what is read for a commit.
  func beginTracking() throws -> any ReadTracking
  /// Writes all of it or nothing, and returns when it is on disk.
  ///
  /// With `tracking` nothing is written if somebody touched what was read for it.
  func commit(
    _ request: CommitRequest,
    _ tracking: (any ReadTracking)?
  ) async throws -> CommitReceipt
  /// Returns the value that the task keeps under a name, or `nil`.
  func memo(_ name: JSONString) async throws -> JSON?
  /// Keeps a value under a name unless there is one, and returns the kept one.
  func memo(_ name: JSONString, _ candidate: JSON) async throws -> JSON
}

/// What was read for a commit, so that it can be told whether somebody touched it.
package protocol ReadTracking: AnyObject, Sendable {
  /// Forgets everything.
  func end()
}

/// What a call may look at.
///
/// With tracking, what it looked at is remembered.
package protocol CallReads: Sendable {
  /// Whether a conversation is the call's own, or owned by something below its task.
  func owns(_ conversation: ConversationID) async throws -> Bool
  /// Returns a conversation, or `nil`.
  func conversation(
    _ id: ConversationID,
    _ tracking: (any ReadTracking)?
  ) async throws -> ConversationRecord?
  /// Visits conversations.
  func conversations(
    _ query: ConversationQuery,
    _ page: PageRequest,
    _ tracking: (any ReadTracking)?
  ) async throws -> Page<ConversationRecord>
  /// Returns an entry that a conversation sees, or `nil`.
  func entry(
    _ id: EntryID,
    in conversation: ConversationID,
    _ tracking: (any ReadTracking)?
  ) async throws -> EntryRecord?
  /// Visits the entries that a conversation sees; only head markers if `heads`.
  func entries(
    _ query: EntryQuery,
    heads: Bool,
    _ page: PageRequest,
    _ tracking: (any ReadTracking)?
  ) async throws -> Page<EntryRecord>
  /// Returns what a model would be shown of a conversation, up to an entry if one is given.
  func context(of conversation: ConversationID, at entry: EntryID?) async throws -> CallContext
  /// Returns a task, or `nil`.
  func task(_ id: TaskID, _ tracking: (any ReadTracking)?) async throws -> TaskRecord?
  /// Visits tasks.
  func tasks(
    _ filter: TaskFilter,
    _ page: PageRequest,
    _ tracking: (any ReadTracking)?
  ) async throws -> Page<TaskRecord>
  /// Returns the outcomes of ended tasks in the order of `ids`; throws if one is live.
  func outcomes(_ ids: [TaskID]) async throws -> [TaskOutcome]
  /// Returns a submission, or `nil`.
  func submission(
    _ id: SubmissionID,
    _ tracking: (any ReadTracking)?
  ) async throws -> SubmissionRecord?
  /// Returns the submission with a request id, or `nil`.
  func submission(
    requestId: JSONString,
    in conversation: ConversationID,
    _ tracking: (any ReadTracking)?
  ) async throws -> SubmissionRecord?
  /// Returns a document as it is stored, as of an entry if one is given, or `nil`.
  func document(
    _ address: DocumentAddress,
    asOf entry: EntryID?,
    _ tracking: (any ReadTracking)?
  ) async throws -> StoredDocument?
  /// Follows the document that lives at an address; `nil` if there is none.
  func watch(_ address: DocumentAddress) async throws -> (any DocumentWatching)?
}

/// Somebody who follows a document.
package protocol DocumentWatching: Sendable {
  /// The value with which it begins.
  var first: JSON { get }
  /// Returns the next value and what leads to it, or why there is none.
  func next() async -> DocumentNews
  /// Ends it.
  func cancel()
}

/// What somebody who follows a document is told.
package enum DocumentNews: Sendable {
  case changed(JSON, [Operation])
  case ended(String)
}

/// Work that a call may have done.
package protocol CallWork: Sendable {
  /// Submits content to be answered; returns when it is on disk.
  func submit(
    _ content: JSON,
    to conversation: ConversationID,
    whenBusy: WhenBusy,
    requestId: JSONString?,
    entry: InputEntry?
  ) async throws -> SubmissionRecord
  /// Returns a settled submission.
  func wait(for submission: SubmissionID) async throws -> SubmissionRecord
  /// Withdraws a submission that is still queued.
  func withdraw(_ submission: SubmissionID) async throws -> Withdrawal
  /// Returns when a conversation is idle; with background work too if asked for.
  func waitForIdle(_ conversation: ConversationID, background: Bool) async throws
  /// Aborts the work of a conversation and returns when it is idle.
  func abort(_ conversation: ConversationID, background: Bool) async throws
  /// Returns a task's record once it has ended.
  func wait(for task: TaskID) async throws -> TaskRecord
  /// Aborts a task that the call's task owns and returns when it has ended.
  func abortOwned(_ task: TaskID) async throws
  /// Asks a model and returns the message that it answers with, a failed one too.
  ///
  /// `changed` is told what the message gains on its way; it ends the request with `false`.
  func answer(
    _ request: ModelRequest,
    _ changed: (@Sendable ([JSON]) async -> Bool)?
  ) async throws -> JSON
  /// Asks for an answer that was deferred and returns the message, which may be deferred again.
  func fetchDeferred(_ handle: JSON, of model: ModelInfo) async throws -> JSON
  /// Tells the provider that nobody will ask for a deferred answer any more.
  func cancelDeferred(_ handle: JSON, of model: ModelInfo) async throws
  /// Calls the hooks at a point of the task's type, `limit` of them from `from` on.
  func callHooks(
    _ name: String,
    _ arguments: JSON,
    from: Int,
    limit: Int?
  ) async throws -> (replies: [HookListing], more: Bool)
}

/// What the engine keeps for calls of code from outside.
package protocol OffersOperations: Sendable {
  /// What the call may ask for; absent if there is no engine any more.
  var operations: (any CallOperations)? { get }
}
