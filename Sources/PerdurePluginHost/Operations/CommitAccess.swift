import PerdureModel
import PerdureValue

/// Judges whether a plugin may write what a commit writes, before anything is begun.
struct CommitAccess {
  let core: PluginCore
  let engine: any CallOperations

  /// Throws a refusal with the number of the step that goes too far.
  func check(_ request: CommitRequest) async throws {
    for (index, step) in request.steps.enumerated() {
      do {
        try await check(step.action)
      } catch let refusal as CallRefusal {
        throw CallRefusal(refusal.reason, refusal.message, step: index)
      }
    }
  }

  private func check(_ action: CommitStep.Action) async throws {
    switch action {
    case .createConversation(let owner, _): try await check(owner)
    case .fork(let from, _, let owner, _):
      try await require(from, writing: false)
      try await check(owner)
    case .configure(let id, _), .append(let id, _): try await require(id, writing: true)
    case .createTask(let task):
      if let conversation = task.conversation { try await require(conversation, writing: true) }
      try await check(task.owner)
    case .document(_, let place, _, _, _), .retire(_, let place, _):
      switch place {
      case .session, .ownConversation, .ownTask: break
      case .conversation(let id): try await require(id, writing: true)
      case .task(let reference): try await require(task: reference)
      }
    }
  }

  private func check(_ owner: CommitStep.Owner) async throws {
    switch owner {
    case .call, .conversation: break
    case .task(let reference): try await require(task: reference)
    case .nobody:
      guard core.grants.conversations == .write else {
        throw CallRefusal(
          .permission,
          "a conversation without an owner needs the permission conversations: write"
        )
      }
    }
  }

  private func require(_ reference: StepReference, writing: Bool) async throws {
    guard case .id(let number) = reference, let id = ConversationID(number) else { return }
    switch core.grants.conversations {
    case .write: return
    case .read where !writing: return
    case .read, .own: break
    }
    guard try await engine.owns(id) else {
      throw CallRefusal(
        .permission,
        "conversation \(id) is not that of the call, and the plugin may not write to others"
      )
    }
  }

  /// A task may be given something if it is that of the call, or lives below it.
  private func require(task reference: StepReference) async throws {
    guard case .id(let number) = reference, let id = TaskID(number), id != engine.taskId else {
      return
    }
    guard let record = try await engine.task(id, nil) else {
      throw CallRefusal(.notFound, "task \(id) does not exist")
    }
    try await require(.id(record.conversationId.value), writing: true)
  }
}
