import PerdureEngine
public import PerdureModel
public import PerdureValue

/// Where conversations are kept.
public enum StoreLocation: Sendable {
  /// In one SQLite file, which is created if it is missing; commits survive a power failure.
  case sqlite(at: String)
  /// In one SQLite file, with a chosen promise.
  case sqliteFile(at: String, durability: Durability)
  /// In a folder of JSON lines, which is created if it is missing; commits survive a power failure.
  ///
  /// All of it is held in memory while it is open.
  case jsonl(at: String)
  /// In a folder of JSON lines, with a chosen promise; without full durability a power failure may
  /// damage it.
  case jsonlFolder(at: String, durability: Durability)
  /// In a SQLite database that the application has open, in tables whose names begin with `prefix`.
  ///
  /// Closing the store closes the connection; an opening that fails leaves it open. What a commit
  /// survives is what the connection is set to.
  case sqliteConnection(any SQLConnection, prefix: String = "")
  /// Nowhere: everything is gone when the process ends.
  case memory
  /// In a store that was opened before.
  case opened(OpenStore)
  /// In a storage of the application's own.
  case custom(any Storage)
}

/// What a commit survives once it is reported.
public enum Durability: String, Sendable, CaseIterable {
  /// A power failure.
  case full
  /// The death of the process; a power failure may take the newest commits.
  case normal
}

/// Choices that are read whenever something is decided, and never stored.
public struct HarnessSettings: Sendable, Equatable {
  /// How many of the inputs that wait are placed at a time.
  public enum QueueMode: String, Sendable, CaseIterable {
    /// The oldest one.
    case oneAtATime = "one-at-a-time"
    case all
  }

  /// What becomes of the inputs that are queued behind a run that failed.
  public enum AfterFailedRun: String, Sendable, CaseIterable {
    /// They stay queued until the next submission.
    case keep
    /// The next run begins with them.
    case `continue`
    /// They end unanswered, with the reason `run_failed`.
    case withdraw
  }

  /// What becomes of a call of a tool that needs an approval.
  public enum Approvals: String, Sendable, CaseIterable {
    /// It is denied at once, and the model is told that nobody can be asked.
    case deny
    /// It waits until somebody approves or denies it.
    case wait
  }

  /// How much may be spent; what is absent is not limited.
  public struct Budget: Sendable, Equatable {
    /// Tokens of all kinds together.
    public var tokens: Int64?
    /// Money, in the currency of the provider's prices.
    public var cost: Double?

    /// Makes a budget.
    public init(tokens: Int64? = nil, cost: Double? = nil) {
      self.tokens = tokens
      self.cost = cost
    }
  }

  /// The extensions of conversations that have chosen none; `nil`: all, as they were installed.
  public var extensions: [String]?
  /// How many answers of the model a run may have; `nil`: any number.
  ///
  /// A run that would need another one ends, its inputs unanswered with the reason `max_turns`. By
  /// default nothing ends a model that never stops calling tools, because only the program knows how
  /// long its work takes; a program that runs unattended sets this or a budget.
  public var maxTurns: Int?
  /// What a run may use before its last request.
  ///
  /// A run that has used it up ends, its inputs unanswered with the reason `budget`.
  public var runBudget = Budget()
  /// What all runs of a conversation may use together before the last request.
  public var conversationBudget = Budget()
  /// Whether failed requests are sent again.
  public var retries: Bool = true
  /// How often a failed request is sent again.
  public var maxRetries: Int = 3
  /// The delay before the second attempt; it doubles with each further one.
  public var retryBaseDelay: Duration = .seconds(2)
  /// The longest delay; a provider that asks for more ends the run.
  public var maxRetryDelay: Duration = .seconds(60)
  /// Whether the calls of one answer run one after another.
  public var runsToolsSequentially: Bool = false
  /// After how many crashes in a row a task is parked.
  public var restartLimit: Int = 5
  /// How long a document that nobody uses or observes stays in memory; `nil` for ever.
  public var documentRetention: Duration? = .seconds(600)
  /// How long what a model is shown of an idle conversation stays in memory; `nil` for ever.
  public var contextRetention: Duration? = .seconds(600)
  /// How many queued inputs join a run after each round of tools.
  public var steeringMode: QueueMode = .oneAtATime
  /// How many queued inputs the next run begins with.
  public var followUpMode: QueueMode = .oneAtATime
  /// What becomes of the inputs that are queued behind a run that failed.
  public var afterFailedRun: AfterFailedRun = .keep
  /// When the older part of a conversation is replaced by a summary.
  public var compaction = Compaction()
  /// What becomes of a call of a tool that needs an approval.
  public var approvals: Approvals = .deny
  /// After how long a question is answered with no if nobody has answered; `nil` never.
  public var approvalExpiry: Duration?
  /// Handed to the provider with each request.
  public var stream: JSONObject = [:]

  /// Makes the default settings.
  public init() {}

