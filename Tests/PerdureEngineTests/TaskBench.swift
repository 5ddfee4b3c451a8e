import PerdureEngine
import PerdureModel
import PerdureStorage
import PerdureTestKit
import PerdureValue
import Testing

/// A task type of a test, made of plain definitions.
struct TestTask: DefinedTask {
  var definition: TaskDefinition

  var name: String { definition.name.string }

  init(
    _ name: JSONString,
    version: Int64 = 1,
    phases: [JSONString: TaskDefinition.Phase],
    abort: @escaping TaskDefinition.Phase = { runtime, _ in
      try await runtime.commit { _, record in
        .terminal(.aborted(reason: record.abortReason?.string))
      }
    },
    migrate: (@Sendable (TaskRecord) throws -> (input: JSON, checkpoint: JSON))? = nil
  ) {
    definition = TaskDefinition(
      name: name,
      version: version,
      initial: { _ in ["phase": "start"] },
      phases: phases,
      abort: abort,
      migrate: migrate,
      settle: { _, _, _ in }
    )
  }

  /// One that has only this phase.
  init(_ name: JSONString, _ start: @escaping TaskDefinition.Phase) {
    self.init(name, phases: ["start": start])
  }
}

extension TestBench {
  /// Opens an engine with a root conversation and these task types.
  func open(_ tasks: [TestTask], resuming: Bool = true) async throws -> Engine {
    let engine = try await open(
      ScriptedModel { _ in ScriptedModel.text("done") },
      extensions: [Extension(name: "tasks", tasks: tasks)]
    )
    _ = try await engine.root()
    if resuming { try await engine.resume() }
    return engine
  }
}

extension Engine {
  /// Creates a task of this type.
  func create(
    _ task: TestTask,
    input: JSON = [:],
    owner: TaskID? = nil,
    in conversation: ConversationID = .root,
    background: Bool = false,
    abandonOnRestart: Bool = false
  ) async throws -> TaskID {
    try await session.commit { tx in
      try await tx.createTask(
        task.definition,
        input: input,
        owner: owner,
        conversation: conversation,
        background: background,
        abandonOnRestart: abandonOnRestart
      ).id
    }
  }

  func outcome(_ id: TaskID) async throws -> TaskOutcome? {
    try await waitForTask(id).state.outcome
  }

  func status(_ id: TaskID) async throws -> TaskState.Status? {
    try await task(id)?.state.status
  }
}

extension TaskOutcome {
  /// Its status as it is stored.
  var name: String { json["status"]?.text ?? "" }
}

extension Commits {
  /// Waits until this task has a state that fits.
  @discardableResult
  func task(_ id: TaskID, _ fits: @escaping @Sendable (TaskRecord) -> Bool) async -> TaskRecord? {
    let publication = await first { $0.tasks.contains { $0.id == id && fits($0) } }
    return publication.tasks.first { $0.id == id && fits($0) }
  }

  func status(_ id: TaskID, _ status: TaskState.Status) async {
    await task(id) { $0.state.status == status }
  }
}
