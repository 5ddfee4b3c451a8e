import PerdureValue
import Synchronization

/// What a request of a plugin comes to.
enum RequestResult: Sendable {
  case object(JSONObject)
  case bytes([UInt8])
  case failed(RequestFailure)
}

/// Why a request of a plugin failed.
struct RequestFailure: Error, Sendable {
  var code: BorderCode
  var message: String
  var reason: String
  /// JSON Pointer into the input.
  var pointer: String?

  init(_ code: BorderCode, _ message: String, reason: String, at pointer: String? = nil) {
    self.code = code
    self.message = message
    self.reason = reason
    self.pointer = pointer
  }

  /// The details that travel beside the message.
  var detail: JSONObject {
    var detail: JSONObject = ["reason": .string(reason)]
    if let pointer { detail["at"] = .string(pointer) }
    return detail
  }
}

/// One operation that a plugin asked for and that is not answered yet.
final class PluginRequest: Sendable {
  let operation: Operation
  let call: PluginCall?
  let done: PluginDone?
  private let work = Mutex<(task: Task<Void, Never>?, cancelled: Bool)>((nil, false))

  init(operation: Operation, call: PluginCall?, done: PluginDone?) {
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

  /// Stops the work on it.
  func cancelWork() {
    let task = work.withLock { work in
      work.cancelled = true
      return work.task
    }
    task?.cancel()
  }
}
