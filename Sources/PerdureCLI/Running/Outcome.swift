import Perdure
import PerdureModel
import PerdureValue

/// Ends a command with what became of its submissions.
enum Outcome {
  /// Prints the answers and ends; the first submission without an answer decides the status.
  static func end(
    _ records: [SubmissionRecord],
    in conversation: ConversationID? = nil,
    obstacles: [String] = [],
    _ host: RunningHost,
    _ address: StoreAddress,
    _ reporter: Reporter
  ) async throws -> Never {
    var answers: [JSON] = []
    var failure: PerdureError?
    for record in records where record.kind == .input {
      switch record.state {
      case .done(_, let answer?):
        let text = try await host.answer(answer)
        if !reporter.isJSON { reporter.print(text) }
        answers.append([
          "submission": record.id.json, "conversation": record.conversationId.json,
          "entry": answer.json, "text": .string(text),
        ])
      case .unanswered(let reason, let detail, _) where failure == nil:
        failure = try await host.failure(of: record, reason: reason, detail: detail)
      default: break
      }
    }
    let pending = try await host.harness.pendingApprovals()
    await host.close()
    var members: JSONObject = ["answers": .array(answers)]
    if let conversation { members["conversation"] = conversation.json }
    if !obstacles.isEmpty { members["obstacles"] = .array(obstacles.map { .string($0) }) }
    if !pending.isEmpty {
      members["approvals"] = .array(pending.map { .object(ApprovalText.members($0)) })
      if failure == nil, conversation == nil {
        failure = ApprovalText.error(pending, address)
      }
    }
    if failure == nil { failure = host.denial }
    if failure == nil, let first = obstacles.first {
      failure = PerdureError(
        "blocked",
        "some work cannot go on: \(obstacles.joined(separator: "; "))",
        hint: hint(first)
      )
    }
    reporter.end(failure.map { ExitStatus($0) } ?? .ok, members, error: failure)
  }

  private static func hint(_ obstacle: String) -> String {
    if obstacle.hasSuffix("is parked") { return "find out why it is cut off; it stays as it is" }
    if obstacle.hasSuffix("cannot end") { return "the store is damaged; restore it from a copy" }
    return "resume it with the plugins and the version that started it"
  }

  /// Aborts everything after a signal, so that nothing is left to continue, and ends.
  static func abort(
    _ signal: Int32,
    _ host: RunningHost,
    _ reporter: Reporter
  ) async -> Never {
    reporter.progress("aborting; once more to quit at once")
    var hint = "the work was aborted; there is nothing to continue"
    do { try await host.abortAll() } catch {
      hint = "not all work could be aborted: \((error as? PerdureError)?.message ?? "\(error)")"
    }
    await host.close()
    reporter.end(ExitStatus(signal: signal), error: SignalWatch.error(signal, hint: hint))
  }

  /// Closes cleanly after a signal and ends.
  static func end(
    _ signal: Int32,
    _ host: RunningHost,
    _ address: StoreAddress,
    _ reporter: Reporter
  ) async -> Never {
    reporter.progress("closing; once more to quit at once")
    await host.close()
    let hint =
      switch address {
      case .memory: "the store in memory is gone"
      case .file, .folder: "`\(address.resumeCommand)` continues"
      }
    reporter.end(ExitStatus(signal: signal), error: SignalWatch.error(signal, hint: hint))
  }
}
