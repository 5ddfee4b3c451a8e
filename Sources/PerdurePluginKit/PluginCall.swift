public import PerdureValue

/// Why a call is to end.
public enum CancelReason: UInt32, Sendable {
  /// The work of the conversation is aborted; the answer is dropped.
  case abort = 1
  /// Its time is over; an answer still counts.
  case deadline
  /// The host stops, and the next one goes on as after a crash.
  case closing
  /// The plugin is being closed.
  case drain
  /// The call in which it is nested has ended.
  case parent
  /// Nobody needs the answer any more.
  case obsolete
}

/// One call of the host, with its input as it came.
///
/// The handler answers it by returning or throwing; there is no other way, so each call is answered
/// exactly once. When the host gives a call up, the task of its handler is cancelled; the operations
/// of the call throw `cancelled` then.
public struct PluginCall: HostOperations {
  let core: PluginCore
  let given: GivenCall
  /// The whole input.
  public let input: JSON

  init(core: PluginCore, given: GivenCall, input: JSON) {
    self.core = core
    self.given = given
    self.input = input
  }

  /// The number of the call, which the host uses for no other one.
  public var id: UInt64 { given.id }
  /// Such as `tool:grep`.
  public var target: String { given.target }
  /// When the call is cancelled, in nanoseconds of the monotonic clock; absent: never.
  public var deadline: UInt64? { given.deadline == 0 ? nil : given.deadline }

  public var call: PluginCall { self }
}

/// What a call may ask of the host; which operation is legal where is said in the documentation.
///
/// Whatever the host answers with is thrown as a `PluginError`.
public protocol HostOperations: Sendable {
  /// The call that asks.
  var call: PluginCall { get }
}

extension HostOperations {
  /// The conversation of the call, if it has one.
  public var conversationId: Int64? { call.input["ctx"]?["conversation"]?.int }
  /// The task in which the call is made, if there is one.
  public var taskId: Int64? { call.input["ctx"]?["task"]?.int }
  /// Why the call is cancelled, if it is; its Swift task is cancelled then, too.
  public var cancelReason: CancelReason? {
    let reason = call.core.tables.cancelReason(call.id)
    return reason == 0 ? nil : CancelReason(rawValue: reason) ?? .obsolete
  }
  /// Whether the call is to end.
  public var isCancelled: Bool { cancelReason != nil }
  /// The settings that the host told the plugin last.
  public var settings: JSON { call.core.settings }

  /// Asks for any operation, with any payload, and returns its result.
  public func request(_ operation: String, _ payload: Payload) async throws -> Payload {
    try await call.core.request(call.id, operation, payload)
  }

  /// Asks for any operation with a result of JSON.
  @discardableResult
  public func invoke(_ operation: String, _ input: JSON = [:]) async throws -> JSON {
    try await request(operation, Payload(input)).json()
  }

  /// Asks for an operation that gives a stream.
  public func stream(_ operation: String, _ input: JSON = [:]) async throws -> HostStream {
    guard let handle = try await invoke(operation, input)["stream"] else {
      throw PluginError(.unsupported, "the host gives no stream for \(operation)", reason: "op")
    }
    return HostStream(call: call, handle: handle)
  }

  /// Writes a line to the host's log; never waits or fails.
  public func log(_ level: LogLevel, _ message: String) {
    call.core.tables.tell(call.id, "log", LogLevel.line(level, message))
  }

  /// Reports something that went wrong and is no outcome; never waits or fails.
  public func report(_ message: String) {
    call.core.tables.tell(call.id, "report", Payload(["message": .string(message)]))
  }

  /// Milliseconds since 1970 on the host's clock.
  public func now() async throws -> Int64 {
    guard let now = try await invoke("clock")["now"]?.int else {
      throw PluginError(.unsupported, "the host tells no time", reason: "op")
    }
    return now
  }

  /// Waits in memory; durable waits are states of a task.
  public func wait(milliseconds: Int64) async throws {
    try await invoke("timer.wait", ["ms": .int(milliseconds)])
  }

  /// Returns the settings of the run.
  public func runSettings() async throws -> JSON {
    try await invoke("settings.get", ["scope": "run"])["settings"] ?? [:]
  }

  /// Returns a secret that the manifest asks for.
  public func secret(_ name: String) async throws -> String {
    let payload = Payload(["name": .string(name)])
    return String(decoding: try await request("secret.get", payload).bytes, as: UTF8.self)
  }

  /// Returns once everything that was decided before the call is on disk: before an effect that
  /// must not be forgotten.
  public func durable() async throws { try await invoke("barrier") }

  /// Returns what the choices of the conversation came to when the call was made.
  public func agent() async throws -> JSON { try await invoke("agent.get") }

  /// Returns the value that the task keeps under a name, or `nil`.
  public func memo<Value: Decodable>(
    _ name: String,
    as type: Value.Type = Value.self
  ) async throws -> Value? {
    try await invoke("memo", ["name": .string(name)])["value"]?.decoded(as: type)
  }

