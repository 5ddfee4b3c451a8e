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
  /// Handed to the provider with each request.
  public var stream: JSONObject = [:]

  /// Makes the default settings.
  public init() {}

  var engine: Settings {
    var settings = Settings()
    settings.retry.isEnabled = retries
    settings.retry.maxRetries = maxRetries
    settings.retry.baseDelayMs = retryBaseDelay.milliseconds
    settings.retry.maxAgentDelayMs = maxRetryDelay.milliseconds
    settings.runsToolsSequentially = runsToolsSequentially
    settings.restartLimit = Int64(restartLimit)
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
  /// `invalidConfiguration` if an extension breaks a rule. With `onWake` no timer wakes sleeping
  /// tasks: it is told whenever it changes when the store needs a process, and the host calls
  /// `resume` then.
  public static func open(
    _ location: StoreLocation,
    models: any ModelProvider,
    extensions: [Extension] = [],
    settings: @escaping @Sendable () -> HarnessSettings = { HarnessSettings() },
    clock: any HostClock = SystemClock(),
    onReport: @escaping @Sendable (Report) -> Void = { _ in },
    onWake: (@Sendable (HarnessWake) -> Void)? = nil
  ) async throws -> Harness {
    let registry = Registry()
    for value in extensions { try registry.install(value) }
    let storage = try await location.open()
    var tellWake: (@Sendable (Wake) -> Void)?
    if let onWake { tellWake = { onWake(HarnessWake($0)) } }
    let options = Engine.Options(
      models: models,
      registry: registry,
      settings: { settings().engine },
      clock: clock,
      report: onReport,
      onWake: tellWake
    )
    return Harness(engine: try await Engine.open(storage, options))
  }

  /// Returns the root conversation, creating it if there is none.
  public func root() async throws -> Conversation {
    Conversation(id: try await engine.root(), engine: engine)
  }

  /// Creates a conversation.
  public func createConversation() async throws -> Conversation {
    Conversation(id: try await engine.createConversation(), engine: engine)
  }

  /// Returns the conversation of this id, or `nil` if there is none.
  public func conversation(_ id: ConversationID) async throws -> Conversation? {
    guard try await engine.session.store.conversation(id) != nil else { return nil }
    return Conversation(id: id, engine: engine)
  }

  /// Why nothing of this store can run here, or `nil`.
  ///
  /// It holds work that needs what this version lacks, or its session failed. Everything that would
  /// let work run throws this error.
  public var refusal: PerdureError? { engine.scheduler.refusal }

  /// Lets unfinished work go on; throws `unsupportedFeature` if this version cannot.
  public func resume() async throws { try await engine.resume() }

  /// Returns when nothing runs and nothing can run, and what was done is on disk.
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
