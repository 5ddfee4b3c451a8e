import Perdure
import PerdureModel
import PerdureValue

/// A change of a store that a verb asks for, whoever owns the store.
enum StoreRequest: Sendable {
  case archive(ConversationID)
  case unarchive(ConversationID)
  case delete(ConversationID, forks: Bool)
  /// With the age in seconds of what goes.
  case compact(olderThan: Int64?)
  case approve(TaskID, choice: String?, note: String?, by: String?)
  case deny(TaskID, choice: String?, reason: String?, by: String?)
  case retry(TaskID)

  /// The name under which the control socket knows it.
  var operation: String {
    switch self {
    case .archive: "conversation.archive"
    case .unarchive: "conversation.unarchive"
    case .delete: "conversation.delete"
    case .compact: "store.compact"
    case .approve: "approve"
    case .deny: "deny"
    case .retry: "task.retry"
    }
  }

  /// The conversation that must be there.
  var conversation: ConversationID? {
    switch self {
    case .archive(let id), .unarchive(let id), .delete(let id, _): id
    case .compact, .approve, .deny, .retry: nil
    }
  }

  var parameters: JSONObject {
    var object: JSONObject = [:]
    switch self {
    case .archive(let id), .unarchive(let id): object["conversation"] = id.json
    case .delete(let id, let forks):
      object["conversation"] = id.json
      object["forks"] = .bool(forks)
    case .compact(let seconds): object["olderThanSeconds"] = seconds.map { .int($0) }
    case .approve(let id, let choice, let note, let by):
      object["approval"] = id.json
      object["choice"] = choice.map { .string($0) }
      object["note"] = note.map { .string($0) }
      object["by"] = by.map { .string($0) }
    case .deny(let id, let choice, let reason, let by):
      object["approval"] = id.json
      object["choice"] = choice.map { .string($0) }
      object["reason"] = reason.map { .string($0) }
      object["by"] = by.map { .string($0) }
    case .retry(let id): object["task"] = id.json
    }
    return object
  }

  /// Reads a request of the control socket; `nil` if it is another one.
  init?(_ request: ControlRequest) throws(PerdureError) {
    var reader = ControlParameters(request)
    switch request.operation {
    case "conversation.archive": self = .archive(try reader.conversation())
    case "conversation.unarchive": self = .unarchive(try reader.conversation())
    case "conversation.delete":
      self = .delete(try reader.conversation(), forks: try reader.flag("forks"))
    case "store.compact":
      self = .compact(olderThan: try reader.number("olderThanSeconds", in: 0...(1 << 40)))
    case "approve":
      self = .approve(
        try reader.approval(),
        choice: try reader.text("choice"),
        note: try reader.text("note"),
        by: try reader.text("by")
      )
    case "deny":
      self = .deny(
        try reader.approval(),
        choice: try reader.text("choice"),
        reason: try reader.text("reason"),
        by: try reader.text("by")
      )
    case "task.retry": self = .retry(try reader.task())
    default: return nil
    }
  }

  // MARK: Doing it

  /// Changes a store that nobody runs.
  func perform(on store: OpenStore) async throws -> JSONObject {
    switch self {
    case .archive(let id):
      return try await Self.toggle(id, store.reader, archives: true) { try await store.archive(id) }
    case .unarchive(let id):
      return try await Self.toggle(id, store.reader, archives: false) {
        try await store.unarchive(id)
      }
    case .delete(let id, let forks):
      return Self.members(try await store.delete(id, includingForks: forks))
    case .compact(let age):
      return Self.members(try await store.compact(retention: Self.retention(age)))
    case .approve(let id, let choice, let note, let by):
      let approval = try await store.approve(id, choice: choice, note: note, by: by)
      return Self.members(approval, "approved")
    case .deny(let id, let choice, let reason, let by):
      let approval = try await store.deny(id, choice: choice, reason: reason, by: by)
      return Self.members(approval, "denied")
    case .retry(let id):
      return Self.members(id, wasParked: try await store.retryTask(id))
    }
  }

