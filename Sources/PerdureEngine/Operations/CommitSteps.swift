import PerdureModel
import PerdureValue

/// The steps of one commit at work on the line.
struct CommitSteps {
  let tx: Transaction
  let operations: EngineOperations
  let prepared: CommitExecutor.Prepared
  /// What named steps created.
  private(set) var ids: [String: Int64] = [:]

  private static let documentLimit = 8 << 20

  init(tx: Transaction, operations: EngineOperations, prepared: CommitExecutor.Prepared) {
    self.tx = tx
    self.operations = operations
    self.prepared = prepared
  }

  /// Runs the steps in order; the first that fails is thrown with its number.
  mutating func run(_ steps: [CommitStep]) async throws {
    for (index, step) in steps.enumerated() {
      do {
        let id = try await run(step, index)
        if let name = step.name, let id { ids[name] = id }
      } catch {
        throw StepFailure(step: index, cause: error)
      }
    }
  }

  private func run(_ step: CommitStep, _ index: Int) async throws -> Int64? {
    switch step.action {
    case .createConversation(let owner, let change):
      let record = try await tx.createConversation(owner: try task(of: owner))
      if !change.isEmpty { try await tx.configure(record.id, change) }
      return record.id.value
    case .fork(let parent, let entry, let owner, let change):
      let record = try await tx.forkConversation(
        try conversation(parent),
        at: entry,
        owner: try task(of: owner)
      )
      if !change.isEmpty { try await tx.configure(record.id, change) }
      return record.id.value
    case .configure(let reference, let change):
      let id = try conversation(reference)
      try await tx.requireConversation(id)
      try await tx.configure(id, change)
      return nil
    case .append(let reference, let draft):
      return try await append(
        try fill(draft, step.fills, below: "entry"),
        to: try conversation(reference)
      )
    case .createTask(let task): return try await create(task, step, index)
    case .document(let declaration, let place, let key, let seed, let change):
      return try await edit(declaration, place, key, seed, change, step)
    case .retire(let declaration, let place, let key):
      let definition = DocumentDefinition(declaration, key: key, prepared.migrations)
      try await tx.retire(definition, in: try scope(place), key: key)
      return nil
    }
  }

  // MARK: References

  private func number(_ reference: StepReference) throws -> Int64 {
    switch reference {
    case .id(let id): return id
    case .step(let name):
      guard let id = ids[name] else {
        throw CallRefusal(.shape, "no earlier step named '\(name)' created anything")
      }
      return id
    }
  }

  private func conversation(_ reference: StepReference) throws -> ConversationID {
    guard let id = ConversationID(try number(reference)) else {
      throw CallRefusal(.notFound, "there is no such conversation")
    }
    return id
  }

  private func task(_ reference: StepReference) throws -> TaskID {
    guard let id = TaskID(try number(reference)) else {
      throw CallRefusal(.notFound, "there is no such task")
    }
    return id
  }

  private func task(of owner: CommitStep.Owner) throws -> TaskID? {
    switch owner {
    case .nobody, .conversation: return nil
    case .task(let reference): return try task(reference)
    case .call:
      guard let id = operations.taskId else {
        throw CallRefusal(.owner, "the call has no task that could own anything")
      }
      return id
    }
  }

  private func scope(_ place: CommitStep.Place) throws -> DocumentScope {
    switch place {
    case .session: return .session
    case .conversation(let reference): return .conversation(try conversation(reference))
    case .task(let reference): return .task(try task(reference))
    case .ownConversation: if let id = operations.conversationId { return .conversation(id) }
    case .ownTask: if let id = operations.taskId { return .task(id) }
    }
    throw CallRefusal(.shape, "the call has nothing to which the document could belong")
  }

  /// Puts ids where `null` stands for them.
  private func fill(
    _ value: JSON,
    _ fills: [StepFill],
    below member: JSONString
  ) throws -> JSON {
    var value = value
    for fill in fills where fill.path.first == .key(member) {
      let path = Array(fill.path.dropFirst())
      guard value.value(at: path)?.isNull == true else {
        throw CallRefusal(.shape, "the place of the id of '\(fill.step)' does not hold null")
      }
      try value.apply(.set(path, .int(try number(.step(fill.step)))))
    }
    return value
  }

  // MARK: Steps

