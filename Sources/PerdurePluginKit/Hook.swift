public import PerdureValue

/// Where hooks are called.
public struct HookPoint: Sendable, Hashable, ExpressibleByStringLiteral {
  /// The name as the manifest has it.
  public let name: String

  public init(stringLiteral value: String) { name = value }

  /// Makes a point of a name.
  public init(_ name: String) { self.name = name }

  public static let beforeRequest: HookPoint = "beforeRequest"
  public static let afterResponse: HookPoint = "afterResponse"
  public static let onYield: HookPoint = "onYield"
  public static let afterTools: HookPoint = "afterTools"
  public static let beforeTool: HookPoint = "beforeTool"
  public static let afterTool: HookPoint = "afterTool"
  public static let onAbort: HookPoint = "onAbort"
  public static let beforeCompact: HookPoint = "beforeCompact"
  public static let conversationCreated: HookPoint = "conversationCreated"

  /// A point that a task type names itself.
  public static func task(_ type: String, _ name: String) -> HookPoint {
    HookPoint("task:\(type)/\(name)")
  }
}

/// One call of a hook.
///
/// What it is shown depends on the point; `call.input` has all of it.
public struct HookCall: HostOperations {
  public let call: PluginCall

  init(_ call: PluginCall) { self.call = call }

  /// At the points of tools: the name of the tool that is called.
  public var toolName: String { call.input["call"]?["name"]?.text ?? "" }
  /// At the points of tools: the arguments of the call.
  public var arguments: JSON { call.input["call"]?["arguments"] ?? call.input["arguments"] ?? [:] }
  /// Behind a call: what it gave back.
  public var result: JSON? { call.input["result"] }
  /// The message of the model, or absent.
  public var message: JSON? { call.input["message"] }
  /// The messages that go to the model, or none.
  public var messages: [JSON] { call.input["messages"]?.array ?? [] }
  /// Before a call: the questions about it that were answered.
  public var approvals: [JSON] { call.input["approvals"]?.array ?? [] }
}

/// A question for a person about a call.
public struct ApprovalQuestion: Sendable, Equatable {
  /// Tells questions about one call apart.
  public var key: String
  /// The question in one line.
  public var title: String
  public var body: String?
  /// After how many milliseconds without an answer the call is denied; absent: never.
  public var expires: Int64?

  /// Makes a question.
  public init(key: String, title: String, body: String? = nil, expires: Int64? = nil) {
    self.key = key
    self.title = title
    self.body = body
    self.expires = expires
  }

  var json: JSON {
    var object: JSONObject = ["key": .string(key), "title": .string(title)]
    object["body"] = body.map { .string($0) }
    object["expiresMs"] = expires.map { .int($0) }
    return .object(object)
  }
}

/// What a hook makes of what it is shown.
public enum HookDecision: Sendable, Equatable {
  /// It stays as it is.
  case proceed
  /// It does not happen, for this reason, which the model is told. For guards.
  case deny(String, code: String? = nil)
  /// Somebody has to say yes first; the hook runs again when there is an answer. For guards of
  /// `beforeTool`.
  case ask(ApprovalQuestion)
  /// It is changed, by the members that the point knows.
  case change(JSONObject)

  /// The call is made with these arguments.
  public static func arguments(_ arguments: JSON) -> HookDecision {
    .change(["arguments": arguments])
  }

  /// The call has this result.
  public static func result(_ result: JSON) -> HookDecision { .change(["result": result]) }

  /// The request has these messages; `{"keep": [from, to]}` stands for those it had.
  public static func messages(_ messages: [JSON]) -> HookDecision {
    .change(["messages": .array(messages)])
  }

  /// The run goes on with this content, a text or a list of items.
  public static func goOn(with content: JSON) -> HookDecision { .change(["continue": content]) }

  /// The compaction has this summary.
  public static func summary(_ text: String) -> HookDecision { .change(["summary": .string(text)]) }

  /// There is no compaction.
  public static let decline = HookDecision.change(["decline": true])

  /// The task that asked gets this value.
  public static func value(_ value: JSON) -> HookDecision { .change(["value": value]) }

  var json: JSONObject {
    switch self {
    case .proceed: return [:]
    case .deny(let reason, let code):
      var denial: JSONObject = ["reason": .string(reason)]
      denial["code"] = code.map { .string($0) }
      return ["deny": .object(denial)]
    case .ask(let question): return ["ask": question.json]
    case .change(let members): return members
    }
  }
}
