import PerdureValue
import Synchronization

/// What a request of a plugin comes to.
enum RequestResult: Sendable {
  case object(JSONObject)
  case bytes([UInt8], MediaType = .bytes)
  case failed(RequestFailure)
}

/// Why a request of a plugin failed.
struct RequestFailure: Error, Sendable {
  var code: BorderCode
  var message: String
  var reason: String
  /// JSON Pointer into the input.
  var pointer: String?
  /// Further members of the details.
  var members: JSONObject = [:]
  /// Whether the same request may succeed when it is asked for again.
  var isRetryable = false

  init(_ code: BorderCode, _ message: String, reason: String, at pointer: String? = nil) {
    self.code = code
    self.message = message
    self.reason = reason
    self.pointer = pointer
  }

  /// Makes what is wrong with the input of an operation an answer.
  init(_ problem: BorderProblem, of operation: String) {
    self.init(
      problem.code,
      "\(operation) was given \(problem.phrase)",
      reason: problem.reason
    )
    switch problem {
    case .shape(_, let at): pointer = at
    case .fields(let names, let at):
      pointer = at
      members["fields"] = .array(names.map { .string(JSONString($0)) })
    default: break
    }
  }

  /// The flags of `pdr_err`; what a tool said of its failure is for the model, also behind a wrap that
  /// passes it on.
  var flags: UInt32 {
    (isRetryable ? 1 : 0) | (code == .cancelled ? 2 : 0) | (code == .timeout ? 4 : 0)
      | (reason == "tool_error" ? CallFailure.userVisible : 0)
  }

  /// The failure as the end of a stream.
  var json: JSON {
    [
      "code": .int(Int64(code.rawValue)), "message": .string(message), "detail": .object(detail),
    ]
  }

  /// The details that travel beside the message.
  var detail: JSONObject {
    var detail: JSONObject = ["reason": .string(reason)]
    if let pointer { detail["at"] = .string(JSONString(pointer)) }
    for (key, value) in members { detail[key] = value }
    return detail
  }
}

/// Whoever gets the result of a request.
protocol RequestDone: Sendable {
  /// Whether it runs code of the plugin, which needs a thread of the plugin.
  var runsPlugin: Bool { get }
  /// Takes the result.
  func callAsFunction(_ request: UInt64, _ result: RequestResult)
}

/// One operation that a plugin asked for and that is not answered yet.
final class PluginRequest: Sendable {
  let operation: OperationSchema
  let call: PluginCall?
  let done: (any RequestDone)?
  private let work = Mutex<(task: Task<Void, Never>?, cancelled: Bool)>((nil, false))

  init(operation: OperationSchema, call: PluginCall?, done: (any RequestDone)?) {
    self.operation = operation
    self.call = call
    self.done = done
  }

  /// Keeps the task that works on it, so that it can be cancelled.
  func attach(_ task: Task<Void, Never>) {
    let cancelled = work.withLock { work in
      work.task = task
      return work.cancelled
    }
    if cancelled { task.cancel() }
  }

  /// Stops the work on it; `false` if it was stopped before.
  @discardableResult func cancelWork() -> Bool {
    let (task, isFirst) = work.withLock { work in
      defer { work.cancelled = true }
      return (work.task, !work.cancelled)
    }
    task?.cancel()
    return isFirst
  }
}
