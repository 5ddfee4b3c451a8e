import Perdure
import PerdureModel
import PerdureValue
import Synchronization

/// A prompt that another command gives.
struct ControlPrompt: Sendable {
  var text: String
  var conversation: ChosenConversation
  var whenBusy: WhenBusy
  var requestId: String?
  /// Whether the answer is waited for.
  var waits: Bool
  /// The options of the other command that say how to run, with their values.
  var options: [(option: Option, values: [String])] = []

  init(_ request: ControlRequest) throws(PerdureError) {
    var reader = ControlParameters(request)
    guard let text = try reader.text("prompt"), text.contains(where: { !$0.isWhitespace }) else {
      throw reader.wrong("prompt", "a text that is not empty")
    }
    self.text = text
    conversation =
      switch request.parameters["conversation"] {
      case nil, .null?: .first
      case let value? where value == "new": .new
      default: .existing(try reader.conversation())
      }
    let word = try reader.text("whenBusy") ?? WhenBusy.reject.rawValue
    guard let whenBusy = WhenBusy(rawValue: word) else {
      throw reader.wrong("whenBusy", "followUp, steer or reject")
    }
    self.whenBusy = whenBusy
    requestId = try reader.text("requestId")
    waits = !(try reader.flag("detach"))
    guard let options = (request.parameters["options"] ?? [:]).object else {
      throw reader.wrong("options", "an object")
    }
    for (name, values) in options {
      guard let option = RunOptions.all.first(where: { $0.name == name.string }),
        let words = values.array?.map({ $0.text }), words.allSatisfy({ $0 != nil })
      else { throw reader.wrong("options", "lists of texts, under the names of run's options") }
      self.options.append((option, words.compactMap(\.self)))
    }
  }

  /// Throws if the other command wants to run in another way than this process does.
  func check(against record: RunRecord) throws {
    var arguments = ParsedArguments()
    for (option, values) in options {
      for value in values { try arguments.add(value, for: option) }
    }
    var wanted = try RunOptions.resolve(arguments, recorded: record)
    // Plugins may have been installed since the process began, and run there.
    wanted.installed = record.installed
    let differences = wanted.differences(from: record)
    guard wanted != record else { return }
    throw PerdureError(
      .invalidConfiguration,
      "the process that works on the store runs it in another way",
      hint: "leave these options out, or end that process with 'perdure close' first",
      cause: differences.isEmpty ? nil : "there it is \(differences.joined(separator: ", "))"
    )
  }
}

/// Passes on what happens in the conversation of a prompt.
final class SubmissionFollower: Sendable {
  private struct State {
    var outputs = OutputFollower()
    var settled: [SubmissionID: OneEvent<Void>] = [:]
  }

  private let conversation: ConversationID
  private let emit: ControlDesk.Emit
  private let state = Mutex(State())

  init(_ conversation: ConversationID, _ emit: @escaping ControlDesk.Emit) {
    self.conversation = conversation
    self.emit = emit
  }

  /// Takes a commit; only hands on, because the line waits for it.
  func see(_ summary: CommitSummary) {
    for news in state.withLock({ $0.outputs.take(summary) })
    where news.output.conversation == conversation {
      emit("output", EventReport.members(of: news))
    }
    for entry in summary.entries where entry.conversationId == conversation {
      emit("entry", EventReport.members(of: entry, at: summary.at))
    }
    for task in summary.tasks where task.conversationId == conversation {
      if let approval = Approval(task), approval.status == .pending {
        emit("approval", ApprovalText.members(approval))
      }
    }
    for submission in summary.submissions where submission.isSettled {
      event(submission.id).fire(())
    }
  }

  /// Returns when the commit that settled a submission has been passed on.
  func seen(_ id: SubmissionID) async { await event(id).value }

  private func event(_ id: SubmissionID) -> OneEvent<Void> {
    state.withLock { state in
      if let event = state.settled[id] { return event }
      let event = OneEvent<Void>()
      state.settled[id] = event
      return event
    }
  }
}