  var engine: Settings {
    var settings = Settings()
    settings.extensions = extensions
    settings.maxTurns = maxTurns
    settings.runBudget = Settings.Budget(tokens: runBudget.tokens, cost: runBudget.cost)
    settings.conversationBudget = Settings.Budget(
      tokens: conversationBudget.tokens,
      cost: conversationBudget.cost
    )
    settings.retry.isEnabled = retries
    settings.retry.maxRetries = maxRetries
    settings.retry.baseDelayMs = retryBaseDelay.milliseconds
    settings.retry.maxAgentDelayMs = maxRetryDelay.milliseconds
    settings.runsToolsSequentially = runsToolsSequentially
    settings.restartLimit = Int64(restartLimit)
    settings.documentRetentionMs = documentRetention?.milliseconds
    settings.contextRetentionMs = contextRetention?.milliseconds
    settings.steeringMode = steeringMode == .all ? .all : .oneAtATime
    settings.followUpMode = followUpMode == .all ? .all : .oneAtATime
    settings.afterFailedRun =
      switch afterFailedRun {
      case .keep: .keep
      case .continue: .continue
      case .withdraw: .withdraw
      }
    settings.compaction = compaction.engine
    settings.waitsForApprovals = approvals == .wait
    settings.approvalExpiryMs = approvalExpiry?.milliseconds
    settings.stream = stream
    return settings
  }
}

extension Duration {
  var milliseconds: Int64 {
    let (seconds, attoseconds) = components
    let (whole, overflow) = seconds.multipliedReportingOverflow(by: 1_000)
    return overflow ? .max : whole + attoseconds / 1_000_000_000_000_000
  }
}

/// An open store whose conversations go on.
///
/// Everything is committed before anybody sees it: kill the process at any moment, open the store
/// again with the same extensions, call `resume`, and unfinished work continues. One process owns
/// a store at a time. All members may be called from any task.
///
/// A new conversation has all extensions and no model; `Conversation.configure` chooses one.
public final class Harness: Sendable {
  let engine: Engine

  private init(engine: Engine) { self.engine = engine }

  /// Opens a store; nothing of it runs before `resume`, a submission or a wait.
  ///
  /// Throws `storeInUse` if another process owns the store, `storeUnreadable` if the file is no
  /// store of a known version, `storeUnwritable` if it cannot be written, and
  /// `invalidConfiguration` if an extension breaks a rule or a pinned one is missing.
  ///
  /// The extensions named in `pinned` count in every conversation, before all others and whatever it
  /// selects; no other extension can take the place of their tools and sections.
  ///
  /// `onConversationCreated` runs within every commit that creates a conversation or a fork, whoever
  /// commits it, and may add to that commit; if it throws, nothing is written. Tables cannot be
  /// read there any more, documents can. It runs for the conversations that it creates itself, too.
  ///
  /// `environment` gives tools, sections and plugins files and processes to work with; without one
  /// they have none. Throws `file` if its folder cannot be opened.
  ///
  /// With `onWake` no timer wakes sleeping tasks: it is told whenever it changes when the store
  /// needs a process, and the host calls `resume` then.
  ///
  /// With `resume` unfinished work goes on at once. If this version cannot, the store is closed again.
  public static func open(
    _ location: StoreLocation,
    models: any ModelProvider,
    extensions: [Extension] = [],
    pinned: [String] = [],
    settings: @escaping @Sendable () -> HarnessSettings = { HarnessSettings() },
    environment: EnvironmentChoice? = nil,
    clock: any HostClock = SystemClock(),
    onConversationCreated: (
      @Sendable (Transaction, ConversationRecord) async throws -> Void
    )? = nil,
    onReport: @escaping @Sendable (Report) -> Void = { _ in },
    onWake: (@Sendable (HarnessWake) -> Void)? = nil,
    resume: Bool = false
  ) async throws -> Harness {
    let registry = Registry(pinned: pinned)
    for value in extensions { try registry.install(value) }
    let makeEnvironment = try environment?.maker()
    let storage = try await location.open()
    var creation: Session.CreationHook?
    if let onConversationCreated {
      creation = { tx, record in try await onConversationCreated(Transaction(base: tx), record) }
    }
    var tellWake: (@Sendable (Wake) -> Void)?
    if let onWake { tellWake = { onWake(HarnessWake($0)) } }
    let options = Engine.Options(
      models: models,
      registry: registry,
      settings: { settings().engine },
      clock: clock,
      report: onReport,
      conversationCreated: creation,
      environment: makeEnvironment,
      onWake: tellWake
    )
    let harness = Harness(engine: try await Engine.open(storage, options))
    guard resume else { return harness }
    do {
      try await harness.resume()
      return harness
    } catch {
      try? await harness.close()
      throw error
    }
  }

  /// Adds to the commit that creates a conversation; if it throws, nothing is written.
  public typealias Beginning = @Sendable (Transaction, ConversationID) async throws -> Void