  private func append(_ draft: JSON, to id: ConversationID) async throws -> Int64 {
    let draft = try EntryDraft(json: draft)
    if !draft.isDisplayOnly, try await tx.value(.live, id)["run"] != nil {
      throw CallRefusal(
        .runActive,
        "conversation \(id) has a run, so only entries without a part for the model can be appended"
      )
    }
    return try await tx.append(draft, to: id).id.value
  }

  private func create(
    _ task: CommitStep.NewTask,
    _ step: CommitStep,
    _ index: Int
  ) async throws -> Int64 {
    guard let definition = operations.scheduler.definition(task.type)?.definition else {
      throw CallRefusal(.notFound, "there is no task type '\(task.type.string)'")
    }
    let owner = try self.task(of: task.owner)
    let place: ConversationID
    if let owner {
      guard let record = try await tx.ownerCandidate(owner) else {
        throw CallRefusal(.owner, "task \(owner) does not exist and cannot own another one")
      }
      place = record.conversationId
    } else if let reference = task.conversation {
      place = try conversation(reference)
    } else if let own = operations.conversationId {
      place = own
    } else {
      throw CallRefusal(.shape, "a task was created without a conversation")
    }
    var input = try fill(task.input, step.fills, below: "input")
    let isQuestion = task.type == Approval.kind
    if isQuestion, var members = input.object {
      members["askedAt"] = .int(tx.now)
      input = .object(members)
    }
    let known = try (task.checkpoint ?? prepared.checkpoints[index]).map {
      try fill($0, step.fills, below: "checkpoint")
    }
    let isCutOffWithCall = owner == operations.taskId && operations.replay == .unsafe
    var record = try await tx.createTask(
      definition,
      input: input,
      owner: owner,
      conversation: place,
      background: task.background,
      abandonOnRestart: task.abandonOnRestart ?? (owner != nil && isCutOffWithCall),
      checkpoint: known
    )
    if isQuestion {
      record.state = ApprovalTask.sleep(record)
      try await tx.replace(record)
    }
    return record.id.value
  }

  private func edit(
    _ declaration: DocumentDeclaration,
    _ place: CommitStep.Place,
    _ key: JSONString?,
    _ seed: JSON?,
    _ change: CommitStep.Change,
    _ step: CommitStep
  ) async throws -> Int64? {
    let definition = DocumentDefinition(declaration, key: key, prepared.migrations)
    let filled = try filled(change, step.fills)
    try await tx.edit(definition, in: try scope(place), key: key, seed: seed) { draft in
      switch filled {
      case .nothing: break
      case .value(let value): try draft.assign([], value)
      case .operations(let operations): try draft.apply(operations)
      }
      guard draft.value.object != nil else {
        throw CallRefusal(.shape, "document '\(declaration.kind.string)' would be no object")
      }
      guard !draft.isChanged || draft.value.roughSize <= Self.documentLimit else {
        throw CallRefusal(.limit, "document '\(declaration.kind.string)' is larger than 8 MiB")
      }
    }
    return nil
  }

  private func filled(
    _ change: CommitStep.Change,
    _ fills: [StepFill]
  ) throws -> CommitStep.Change {
    switch change {
    case .nothing, .operations: change
    case .value(let value): .value(try fill(value, fills, below: "value"))
    }
  }

  // MARK: The state

  /// Gives the task of the call its next state.
  func advance(_ record: TaskRecord, to state: CommitState) async throws {
    guard let runtime = operations.runtime else { return }
    do {
      let next = try taskState(state)
      if let checkpoint = next.checkpoint {
        try operations.scheduler.definition(record.kind)?.definition.check(checkpoint)
      }
      try await runtime.check(next, record, tx)
      // What the steps wrote into the record stays.
      let current = tx.tasks[record.id] ?? record
      try await tx.replace(try await operations.scheduler.advance(current, to: next, tx))
    } catch {
      throw StepFailure(step: nil, cause: error).refusal
    }
  }

  private func taskState(_ state: CommitState) throws -> TaskState {
    let checkpoint = try fill(state.checkpoint, state.fills, below: "checkpoint")
    switch state.kind {
    case .running: return .running(checkpoint: checkpoint)
    case .waiting(let on, let policy):
      return .waiting(checkpoint: checkpoint, on: try on.map(task), policy: policy)
    case .sleeping(let until): return .sleeping(checkpoint: checkpoint, until: until)
    case .terminal(let outcome):
      return .terminal(try TaskOutcome(json: try fill(outcome, state.fills, below: "outcome")))
    }
  }
}
