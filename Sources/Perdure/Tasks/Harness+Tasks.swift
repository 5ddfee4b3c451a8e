import PerdureEngine
public import PerdureModel
import PerdureValue

/// What a new task belongs to, and how it behaves.
public struct TaskOptions: Sendable {
  /// What a task belongs to.
  public enum Owner: Sendable {
    /// Its conversation.
    case conversation
    /// Another task of the same conversation, which does not end before it.
    case task(TaskID)
  }

  public var owner: Owner
  /// Where it lives; absent: where its owner does, or in the conversation of the commit.
  public var conversation: ConversationID?
  /// Whether aborts, idle waits and what happens to its conversation's other work leave it alone.
  ///
  /// Only a task of a conversation may be in the background.
  public var isInBackground: Bool
  /// Whether it is aborted, in place of going on, when a process finds it unfinished.
  ///
  /// Absent: no, unless a tool that is not run again owns it.
  public var abandonsOnRestart: Bool?

  /// Makes options.
  public init(
    owner: Owner = .conversation,
    conversation: ConversationID? = nil,
    isInBackground: Bool = false,
    abandonsOnRestart: Bool? = nil
  ) {
    self.owner = owner
    self.conversation = conversation
    self.isInBackground = isInBackground
    self.abandonsOnRestart = abandonsOnRestart
  }
}

extension Transaction {
  /// Creates a task and returns its id; its code runs after the commit.
  ///
  /// Throws `notFound` for an owner or a conversation that does not exist, and `invalidInput` for a
  /// task without a conversation or an owned one in the background or elsewhere. The commit fails if
  /// the owner ends in it, is ending, or is to be aborted.
  @discardableResult
  public func createTask<Input, Checkpoint, Outcome>(
    _ type: TaskType<Input, Checkpoint, Outcome>,
    _ input: Input,
    _ options: TaskOptions = TaskOptions()
  ) async throws -> TaskID {
    var owner: TaskRecord?
    if case .task(let id) = options.owner {
      owner = try await base.ownerCandidate(id)
      guard owner != nil else {
        throw PerdureError(.notFound, "task \(id) does not exist and cannot own another one")
      }
    }
    guard let place = owner?.conversationId ?? options.conversation ?? base.conversationId else {
      throw PerdureError(
        .invalidInput,
        "a task '\(type.name)' was created without a conversation",
        hint: "name one in its options, or commit through a conversation"
      )
    }
    if owner != nil, options.isInBackground || (options.conversation ?? place) != place {
      throw PerdureError(
        .invalidInput,
        "a task '\(type.name)' that a task owns cannot be in the background or elsewhere"
      )
    }
    return try await base.createTask(
      type.definition,
      input: try type.form.encode(input),
      owner: owner?.id,
      conversation: place,
      background: options.isInBackground,
      abandonOnRestart: options.abandonsOnRestart ?? false
    ).id
  }
}

/// What an abort of a task found.
public enum TaskAbort: Sendable {
  /// It carries the mark now; what becomes of it is up to its abort handler.
  case marked
  /// It had ended already.
  case ended
}

/// What keeps a live task.
public enum TaskCondition: Sendable, Equatable {
  /// Its code runs.
  case running
  /// Its outcome is decided, and something below it is live.
  case completing
  /// These tasks are live, for which it waits, or which must end before its abort handler runs.
  case waiting(on: [TaskID])
  /// Until a time in milliseconds since 1970.
  case sleeping(until: Int64)
  /// It cannot run here: `missing_task`, `task_too_old`, `migration_failed`, `restart_limit`; with
  /// what a migration failed.
  case blocked(reason: String, error: String?)
  /// It can run, and may have to be brought to a newer version first.
  case ready(migrates: Bool)

  init(_ readiness: TaskReadiness) {
    self =
      switch readiness {
      case .running: .running
      case .completing: .completing
      case .waiting(let on): .waiting(on: on)
      case .sleeping(let until): .sleeping(until: until)
      case .blocked(let reason, let error): .blocked(reason: reason, error: error)
      case .ready(let migrates): .ready(migrates: migrates)
      }
  }
}

/// What a harness has to do, as of one moment.
public struct HarnessInspection: Sendable {
  /// Whether tasks are started.
  public enum Scheduling: String, Sendable { case paused, running, closing }

  /// A live task, and what keeps it.
  public struct LiveTask: Sendable {
    public var record: TaskRecord
    public var condition: TaskCondition
  }

