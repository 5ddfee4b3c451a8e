import PerdureModel
import PerdureValue

/// One task type of a plugin, as the engine runs it.
struct PluginTask: Sendable {
  let task: ManifestTask
  let core: PluginCore
  /// Makes a caller of one target.
  let caller: @Sendable (PluginCall.Kind, _ target: String, _ label: String) -> ContributionCaller
  /// Makes a caller that computes and does nothing else.
  let pure: @Sendable (_ target: String, _ label: String) -> ContributionCaller

  /// What the engine registers.
  var registered: ExternalTask {
    let type = task.type
    let initial = pure("task.initial:\(type)", "initial checkpoint of task type \(type)")
    let migrate = pure("task.migrate:\(type)", "migration of task type \(type)")
    let abort = caller(
      .abort,
      "task.abort:\(type)@\(task.version)",
      "abort handler of task type \(type)"
    )
    let phases = Dictionary(
      task.phases.map { name in
        (
          name,
          caller(
            .taskPhase,
            "task:\(type)@\(task.version)/\(name)",
            "phase \(name) of task type \(type)"
          )
        )
      },
      uniquingKeysWith: { first, _ in first }
    )
    return ExternalTask(
      name: type,
      version: Int64(task.version),
      phases: task.phases,
      initial: task.initial.text == "call"
        ? .asked { [self] input in try await first(input, initial) }
        : .constant(task.initial),
      inputSchema: task.inputSchema,
      migrates: task.migrates.map { Int64($0) },
      isDown: { [core] in core.isDown },
      migrate: { [self] in try await migrated($0, migrate) },
      run: { [self] call in
        guard let name = call.phase else { return try await run(call, abort) }
        guard let phase = phases[name] else {
          throw TaskFault(
            "task \(call.record.id) has the unknown phase '\(name)'",
            detail: ["reason": "unknown_phase"]
          )
        }
        try await run(call, phase)
      }
    )
  }

  private func message(_ members: JSONObject) -> [UInt8] {
    ContributionMessage.encoded(core, now: core.environment.clock.now()) {
      $0.members(of: members)
    }
  }

  private func first(_ input: JSON, _ caller: ContributionCaller) async throws -> JSON {
    try await caller.call(
      message(["version": .int(Int64(task.version)), "input": input]),
      CallPlace()
    ) { (object) throws(BorderProblem) in
      var reader = FieldReader(object)
      let checkpoint = try reader.required("checkpoint", reader.object("checkpoint"))
      guard checkpoint.members["phase"]?.string != nil else {
        throw .shape("a checkpoint without its phase", at: "/checkpoint/phase")
      }
      try reader.finish()
      return .object(checkpoint.members)
    }
  }

  private func migrated(
    _ record: TaskRecord,
    _ caller: ContributionCaller
  ) async throws -> (input: JSON, checkpoint: JSON) {
    let input = message([
      "fromVersion": .int(record.version), "toVersion": .int(Int64(task.version)),
      "input": record.input, "checkpoint": record.state.checkpoint ?? .null,
    ])
    return try await caller.call(input, CallPlace()) { (object) throws(BorderProblem) in
      var reader = FieldReader(object)
      let input = try reader.required("input", reader.any("input"))
      let checkpoint = try reader.required("checkpoint", reader.object("checkpoint"))
      try reader.finish()
      return (input, .object(checkpoint.members))
    }
  }

  // MARK: A run

  /// Makes one call and writes what it is answered with.
  private func run(_ call: ExternalTaskCall, _ caller: ContributionCaller) async throws {
    do {
      let place = CallPlace(task: call.record.id, external: call)
      let completion = try await caller.call(message(call, place.images), place) {
        (object) throws(BorderProblem) in object
      }
      try await finish(completion, call, caller.kind, place.images)
    } catch {
      throw failure(error, call)
    }
  }

  private func message(_ call: ExternalTaskCall, _ images: ImageTable) -> [UInt8] {
    ContributionMessage.encoded(
      core,
      now: call.operations.clock().now,
      conversation: call.record.conversationId,
      task: call.record.id,
      kind: task.type
    ) { writer in
      writer.member(.task, images.elided(call.record.json))
      if let phase = call.phase { writer.member(.phase, JSONString(phase)) }
    }
  }

  private func finish(
    _ completion: JSONObject,
    _ call: ExternalTaskCall,
    _ kind: PluginCall.Kind,
    _ images: ImageTable
  ) async throws {
    guard completion["steps"] != nil || completion["state"] != nil else { return }
    var reader = CommitReader(core: core, kind: kind) { (value, at) throws(BorderProblem) in
      try images.restored(value, at: at)
    }
    let request = try reader.read(completion)
    try await CommitAccess(core: core, engine: call.operations).check(request)
    _ = try await call.operations.commit(request, nil)
  }

  /// What the task is not to blame for.
  private static let kept: [PerdureError.Code] = [.pluginFault, .pluginDown, .invocationEnded]

  /// What the engine makes of a failure: a fault of the task, unless it is cancelled anyway.
  private func failure(_ error: any Error, _ call: ExternalTaskCall) -> any Error {
    if call.cancelReason != nil { return error }
    if let error = error as? PerdureError, Self.kept.contains(error.code) { return error }
    if core.closing.isSet {
      return PerdureError(.pluginFault, "plugin \(core.id) was closed while it ran a task")
    }
    if let error = error as? PerdureError {
      return TaskFault(error.message, detail: error.details)
    }
    if error is TaskFault || error is CancellationError { return error }
    let problem = OperationRun.failure(of: error)
    return TaskFault(problem.message, detail: .object(problem.detail))
  }
}

/// One kind of documents of a plugin, as the engine keeps them.
struct PluginDocument {
  let document: ManifestDocument
  let core: PluginCore
  let migration: ContributionCaller

  /// What the engine keeps them by.
  var declaration: DocumentDeclaration {
    let place: DocumentDeclaration.Place =
      switch document.scope {
      case .session: .session
      case .conversation: .conversation(document.history, document.fork)
      case .task: .task
      }
    let base: DocumentDeclaration.Base =
      switch document.base.text {
      case "always": .always
      case "never": .never
      default: .deltas(Int(document.base["deltas"]?.int ?? 1))
      }
    return DocumentDeclaration(
      kind: JSONString(document.kind),
      version: Int64(document.version),
      place: place,
      isKeyed: document.keyed,
      initial: document.initial,
      base: base,
      migrates: document.migrates.map { Int64($0) },
      comesWithConversation: document.create == .withConversation,
      migrate: { [core, migration, version = document.version] key, from, value in
        let now = core.environment.clock.now()
        let message = ContributionMessage.encoded(core, now: now) { writer in
          if let key { writer.member(.key, key) }
          writer.member(.fromVersion, from)
          writer.member(.toVersion, Int64(version))
          writer.member(.value, value)
        }
        return try await migration.call(message, CallPlace()) {
          (object) throws(BorderProblem) in
          var reader = FieldReader(object)
          let value = try reader.required("value", reader.object("value"))
          try reader.finish()
          return .object(value.members)
        }
      }
    )
  }
}
