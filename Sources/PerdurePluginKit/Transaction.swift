public import PerdureValue

/// An id in a commit: that of a record, or the name of what the commit creates.
public enum RecordReference: Sendable, Equatable {
  case id(Int64)
  case step(String)

  /// The form that an id field of a step takes.
  public var json: JSON {
    switch self {
    case .id(let id): .int(id)
    case .step(let name): .string(name)
    }
  }
}

/// What a commit came to.
public struct Committed<Result: Sendable>: Sendable {
  /// What the body returned.
  public let result: Result
  /// The number of the commit; absent if nothing was written.
  public let sequence: Int64?
  private let ids: JSON

  init(result: Result, answer: JSON) {
    self.result = result
    sequence = answer["seq"]?.int
    ids = answer["ids"] ?? [:]
  }

  /// Returns the id of a record that the body named.
  public func id(of reference: RecordReference) throws -> Int64 {
    switch reference {
    case .id(let id): return id
    case .step(let name):
      guard let id = ids[JSONString(name)]?.int else {
        throw PluginError(.unsupported, "the host tells no id for the step \(name)", reason: "op")
      }
      return id
    }
  }
}

extension Committed<RecordReference> {
  /// Returns the id of the record that the body returned.
  public var id: Int64 { get throws { try id(of: result) } }
}

/// One commit in the making: reads first, then steps, all of which are written or none.
///
/// It lives inside the closure of `commit`. What was read is checked when the steps are committed:
/// if something has changed by then, the closure runs again, five times at most, so it must have no
/// other effect.
public final class Transaction {
  private struct Draft {
    var kind: String
    var place: DocumentPlace
    var before: JSON
    var value: JSON
  }

  private let call: PluginCall
  private var handle: JSON?
  private var begun: JSON = [:]
  private var steps: [JSON] = []
  private var created = 0
  private var drafts: [Draft] = []

  init(_ call: PluginCall) { self.call = call }

  /// Reads with an operation that takes a transaction, such as `tasks.scan`.
  ///
  /// Behind the first step it throws `read_after_write`.
  public func read(_ operation: String, _ input: JSONObject = [:]) async throws -> JSON {
    guard steps.isEmpty else {
      throw PluginError(
        .invalid,
        "\(operation) comes behind a step of its transaction; read first",
        reason: "read_after_write"
      )
    }
    var input = input
    input["tx"] = try await begin()
    return try await call.invoke(operation, .object(input))
  }

  /// Returns the call's own task as it was when the transaction began.
  public func ownTask() async throws -> JSON? {
    _ = try await begin()
    return begun["task"]
  }

  /// Returns a task, or `nil`.
  public func task(_ id: Int64) async throws -> JSON? {
    try await read("task.get", ["task": .int(id)])["task"]
  }

  /// Returns the tasks of a type that the call's own task owns, at most 256.
  public func ownedTasks(of type: String) async throws -> [JSON] {
    let filter: JSONObject = ["owner": "self", "kind": .string(type), "limit": 256]
    return try await read("tasks.scan", filter)["items"]?.array ?? []
  }

  /// Returns the value of a document, or `nil` if there is none.
  public func document(_ kind: String, of place: DocumentPlace = .own) async throws -> JSON? {
    try await read("document.get", place.address(of: kind))["value"]
  }

  /// Lets `body` change a document, which begins as the manifest says if there is none.
  ///
  /// It is written with the steps if it differs then.
  public func update<Result>(
    _ kind: String,
    of place: DocumentPlace = .own,
    _ body: (inout JSON) throws -> Result
  ) async throws -> Result {
    let found = drafts.firstIndex { $0.kind == kind && $0.place == place }
    if let found { return try body(&drafts[found].value) }
    let stored = try await document(kind, of: place)
    let value = stored ?? call.core.initialDocuments[kind] ?? [:]
    drafts.append(Draft(kind: kind, place: place, before: value, value: value))
    return try body(&drafts[drafts.count - 1].value)
  }

  /// Adds any step, such as `{"do": "entry.append", …}`.
  public func step(_ step: JSONObject) { steps.append(.object(step)) }

  /// Adds a step that creates something, and gives its name.
  public func creating(_ step: JSONObject) -> RecordReference {
    created += 1
    let name = "s\(created)"
    var step = step
    step["as"] = .string(name)
    steps.append(.object(step))
    return .step(name)
  }

