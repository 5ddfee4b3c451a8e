package import PerdureModel
package import PerdureValue

/// A session with everything that makes conversations go on: tasks, agents, submissions.
package final class Engine: Sendable {
  /// What an engine is opened with.
  package struct Options: Sendable {
    package var models: any ModelProvider
    package var registry: Registry
    package var settings: @Sendable () -> Settings
    package var clock: any HostClock
    package var report: @Sendable (Report) -> Void
    /// Takes the place of the timer for tasks that sleep.
    package var onWake: (@Sendable (Wake) -> Void)?

    package init(
      models: any ModelProvider,
      registry: Registry,
      settings: @escaping @Sendable () -> Settings,
      clock: any HostClock,
      report: @escaping @Sendable (Report) -> Void,
      onWake: (@Sendable (Wake) -> Void)? = nil
    ) {
      self.onWake = onWake
      self.models = models
      self.registry = registry
      self.settings = settings
      self.clock = clock
      self.report = report
    }
  }

  package let session: Session
  package let scheduler: Scheduler
  /// What those outside may look at.
  package let views: Views
  let contexts: ContextStore
  let options: Options

  private init(session: Session, scheduler: Scheduler, contexts: ContextStore, options: Options) {
    self.session = session
    self.scheduler = scheduler
    views = Views(session: session, scheduler: scheduler)
    self.contexts = contexts
    self.options = options
  }

  /// Opens an engine over an open storage, which it then owns; nothing runs yet.
  ///
  /// Tasks that ran when the last process died become pending again, and their restarts are
  /// counted. A store that holds work which this version cannot go on with is opened too, but stays
  /// as it is: everything that would let tasks run throws `unsupportedFeature`. If anything fails
  /// here the storage is closed.
  package static func open(_ storage: any Storage, _ options: Options) async throws -> Engine {
    do {
      let session = try await Session.open(
        storage,
        clock: options.clock,
        report: options.report
      )
      let contexts = ContextStore(store: session.store)
      let surroundings = TaskSurroundings(
        registry: options.registry,
        settings: options.settings,
        models: options.models,
        contexts: contexts,
        clock: options.clock,
        report: options.report
      )
      let scheduler = Scheduler(
        session: session,
        definitions: [GenerationTask.definition, ToolTask.definition],
        surroundings: surroundings,
        onWake: options.onWake
      )
      session.observe { contexts.observe($0) }
      let engine = Engine(
        session: session,
        scheduler: scheduler,
        contexts: contexts,
        options: options
      )
      surroundings.engine.engine = engine
      try await engine.takeOver()
      return engine
    } catch {
      await storage.close()
      throw error
    }
  }

  /// Recovers unfinished work, or leaves all of it untouched if this version cannot go on with it.
  private func takeOver() async throws {
    do {
      try await features.wholeStore()
    } catch let error as PerdureError where error.code == .unsupportedFeature {
      return scheduler.refuse(error)
    }
    try await scheduler.recover()
  }

  private var features: FeatureCheck { FeatureCheck(session: session) }

  // MARK: Conversations

  /// Creates the root conversation unless there is one.
  package func root() async throws -> ConversationID {
    if try await session.store.conversation(.root) != nil { return .root }
    return try await session.commit { tx in
      if try await tx.conversation(.root) != nil { return .root }
      return try await tx.createConversation(root: true).id
    }
  }

  /// Creates a conversation that nobody owns.
  package func createConversation() async throws -> ConversationID {
    try await session.commit { try await $0.createConversation().id }
  }

  /// Creates a conversation that inherits what another one sees up to and including an entry.
  package func fork(
    _ parent: ConversationID,
    at entry: EntryID,
    configure change: JSONObject = [:]
  ) async throws -> ConversationID {
    try await session.commit(conversation: parent) { tx in
      let fork = try await tx.forkConversation(parent, at: entry)
      if !change.isEmpty { try await tx.configure(fork.id, change) }
      return fork.id
    }
  }

  /// Changes the choices of a conversation: a value replaces, `null` clears, absent leaves.
  package func configure(_ id: ConversationID, _ change: JSONObject) async throws {
    try await session.commit(conversation: id) { tx in
      guard try await tx.conversation(id) != nil else {
        throw PerdureError(.notFound, "conversation \(id) does not exist")
      }
      try await tx.configure(id, change)
    }
  }

  // MARK: Submissions

  /// Places user content in an idle conversation and starts its run; returns when that is on disk.
  ///
  /// `content` is a string or content items. A `requestId` that the conversation has seen returns
  /// the submission it stands for and writes nothing. Throws `conversationBusy` if there is a run.
  package func submit(
    _ content: JSON,
    to id: ConversationID,
    requestId: JSONString? = nil
  ) async throws -> SubmissionID {
    try Self.check(content: content)
    try scheduler.enable()
    try await features.conversation(id)
    return try await session.commit(conversation: id) { tx in
      if let requestId, let known = try await tx.submission(requestId: requestId, in: id) {
        guard known.kind == .input else {
          throw PerdureError(
            .requestIdConflict,
            "request id '\(requestId.string)' belongs to a write"
          )
        }
        return known.id
      }
      if try await tx.value(.live, id)["run"] != nil {
        throw PerdureError(
          .conversationBusy,
          "conversation \(id) has unfinished work",
          details: ["conversation": id.json]
        )
      }
      let message: JSON = [
        "role": "user", "content": content, "timestamp": .int(tx.now),
      ]
      let entry = try await tx.append(EntryDraft(kind: "pi.user", model: [message]), to: id)
      let submission = try await tx.createSubmission(
        in: id,
        requestId: requestId,
        kind: .input,
        state: .placed(entry: entry.id)
      )
      try await tx.startRun(id, inputs: [submission.id], definition: GenerationTask.definition)
      return submission.id
    }
  }

  /// Content is stored and sent as it is, so its shape is checked where it comes in.
  private static func check(content: JSON) throws {
    func isItem(_ item: JSON) -> Bool {
      switch item["type"]?.text {
      case "text": item["text"]?.string != nil
      case "image": item["data"]?.string != nil && item["mimeType"]?.string != nil
      default: false
      }
    }
    if content.string != nil { return }
    guard let items = content.array, !items.isEmpty, items.allSatisfy(isItem) else {
      throw PerdureError(
        .invalidInput,
        "the content of a submission is neither a string nor a list of text and image items",
        hint: "give a string, or items with the type 'text' or 'image'"
      )
    }
  }

  /// Returns the submission as it is on disk, or `nil`.
  package func submission(_ id: SubmissionID) async throws -> SubmissionRecord? {
    try await session.store.flushedSubmission(id)
  }

  /// Returns the submission once it is settled on disk.
  ///
  /// Cancelling the calling task ends the wait and nothing else.
  package func wait(for id: SubmissionID) async throws -> SubmissionRecord {
    try scheduler.enable()
    let store = session.store
    try await session.waits.wait(for: id) {
      guard let record = try await store.submission(id) else {
        throw PerdureError(.notFound, "submission \(id) does not exist")
      }
      // It may have been settled, in a commit that nobody asked to flush, before this wait.
      if record.isSettled { try await store.flush() }
      return record.isSettled
    }
    guard let record = try await store.flushedSubmission(id) else {
      throw PerdureError(.notFound, "submission \(id) does not exist")
    }
    return record
  }

  /// Why an unanswered submission got no answer, with the kind of failure, if that is known.
  package func failure(of id: SubmissionID) async throws -> JSON? {
    try await session.store.extra(scope: "failure", id: id.value)
  }

  // MARK: Life

  /// Lets unfinished work go on; throws `unsupportedFeature` if this version cannot.
  package func resume() async throws { try scheduler.enable() }

  /// Returns when nothing can go on any more and all of it is on disk.
  ///
  /// A session that has failed is quiet.
  package func waitUntilQuiet() async {
    await scheduler.waitUntilQuiet()
    try? await session.barrier()
  }

  /// Stops what runs so that the next opening continues it, flushes and releases the store.
  package func close() async throws {
    try session.seal()
    await scheduler.close()
    try await session.close()
  }
}
