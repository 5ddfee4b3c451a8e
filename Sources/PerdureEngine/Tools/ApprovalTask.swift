package import PerdureModel
import PerdureValue

/// The built-in task `perdure.approval`: sleeps until a person answers, or too long.
enum ApprovalTask {
  /// When a question expires that never does: far, and a time that every reader can hold.
  private static let never: Int64 = 8_640_000_000_000_000

  static let definition = TaskDefinition(
    name: Approval.kind,
    version: 1,
    initial: { _ in ["phase": "wait"] },
    phases: [
      "wait": { runtime, _ in try await runtime.commit { _, record in sleep(record) } },
      "expire": { runtime, record in try await expire(runtime, record) },
    ],
    abort: { runtime, _ in
      try await runtime.commit { _, _ in .terminal(.aborted()) }
    },
    migrate: nil,
    settle: { _, _, _ in }
  )

  /// The state in which a question waits.
  static func sleep(_ record: TaskRecord) -> TaskState {
    let until = Approval(record)?.expiresAt ?? never
    return .sleeping(checkpoint: ["phase": "expire"], until: min(max(0, until), never))
  }

  private static func expire(_ runtime: TaskRuntime, _ record: TaskRecord) async throws {
    try await runtime.commit { tx, record in
      guard let until = Approval(record)?.expiresAt, until <= tx.now else { return sleep(record) }
      let answer = Approval.Answer(
        isAllowed: false,
        choice: "expired",
        by: nil,
        saying: nil,
        at: tx.now
      )
      return .terminal(.completed(result: answer.json))
    }
  }

  /// Asks: creates the task, asleep, below the task of the call.
  static func create(
    _ question: ApprovalQuestion,
    subject: JSONObject,
    expiresMs: Int64?,
    owner: TaskRecord,
    _ tx: Transaction
  ) async throws -> TaskRecord {
    var input: JSONObject = [
      "title": .string(question.title), "subject": .object(subject), "askedAt": .int(tx.now),
    ]
    if let body = question.body { input["body"] = .string(body) }
    if let choices = question.choices {
      input["choices"] = .array(
        choices.map {
          [
            "id": .string($0.id), "label": .string($0.label),
            "effect": $0.allows ? "allow" : "deny",
          ]
        }
      )
    }
    if let expiresMs { input["expiresMs"] = .int(expiresMs) }
    var record = try await tx.createTask(
      definition,
      input: .object(input),
      owner: owner.id,
      conversation: owner.conversationId
    )
    record.state = sleep(record)
    try await tx.replace(record)
    return record
  }
}

/// What a person says to a question.
package struct ApprovalDecision: Sendable {
  package var isAllowed: Bool
  /// One of the question's own choices; absent: plainly yes or no.
  package var choice: String?
  package var by: String?
  package var note: String?

  package init(isAllowed: Bool, choice: String? = nil, by: String? = nil, note: String? = nil) {
    self.isAllowed = isAllowed
    self.choice = choice
    self.by = by
    self.note = note
  }
}

extension Session {
  /// Answers a question in one commit, and returns it once that is on disk; nothing runs by that.
  ///
  /// A no withdraws the other questions about the same call. Throws `notFound` if there is no such
  /// question and `invalidRequest` if it does not wait any more or has no such choice.
  package func decide(_ id: TaskID, _ decision: ApprovalDecision) async throws -> Approval {
    try await commit { tx in
      guard var record = try await self.task(id), let approval = Approval(record) else {
        throw PerdureError(
          .notFound,
          "there is no approval \(id)",
          hint: "list those that wait with 'perdure pending'"
        )
      }
      guard approval.status == .pending else { throw Self.settled(approval) }
      let answer = Approval.Answer(
        isAllowed: decision.isAllowed,
        choice: try Self.choice(decision, of: approval),
        by: decision.by,
        saying: decision.note,
        at: tx.now
      )
      record.state = .terminal(.completed(result: answer.json))
      try await tx.replace(record)
      if !decision.isAllowed { try await self.withdrawSiblings(of: record, tx) }
      var answered = approval
      answered.status = .answered(answer)
      return answered
    }
  }

  /// Ends the other questions about a call that will not be made.
  private func withdrawSiblings(of record: TaskRecord, _ tx: Transaction) async throws {
    guard let owner = record.owner, let call = try await self.task(owner) else { return }
    for id in CallApprovals.asked(by: call) where id != record.id {
      guard var other = try await self.task(id), other.isLive, other.owner == owner,
        other.kind == Approval.kind
      else { continue }
      other.state = .terminal(.aborted())
      try await tx.replace(other)
    }
  }

  private static func settled(_ approval: Approval) -> PerdureError {
    let why =
      switch approval.status {
      case .answered(let answer) where answer.choice == "expired": "has expired"
      case .answered(let answer): answer.isAllowed ? "was approved" : "was denied"
      case .withdrawn, .pending: "was withdrawn with its call"
      }
    return PerdureError(
      .invalidRequest,
      "the approval \(approval.id) \(why)",
      hint: "list those that wait with 'perdure pending'"
    )
  }

  private static func choice(
    _ decision: ApprovalDecision,
    of approval: Approval
  ) throws -> String {
    let fitting = approval.choices?.filter { $0.allows == decision.isAllowed } ?? []
    guard let wanted = decision.choice else {
      return fitting.first?.id ?? (decision.isAllowed ? "allow" : "deny")
    }
    guard fitting.contains(where: { $0.id.utf8.elementsEqual(wanted.utf8) }) else {
      let names = fitting.map { "'\($0.id)'" }.joined(separator: ", ")
      throw PerdureError(
        .invalidRequest,
        "the approval \(approval.id) has no such choice '\(wanted)'",
        hint: names.isEmpty ? "give none" : "choose one of \(names)"
      )
    }
    return wanted
  }
}

extension Engine {
  /// Answers a question; the call that waits for it goes on if tasks run here.
  package func decide(_ id: TaskID, _ decision: ApprovalDecision) async throws -> Approval {
    if let refusal = scheduler.refusal { throw refusal }
    return try await session.decide(id, decision)
  }
}