  /// Keeps a value under a name unless there is one; returns the kept one once it is on disk.
  ///
  /// The first one wins, also over restarts; memos go with the task.
  public func memo<Value: Codable>(_ name: String, _ candidate: Value) async throws -> Value {
    let input: JSON = ["name": .string(name), "candidate": try JSON(encoding: candidate)]
    return try await invoke("memo", input)["value", or: "memo"].decoded()
  }

  /// Returns the value of a document as it is on disk, or `nil`; never creates it.
  public func document<Value: Decodable>(
    _ kind: String,
    of place: DocumentPlace = .own,
    as type: Value.Type = Value.self
  ) async throws -> Value? {
    try await invoke("document.get", .object(place.address(of: kind)))["value"]?.decoded(as: type)
  }

  /// Returns the record of a task, or `nil`.
  public func task(_ id: Int64) async throws -> JSON? {
    try await invoke("task.get", ["task": .int(id)])["task"]
  }

  /// Returns the record of a conversation, or `nil`.
  public func conversation(_ id: Int64) async throws -> JSON? {
    try await invoke("conversation.get", ["conversation": .int(id)])["record"]
  }

  /// Returns an entry, or `nil` if the conversation does not see it.
  public func entry(_ id: Int64, in conversation: Int64? = nil) async throws -> JSON? {
    var input: JSONObject = ["entry": .int(id)]
    if let conversation { input["conversation"] = .int(conversation) }
    return try await invoke("entry.get", .object(input))["entry"]
  }

  /// Returns the record of a task once it has ended; this call stays in memory meanwhile.
  public func waitForTask(_ id: Int64) async throws -> JSON {
    try await invoke("task.wait", ["task": .int(id)])
  }

  /// Submits content, a text or a list of items, and returns the id of the submission.
  ///
  /// Code that may run again gives a `requestId` made of its task, so that it submits once.
  public func submit(
    _ content: JSON,
    to conversation: Int64,
    requestId: String? = nil
  ) async throws -> Int64 {
    var input: JSONObject = ["conversation": .int(conversation), "content": content]
    if let requestId { input["requestId"] = .string(requestId) }
    let result = try await invoke("conversation.submit", .object(input))
    guard let submission = result["submission"]?.int else {
      throw PluginError(.unsupported, "the host names no submission", reason: "op")
    }
    return submission
  }

  /// Returns the record of a submission once it is settled.
  public func waitForSubmission(_ id: Int64) async throws -> JSON {
    try await invoke("submission.wait", ["submission": .int(id)])
  }

  /// Calls another tool, durably, and returns its result.
  public func callTool(
    _ name: String,
    _ arguments: JSON,
    key: String? = nil
  ) async throws -> JSON {
    var input: JSONObject = ["name": .string(name), "arguments": arguments]
    if let key { input["key"] = .string(key) }
    return try await invoke("tool.call", .object(input))
  }

  /// Returns the tools of a set: `offered`, `callable`, `deferred` or `all`.
  public func tools(_ set: String) async throws -> [JSON] {
    try await invoke("tools.list", ["set": .string(set)])["tools"]?.array ?? []
  }

  /// Asks a model and returns its message; what goes wrong there is the message's `stopReason`.
  public func complete(_ messages: [JSON], _ options: JSONObject = [:]) async throws -> JSON {
    var input = options
    input["messages"] = .array(messages)
    return try await invoke("model.complete", .object(input))["message", or: "model.complete"]
  }
}

extension JSON {
  /// The member that a result of this operation must have.
  subscript(key: JSONString, or operation: String) -> JSON {
    get throws(PluginError) {
      if let value = self[key] { return value }
      throw PluginError(
        .unsupported,
        "the host's answer to \(operation) lacks \(key)",
        reason: "op"
      )
    }
  }
}

/// Whose document is meant.
public struct DocumentPlace: Sendable, Equatable {
  var of: JSON?
  var key: String?

  /// The document of the call's own conversation or task, as the manifest says.
  public static let own = DocumentPlace()
  /// The document of the store.
  public static let session = DocumentPlace(of: "session")

  /// The document of a conversation.
  public static func conversation(_ id: Int64) -> DocumentPlace {
    DocumentPlace(of: ["conversation": .int(id)])
  }

  /// The document of a task.
  public static func task(_ id: Int64) -> DocumentPlace { DocumentPlace(of: ["task": .int(id)]) }

  /// The document with this key, among several of its kind.
  public func key(_ key: String) -> DocumentPlace {
    var place = self
    place.key = key
    return place
  }

  func address(of kind: String) -> JSONObject {
    var address: JSONObject = ["kind": .string(kind)]
    address["of"] = of
    address["key"] = key.map { .string($0) }
    return address
  }
}
