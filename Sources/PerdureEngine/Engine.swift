package import PerdureModel
package import PerdureValue
import Synchronization

/// A session with everything that makes conversations go on: tasks, agents, submissions.
package final class Engine: Sendable {
  /// What an engine is opened with.
  package struct Options: Sendable {
    package var models: any ModelProvider
    package var registry: Registry
    package var settings: @Sendable () -> Settings
    package var clock: any HostClock
    package var report: @Sendable (Report) -> Void
    /// Runs within each creation of a conversation, after its built-in documents were created.
    package var conversationCreated: Session.CreationHook?
    /// Makes the environments of conversations; absent: there are none.
    package var environment: EnvironmentMaker?
    /// Takes the place of the timer for tasks that sleep.
    package var onWake: (@Sendable (Wake) -> Void)?

    package init(
      models: any ModelProvider,
      registry: Registry,
      settings: @escaping @Sendable () -> Settings,
      clock: any HostClock,
      report: @escaping @Sendable (Report) -> Void,
      conversationCreated: Session.CreationHook? = nil,
      environment: EnvironmentMaker? = nil,
      onWake: (@Sendable (Wake) -> Void)? = nil
    ) {
      self.environment = environment
      self.onWake = onWake
      self.models = models
      self.registry = registry
      self.settings = settings
      self.clock = clock
      self.report = report
      self.conversationCreated = conversationCreated
    }
  }

  /// Gives each new conversation its built-in documents.
  package static let builtInDocuments: Session.CreationHook = { tx, record in
    try await tx.createBuiltInDocuments(of: record)
  }

  package let session: Session
  package let scheduler: Scheduler
  /// What those outside may look at.
  package let views: Views
  package let contexts: ContextStore
  let options: Options
  private let creationHooks: CreationHooks
  private let shutdown = Mutex<Task<Void, any Error>?>(nil)

  private init(
    session: Session,
    scheduler: Scheduler,
    contexts: ContextStore,
    creationHooks: CreationHooks,
    options: Options
  ) {
    self.creationHooks = creationHooks
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
      try options.registry.requirePinned()
      let session = try await Session.open(
        storage,
        clock: options.clock,
        documentRetentionMs: { options.settings().documentRetentionMs },
        onCreation: { tx, record in
          try await builtInDocuments(tx, record)
          try await tx.createDeclaredDocuments(of: record, options.registry.snapshot)
          try await options.conversationCreated?(tx, record)
        },
        report: options.report
      )
      let contexts = ContextStore(
        store: session.store,
        clock: options.clock,
        retentionMs: { options.settings().contextRetentionMs },
        onLoad: { [weak session] in session?.retention.arm() }
      )
      session.retention.add(contexts)
      let surroundings = TaskSurroundings(
        registry: options.registry,
        settings: options.settings,
        models: options.models,
        contexts: contexts,
        clock: options.clock,
        report: options.report,
        environment: options.environment
      )
      let scheduler = Scheduler(
        session: session,
        definitions: [
          GenerationTask.definition, ToolTask.definition, CompactionTask.definition,
          ApprovalTask.definition,
        ],
        surroundings: surroundings,
        onWake: options.onWake
      )
      contexts.adopt(session.liveTasks.values)
      session.observe { contexts.observe($0) }
      let creationHooks = CreationHooks(session, surroundings)
      session.observe { creationHooks.observe($0) }
      let engine = Engine(
        session: session,
        scheduler: scheduler,
        contexts: contexts,
        creationHooks: creationHooks,
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

  var features: FeatureCheck { FeatureCheck(session: session) }

  // MARK: Conversations

  /// Creates the root conversation unless there is one.
  ///
  /// A new one gets the choices of `configure`; then `body` may add to the commit. Both are passed
  /// over if there is a root.
  package func root(
    configure change: JSONObject = [:],
    _ body: Beginning? = nil
  ) async throws -> ConversationID {
    if try await session.store.conversation(.root) != nil { return .root }
    return try await session.commit { tx in
      if try await tx.conversation(.root) != nil { return .root }
      return try await begin(tx.createConversation(root: true), change, body, tx)
    }
  }

  /// Adds to the commit that creates a conversation.
  package typealias Beginning = @Sendable (Transaction, ConversationID) async throws -> Void

  private func begin(
    _ record: ConversationRecord,
    _ change: JSONObject,
    _ body: Beginning?,
    _ tx: Transaction
  ) async throws -> ConversationID {
    if !change.isEmpty { try await tx.configure(record.id, change) }
    try await body?(tx, record.id)
    return record.id
  }

  /// Creates a conversation, which nobody owns unless a task is named.
  package func createConversation(
    ownedBy owner: TaskID? = nil,
    configure change: JSONObject = [:],
    _ body: Beginning? = nil
  ) async throws -> ConversationID {
    try await session.commit { tx in
      try await begin(tx.createConversation(owner: owner), change, body, tx)
    }
  }

  /// Creates a conversation that inherits what another one sees up to and including an entry.
  package func fork(
    _ parent: ConversationID,
    at entry: EntryID,
    ownedBy owner: TaskID? = nil,
    configure change: JSONObject = [:],
    _ body: Beginning? = nil
  ) async throws -> ConversationID {
    try await session.commit(conversation: parent) { tx in
      try await begin(tx.forkConversation(parent, at: entry, owner: owner), change, body, tx)
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
  ///
  /// All calls share one shutdown, which goes on when a caller is cancelled.
  package func close() async throws {
    try session.requireOutside()
    scheduler.announceClosing()
    session.seal()
    let task = shutdown.withLock { task in
      if let task { return task }
      // Awaited by every caller.
      let started = Task.detached { [self] in
        await creationHooks.close()
        await scheduler.close()
        try await session.close()
      }
      task = started
      return started
    }
    try await task.wait()
  }
}
