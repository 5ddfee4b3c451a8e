import Perdure
import PerdureModel
import PerdureValue

/// Where a prompt goes.
enum ChosenConversation: Sendable {
  case first
  case new
  case existing(ConversationID)
}

/// What to do with a prompt for a conversation that has unfinished work.
enum PromptPolicy: String, CaseIterable {
  case followUp = "follow-up"
  case steer
  case reject

  var whenBusy: WhenBusy {
    switch self {
    case .followUp: .followUp
    case .steer: .steer
    case .reject: .reject
    }
  }
}

/// Decides, before anything is written, whether a prompt may be placed.
enum Admission {
  /// Throws if the conversation does not exist, or has unfinished work and the prompt is not to
  /// wait for it, or if the store has some that this run would continue in another way than it was
  /// started.
  static func check(
    _ reader: StoreReader,
    _ address: StoreAddress,
    _ record: RunRecord,
    _ chosen: ChosenConversation,
    _ whenBusy: PromptPolicy
  ) async throws {
    let target: ConversationID? =
      switch chosen {
      case .first: .root
      case .new: nil
      case .existing(let id): id
      }
    if case .existing(let id) = chosen, try await reader.reads.conversation(id) == nil {
      throw missing(id, address)
    }
    let live = try await reader.liveTasks()
    guard !live.isEmpty else { return }
    if whenBusy == .reject, let target, let run = try await reader.document("pi.live", of: target),
      run["run"] != nil
    {
      var error = busy("conversation \(target)", target, address)
      error.hint = (error.hint ?? "") + ", or let the prompt wait with --when-busy follow-up"
      throw error
    }
    let recorded = try await reader.extra(scope: RunRecord.scope, id: 0).flatMap {
      RunRecord(json: $0)
    }
    if let other = live.first, recorded != record {
      var error = busy("conversation \(other.conversationId)", other.conversationId, address)
      error.message += ", which was started in another way"
      let differences = recorded.map { record.differences(from: $0) } ?? []
      if !differences.isEmpty {
        error.cause = "then it was \(differences.joined(separator: ", "))"
        error.hint = (error.hint ?? "") + " first, or give the prompt in the same way"
      }
      throw error
    }
  }

  private static func busy(
    _ what: String,
    _ id: ConversationID,
    _ address: StoreAddress
  ) -> PerdureError {
    PerdureError(
      .conversationBusy,
      "\(what) has unfinished work",
      hint: "run `\(address.resumeCommand)`",
      details: ["conversation": id.json]
    )
  }

  static func missing(_ id: ConversationID, _ address: StoreAddress) -> PerdureError {
    PerdureError(
      .notFound,
      "the store \(address.text) has no conversation \(id)",
      hint: "leave --conversation out for the first one, or give 'new'"
    )
  }
}

extension StoreReader {
  /// Returns the tasks of a conversation, or of all, that have not ended.
  func liveTasks(of id: ConversationID? = nil) async throws -> [TaskRecord] {
    var tasks: [TaskRecord] = []
    for status in TaskState.Status.allCases where status != .terminal {
      var cursor: Cursor?
      repeat {
        let page = try await reads.scanTasks(
          TaskQuery(conversationId: id, status: status),
          PageRequest(limit: 256, cursor: cursor)
        )
        tasks += page.items
        cursor = page.next
      } while cursor != nil
    }
    return tasks.sorted { $0.id < $1.id }
  }

  /// Returns the prompts of a conversation, or of all, that wait to be placed.
  func queuedPrompts(of id: ConversationID? = nil) async throws -> [SubmissionRecord] {
    var found: [SubmissionRecord] = []
    var cursor: Cursor?
    repeat {
      let page = try await reads.scanSubmissions(
        SubmissionQuery(conversationId: id, status: .queued),
        PageRequest(limit: 256, cursor: cursor)
      )
      found += page.items.filter { $0.kind == .input }
      cursor = page.next
    } while cursor != nil
    return found.sorted { $0.id < $1.id }
  }
}