  public var scheduling: Scheduling
  /// The live tasks, by id.
  public var tasks: [LiveTask]
  /// The submissions that are not settled, by id.
  public var submissions: [SubmissionRecord]

  init(_ inspection: Inspection) {
    scheduling = Scheduling(rawValue: inspection.scheduling.rawValue) ?? .paused
    tasks = inspection.tasks.map {
      LiveTask(record: $0.record, condition: TaskCondition($0.readiness))
    }
    submissions = inspection.submissions
  }
}

/// When a store next needs a process.
public struct HarnessWake: Sendable, Equatable {
  /// Whether something runs, or could run now.
  public var isActive: Bool
  /// When the first sleep ends that has not ended, in milliseconds since 1970.
  public var at: Int64?

  init(_ wake: Wake) {
    isActive = wake.isActive
    at = wake.at
  }
}

extension OpenStore {
  /// Lets a parked task go on as `Harness.retryTask` does, in a store that nobody runs; nothing runs
  /// by that.
  ///
  /// `limit` is the restart limit of the harness that parked it.
  @discardableResult
  public func retryTask(
    _ id: TaskID,
    limit: Int = HarnessSettings().restartLimit
  ) async throws -> Bool {
    let session = try await Session.open(storage, clock: SystemClock())
    return try await session.retry(id, limit: Int64(limit))
  }
}

extension TaskRecord {
  /// Whether it was cut off so often in a row that it is not run again by itself.
  package var isParked: Bool { isParked(at: Int64(HarnessSettings().restartLimit)) }
}

extension Harness {
  /// Returns a task as it is on disk, or `nil`.
  public func task(_ id: TaskID) async throws -> TaskRecord? { try await engine.task(id) }

  /// Returns the record of a task once it has ended on disk, whatever its outcome.
  ///
  /// Cancelling the calling task ends the wait, never the work. Throws `notFound`.
  public func waitForTask(_ id: TaskID) async throws -> TaskRecord {
    try await engine.waitForTask(id)
  }

  /// Marks a task for abort; returns once the mark is on disk and its code has ended.
  ///
  /// Its outcome follows when everything below it has ended; wait for it with `waitForTask`. A task
  /// that no code can take ends at once as orphaned. Throws `notFound`.
  public func abortTask(_ id: TaskID) async throws -> TaskAbort {
    switch try await engine.abortTask(id) {
    case .marked: .marked
    case .terminal: .ended
    }
  }

  /// Lets a task go on that was parked because it was cut off too often in a row.
  ///
  /// Does nothing for another one. Returns whether it was parked; throws `notFound`.
  @discardableResult
  public func retryTask(_ id: TaskID) async throws -> Bool { try await engine.retryTask(id) }

  /// Returns when no work is live but such in the background.
  ///
  /// Work that waits, sleeps or cannot go on is live. Cancelling the calling task ends the wait.
  public func waitForIdle() async throws { try await engine.waitForIdle() }

  /// Says what there is to do and what keeps it; nothing is started by that.
  public func inspect() async throws -> HarnessInspection {
    HarnessInspection(try await engine.inspect())
  }

  /// Aborts the work of all conversations, also in the background, and returns when it has ended.
  ///
  /// Work that waits or sleeps ends, too, whether it is in memory or not.
  package func abortAll() async throws {
    let inspection = try await engine.inspect()
    let busy = Set(
      inspection.tasks.map { $0.record.conversationId }
        + inspection.submissions.map { $0.conversationId }
    )
    for id in busy.sorted() {
      try await conversation(id)?.abort(background: true)
    }
  }

  /// Says whether this store needs a process now, and when it next needs one.
  public func wake() async throws -> HarnessWake { HarnessWake(try await engine.wake()) }

  /// Installs an extension, or replaces the one of the same name in its place, while all goes on.
  ///
  /// Running calls and phases keep the code with which they began. A task takes new code after the
  /// phase that runs. Throws `invalidConfiguration`, and changes nothing, if it breaks a rule.
  public func install(_ value: Extension) throws { try engine.registry.install(value) }

  /// Removes the extension of this name and returns whether it is gone; one that is not installed is
  /// no error, and one that is pinned stays.
  ///
  /// Tasks whose code is gone stay and are blocked until it comes back.
  @discardableResult
  public func uninstall(_ name: String) -> Bool { engine.registry.uninstall(name) }
}
