import PerdureModel
import PerdureValue

/// The questions about one call, and what was answered.
///
/// The call waits in its phase `call`, with nothing executed. When all that was asked is answered the
/// phase runs again from its beginning: what was allowed counts for the same question about the same
/// arguments, and everything else is asked anew.
struct CallApprovals {
  /// Whether a call may be made now.
  enum Verdict {
    case allowed
    case denied(String)
    /// It is denied because nobody can be asked.
    case unasked(String)
    /// The task waits for answers; its phase is over.
    case asked
  }

  /// The memo of a tool task that lists the questions it has asked.
  static let memo: JSONString = "perdure.approvals"

  /// The key of the question that a tool's own policy asks.
  static let policyKey = "perdure.tool"

  let runtime: TaskRuntime
  let call: RequestedCall

  /// The questions that a tool task has asked so far.
  static func asked(by record: TaskRecord) -> [TaskID] {
    (record.memos?[memo]?.array ?? []).compactMap { TaskID($0) }
  }

  /// What a tool's own policy asks about a call.
  static func question(of tool: Tool, _ arguments: JSON) -> [ApprovalQuestion] {
    guard tool.approval.isNeeded(for: arguments) else { return [] }
    return [ApprovalQuestion(key: policyKey, title: "may '\(tool.name)' be called?")]
  }

  /// Returns the reason if a question about the call was answered with no; then nobody else is asked.
  func denial() async throws -> String? {
    for approval in try await approvals() {
      switch approval.status {
      case .answered(let answer) where !answer.isAllowed: return Self.reason(answer)
      case .answered, .pending: break
      case .withdrawn: return "the question about the call was withdrawn"
      }
    }
    return nil
  }

  private static func reason(_ answer: Approval.Answer) -> String {
    if answer.choice == "expired" { return "the call was denied: nobody answered in time" }
    let by = answer.by.map { " by \($0)" } ?? ""
    let note = answer.note.map { $0.isEmpty ? "" : ": \($0)" } ?? ""
    return "the call was denied\(by)\(note)"
  }

  /// The questions about the call that were answered with yes, as hooks see them.
  func consents() async throws -> [HookedCall.Consent] {
    try await approvals().compactMap { approval in
      guard case .answered(let answer) = approval.status, answer.isAllowed else { return nil }
      return HookedCall.Consent(
        key: approval.key,
        taskId: approval.id,
        choice: answer.choice,
        note: answer.note
      )
    }
  }

  private func approvals() async throws -> [Approval] {
    guard let record = runtime.scheduler.session.liveTask(runtime.taskId) else { return [] }
    var approvals: [Approval] = []
    for id in Self.asked(by: record) {
      if let task = try await runtime.task(id), let approval = Approval(task) {
        approvals.append(approval)
      }
    }
    // A no withdraws the other questions, and says more than that.
    return approvals.filter { $0.status != .withdrawn }
      + approvals.filter { $0.status == .withdrawn }
  }

  /// Decides about a call with these arguments, or asks what has not been answered, in one commit.
  func judge(_ questions: [ApprovalQuestion], _ arguments: JSON) async throws -> Verdict {
    if questions.isEmpty { return .allowed }
    let approvals = try await approvals()
    var open: [ApprovalQuestion] = []
    for question in questions where !open.contains(where: { $0.key == question.key }) {
      let isAnswered = approvals.contains { approval in
        guard case .answered(let answer) = approval.status else { return false }
        return answer.isAllowed && approval.key == question.key && approval.arguments == arguments
      }
      if !isAnswered { open.append(question) }
    }
    if open.isEmpty { return .allowed }
    let settings = runtime.settings
    guard settings.waitsForApprovals else {
      let titles = open.map { $0.title }.joined(separator: "; ")
      return .unasked("the call needs an approval, and nobody can be asked here: \(titles)")
    }
    try await ask(open, arguments, settings.approvalExpiryMs)
    return .asked
  }

  private func ask(
    _ questions: [ApprovalQuestion],
    _ arguments: JSON,
    _ standardExpiryMs: Int64?
  ) async throws {
    try await runtime.commit { tx, record in
      var record = record
      var ids = Self.asked(by: record)
      var on: [TaskID] = []
      for question in questions {
        let id = try await ApprovalTask.create(
          question,
          subject: [
            "key": .string(question.key), "tool": .string(call.name), "callId": .string(call.id),
            "arguments": arguments,
          ],
          expiresMs: question.expires?.wholeMilliseconds ?? standardExpiryMs,
          owner: record,
          tx
        ).id
        on.append(id)
      }
      ids += on
      record.memos = record.memos ?? [:]
      record.memos?[Self.memo] = .array(ids.map { $0.json })
      try await tx.replace(record)
      return .waiting(checkpoint: ["phase": "call"], on: on, policy: .allSettled)
    }
  }
}

extension Duration {
  fileprivate var wholeMilliseconds: Int64 {
    let (seconds, attoseconds) = components
    let (whole, overflow) = seconds.multipliedReportingOverflow(by: 1_000)
    return overflow ? .max : whole + attoseconds / 1_000_000_000_000_000
  }
}