  /// Returns the root conversation, creating it if there is none.
  ///
  /// A new one gets the choices of `agent`, and `body` may add to its commit; both are passed over
  /// if there is a root.
  public func root(
    agent: Conversation.AgentChange = .init(),
    _ body: Beginning? = nil
  ) async throws -> Conversation {
    let id = try await engine.root(configure: agent.object(), body.map(Self.beginning))
    return Conversation(id: id, engine: engine)
  }

  /// Creates a conversation with these choices; `body` may add to its commit.
  ///
  /// One that a live task owns takes over the choices of the task's, and its work counts as that of
  /// the task.
  public func createConversation(
    ownedBy task: TaskID? = nil,
    agent: Conversation.AgentChange = .init(),
    _ body: Beginning? = nil
  ) async throws -> Conversation {
    let id = try await engine.createConversation(
      ownedBy: task,
      configure: agent.object(),
      body.map(Self.beginning)
    )
    return Conversation(id: id, engine: engine)
  }

  static func beginning(_ body: @escaping Beginning) -> Engine.Beginning {
    { try await body(Transaction(base: $0), $1) }
  }

  /// Returns the conversation of this id, or `nil` if there is none or it was deleted.
  public func conversation(_ id: ConversationID) async throws -> Conversation? {
    guard try await engine.session.store.conversation(id) != nil else { return nil }
    if case .deleted = try await engine.session.mark(of: id) { return nil }
    return Conversation(id: id, engine: engine)
  }

  /// Why nothing of this store can run here, or `nil`.
  ///
  /// It holds work that needs what this version lacks, or its session failed. Everything that would
  /// let work run throws this error.
  public var refusal: PerdureError? { engine.scheduler.refusal }

  /// Lets unfinished work go on; throws `unsupportedFeature` if this version cannot.
  public func resume() async throws { try await engine.resume() }

  /// Returns when nothing runs and nothing can run before a person answers an approval, and what was
  /// done is on disk.
  public func waitUntilQuiet() async {
    await engine.waitUntilQuiet()
    // A session that failed has reported it, and then nothing runs either.
    try? await engine.session.barrier()
  }

  /// The live tasks that cannot go on, and why.
  public var obstacles: [(task: TaskRecord, reason: String)] {
    engine.scheduler.obstacles.map { ($0.task, $0.reason) }
  }

  /// The tasks that have not ended, as far as they are in memory: all but those that have been
  /// waiting or sleeping for long beside a thousand others, which `inspect` lists too.
  public var liveTasks: [TaskRecord] {
    engine.session.liveTasks.values.sorted { $0.id < $1.id }
  }

  /// What the store holds, as it is on disk.
  public var reader: StoreReader { StoreReader(storage: engine.session.store.storage) }

  /// Calls `listener` with each commit once it is on disk, in order; it must return at once.
  ///
  /// A listener that throws is reported as `listener_error`; the commit stands. The returned closure
  /// ends the calls and may be called more than once.
  public func subscribe(
    _ listener: @escaping @Sendable (CommitSummary) throws -> Void
  ) -> @Sendable () -> Void {
    engine.session.subscribe { try listener(CommitSummary($0)) }
  }

  /// Keeps a fact about the whole store beside its records.
  public func setExtra(scope: String, id: Int64, _ value: JSON?) async throws {
    try await engine.session.commit { tx in
      try tx.put(extra: ExtraWrite(scope: scope, id: id, value: value))
    }
  }

  /// Stops what runs so that the next opening continues it, and releases the store.
  public func close() async throws { try await engine.close() }
}

/// What one commit changed.
public struct CommitSummary: Sendable {
  public var sequence: Int64
  /// When it was staged, in milliseconds since 1970.
  public var at: Int64
  public var conversations: [ConversationRecord] = []
  public var entries: [EntryRecord] = []
  public var tasks: [TaskRecord] = []
  public var submissions: [SubmissionRecord] = []
  /// The kinds of the documents that changed, with their conversation.
  public var documents: [DocumentRecord] = []
  /// The records that are gone.
  public var removals: [RecordReference] = []
  /// The conversations that were deleted.
  public var deletions: [ConversationID] = []
  private var live: [(conversation: ConversationID, tools: [JSON])] = []

  /// What the tools that run have put out so far, if the commit says something about them.
  public var outputs: [RunningOutput] {
    live.flatMap { live in
      live.tools.compactMap { RunningOutput(slot: $0, of: live.conversation) }
    }
  }

  init(_ publication: Publication) {
    sequence = publication.sequence
    at = publication.at
    for change in publication.changes {
      switch change {
      case .conversation(let record): conversations.append(record)
      case .entry(let record): entries.append(record)
      case .task(let record): tasks.append(record)
      case .submission(let record): submissions.append(record)
      case .documentCopy(let record, _): documents.append(record)
      case .removal(let reference): removals.append(reference)
      case .deletion(let id): deletions.append(id)
      case .document(let record, _, let value, _):
        documents.append(record)
        guard record.address.kind == "pi.live", case .conversation(let id) = record.address.scope,
          let tools = value?["tools"]?.array
        else { continue }
        live.append((id, tools))
      }
    }
  }
}