  /// Changes a store while it runs here.
  func perform(on harness: Harness) async throws -> JSONObject {
    switch self {
    case .archive(let id):
      let conversation = try await Self.found(id, harness)
      return try await Self.toggle(id, harness.reader, archives: true) {
        try await conversation.archive()
      }
    case .unarchive(let id):
      let conversation = try await Self.found(id, harness)
      return try await Self.toggle(id, harness.reader, archives: false) {
        try await conversation.unarchive()
      }
    case .delete(let id, let forks):
      return Self.members(
        try await Self.found(id, harness).delete(includingForks: forks)
      )
    case .compact(let age):
      return Self.members(try await harness.compact(retention: Self.retention(age)))
    case .approve(let id, let choice, let note, let by):
      let approval = try await harness.approve(id, choice: choice, note: note, by: by)
      return Self.members(approval, "approved")
    case .deny(let id, let choice, let reason, let by):
      let approval = try await harness.deny(id, choice: choice, reason: reason, by: by)
      return Self.members(approval, "denied")
    case .retry(let id):
      return Self.members(id, wasParked: try await harness.retryTask(id))
    }
  }

  private static func found(
    _ id: ConversationID,
    _ harness: Harness
  ) async throws -> Conversation {
    if let conversation = try await harness.conversation(id) { return conversation }
    throw PerdureError(.notFound, "the store has no conversation \(id)")
  }

  private static func toggle(
    _ id: ConversationID,
    _ reader: StoreReader,
    archives: Bool,
    _ body: () async throws -> Void
  ) async throws -> JSONObject {
    var hasChanged = true
    switch (try await reader.status(of: id), archives) {
    case (.archived, true), (.open, false): hasChanged = false
    default: try await body()
    }
    return [
      "conversation": id.json, "status": archives ? "archived" : "open",
      "changed": .bool(hasChanged),
    ]
  }

  private static func retention(_ seconds: Int64?) -> Retention {
    seconds.map { .olderThan(.seconds($0)) } ?? Retention()
  }

  private static func members(_ summary: DeletionSummary) -> JSONObject {
    [
      "conversations": .array(summary.conversations.map { $0.json }),
      "entries": .int(summary.entries), "tasks": .int(summary.tasks),
      "submissions": .int(summary.submissions), "documents": .int(summary.documents),
      "keptSubmissions": .int(summary.keptSubmissions),
    ]
  }

  private static func members(_ summary: CompactionSummary) -> JSONObject {
    [
      "tasks": .int(summary.tasks), "submissions": .int(summary.submissions),
      "documents": .int(summary.documents),
    ]
  }

  private static func members(_ task: TaskID, wasParked: Bool) -> JSONObject {
    ["task": task.json, "retried": .bool(wasParked)]
  }

  private static func members(_ approval: Approval, _ status: String) -> JSONObject {
    [
      "approval": approval.id.json, "status": .string(status),
      "sentence": .string(ApprovalText.sentence(approval)),
    ]
  }
}

/// Reads the parameters of a request; what has the wrong type is an error that names it.
struct ControlParameters {
  private let request: ControlRequest

  init(_ request: ControlRequest) { self.request = request }

  /// Returns a text, or `nil` if it is absent.
  mutating func text(_ name: String) throws(PerdureError) -> String? {
    guard let value = present(name) else { return nil }
    guard let text = value.text else { throw wrong(name, "a text") }
    return text
  }

  /// Returns whether something is wanted.
  mutating func flag(_ name: String) throws(PerdureError) -> Bool {
    guard let value = present(name) else { return false }
    guard case .bool(let flag) = value else { throw wrong(name, "true or false") }
    return flag
  }

  /// Returns a whole number, or `nil` if it is absent.
  mutating func number(
    _ name: String,
    in range: ClosedRange<Int64>
  ) throws(PerdureError) -> Int64? {
    guard let value = present(name) else { return nil }
    guard let number = value.int, range.contains(number) else {
      throw wrong(name, "a whole number from \(range.lowerBound) to \(range.upperBound)")
    }
    return number
  }

  /// Returns the conversation that is named.
  mutating func conversation() throws(PerdureError) -> ConversationID {
    guard let id = ConversationID(present("conversation")) else {
      throw wrong("conversation", "the number of a conversation")
    }
    return id
  }

  /// Returns the approval that is named.
  mutating func approval() throws(PerdureError) -> TaskID {
    guard let id = TaskID(present("approval")) else {
      throw wrong("approval", "the number of an approval")
    }
    return id
  }

  /// Returns the task that is named.
  mutating func task() throws(PerdureError) -> TaskID {
    guard let id = TaskID(present("task")) else { throw wrong("task", "the number of a task") }
    return id
  }

  private func present(_ name: String) -> JSON? {
    let value = request.parameters[JSONString(name)]
    return value == .null ? nil : value
  }

  /// Makes the error of a parameter that is not what it must be.
  func wrong(_ name: String, _ what: String) -> PerdureError {
    PerdureError(
      .invalidRequest,
      "the parameter '\(name)' of the control request \(request.operation) must be \(what)"
    )
  }
}