  /// Creates a task, which the call's own task owns unless `owner` says otherwise.
  ///
  /// The owner is `self`, `conversation` or an id; further members of the step go into `options`.
  @discardableResult
  public func createTask<Input: Encodable>(
    _ type: String,
    _ input: Input,
    owner: JSON = "self",
    options: JSONObject = [:]
  ) throws -> RecordReference {
    var step: JSONObject = [
      "do": "task.create", "type": .string(type), "input": try JSON(encoding: input),
      "owner": owner,
    ]
    for (key, value) in options { step[key] = value }
    return creating(step)
  }

  /// Creates a conversation, which the call's own task owns unless `owner` says otherwise.
  @discardableResult
  public func createConversation(owner: JSON = "self", agent: JSON = [:]) -> RecordReference {
    creating(["do": "conversation.create", "owner": owner, "agent": agent])
  }

  /// Appends an entry to a conversation.
  @discardableResult
  public func append(_ entry: JSON, to conversation: RecordReference) -> RecordReference {
    creating(["do": "entry.append", "conversation": conversation.json, "entry": entry])
  }

  /// Makes a document have this value; needs no read before it.
  public func write(_ kind: String, of place: DocumentPlace = .own, _ value: JSON) {
    document("doc", kind, place, ["value": value])
  }

  /// Changes a document by operations; needs no read before it.
  public func apply(_ kind: String, of place: DocumentPlace = .own, _ operations: [Operation]) {
    document("doc", kind, place, ["ops": .array(operations.map { $0.json })])
  }

  /// Retires a document; the next step that names it begins a new one.
  public func retire(_ kind: String, of place: DocumentPlace = .own) {
    document("doc.retire", kind, place, [:])
  }

  private func document(
    _ verb: JSON,
    _ kind: String,
    _ place: DocumentPlace,
    _ members: JSONObject
  ) {
    var step: JSONObject = ["do": verb]
    for (key, value) in place.address(of: kind) { step[key] = value }
    for (key, value) in members { step[key] = value }
    steps.append(.object(step))
  }

  /// The transaction's handle; without a read there is none, and nothing to check.
  private func begin() async throws -> JSON {
    if let handle { return handle }
    begun = try await call.invoke("tx.begin")
    let handle = try begun["tx", or: "tx.begin"]
    self.handle = handle
    return handle
  }

  /// Whether the host holds a transaction for it.
  var isBegun: Bool { handle != nil }

  /// The input of the commit.
  func finish(_ state: JSON?) -> JSON {
    for draft in drafts where draft.value != draft.before {
      write(draft.kind, of: draft.place, draft.value)
    }
    var input: JSONObject = ["steps": .array(steps)]
    input["state"] = state
    input["tx"] = handle
    return .object(input)
  }

  /// Tells the host that nothing comes of it.
  func abort() {
    guard let handle else { return }
    let payload = Payload(["tx": handle])
    _ = call.core.tables.start(call.id, "tx.abort", payload, PendingRequest())
  }
}

/// What calls may write that run durably: tools, wraps, phases of tasks.
public protocol CommitOperations: HostOperations {}

extension CommitOperations {
  /// Runs `body` as one commit and returns its result once that is on disk.
  ///
  /// If `body` throws, nothing is written.
  @discardableResult
  public func commit<Result: Sendable>(
    _ body: (Transaction) async throws -> Result
  ) async throws -> Committed<Result> {
    try await commitState { (try await body($0), nil) }
  }

  /// The same with the state that the task takes.
  func commitState<Result: Sendable>(
    _ body: (Transaction) async throws -> (Result, JSON?)
  ) async throws -> Committed<Result> {
    var attempt = 1
    while true {
      let transaction = Transaction(call)
      let result: Result
      let state: JSON?
      do { (result, state) = try await body(transaction) } catch {
        transaction.abort()
        throw error
      }
      do {
        let answer = try await call.invoke("commit", transaction.finish(state))
        return Committed(result: result, answer: answer)
      } catch let error as PluginError
        where error.code == .stale && error.reason == "conflict" && attempt < 5
      {
        attempt += 1
      }
    }
  }
}
