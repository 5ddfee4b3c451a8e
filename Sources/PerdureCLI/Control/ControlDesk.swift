import Glibc
import Perdure
import PerdureModel
import PerdureValue

/// Does what requests ask of a running host.
struct ControlDesk: Sendable {
  let host: RunningHost
  let address: StoreAddress
  let record: RunRecord

  /// Gets the events of a request.
  typealias Emit = @Sendable (_ type: String, _ members: JSONObject) -> Void

  static let protocolVersion: Int64 = 1

  private var harness: Harness { host.harness }

  /// Answers a request; events come before the result.
  func answer(_ request: ControlRequest, _ emit: @escaping Emit) async throws -> JSONObject {
    if let change = try StoreRequest(request) { return try await change.perform(on: harness) }
    if let change = try PluginRequest(
      operation: request.operation,
      parameters: request.parameters
    ) {
      return try await change.perform(on: host)
    }
    switch request.operation {
    case "hello": return hello
    case "submit": return try await submit(ControlPrompt(request), emit)
    case "resume": return try await resume()
    case "compact": return try await compact(request)
    case "abort": return try await abort(request)
    case "log": return try await log(request, emit)
    case "tasks": return try await tasks()
    case "approvals": return try await approvals()
    case "plugins": return ["plugins": host.description]
    case "close": return try await close(request)
    default:
      throw PerdureError(
        .invalidRequest,
        "this host does not know the control request \(request.operation)",
        hint: "use the same version of perdure for both"
      )
    }
  }

  private var hello: JSONObject {
    [
      "protocol": .int(Self.protocolVersion), "perdure": .string(PerdureVersion.perdure),
      "store": .string(address.text), "process": .int(Int64(getpid())),
      "run": record.json, "approvals": .string(host.approvals.rawValue),
    ]
  }

  // MARK: Work

  private func submit(_ prompt: ControlPrompt, _ emit: @escaping Emit) async throws -> JSONObject {
    if let refusal = harness.refusal { throw refusal }
    try prompt.check(against: record)
    let conversation = try await RunVerb.choose(prompt.conversation, harness, address)
    try await RunVerb.configure(conversation, record, host)
    let follower = SubmissionFollower(conversation.id, emit)
    let stop = harness.subscribe { follower.see($0) }
    defer { stop() }
    let submission = try await conversation.submit(
      prompt.text,
      whenBusy: prompt.whenBusy,
      requestId: prompt.requestId
    )
    let ids: JSONObject = [
      "submission": submission.id.json, "conversation": conversation.id.json,
    ]
    emit("submitted", ids)
    guard prompt.waits else { return ids }
    // A repeated request id names one that may have been settled before anybody followed it.
    let isNews = try await submission.status()?.isSettled != true
    // The wait ends when the connection does; the work goes on.
    let settled = try await submission.wait()
    if isNews { await follower.seen(submission.id) }
    var result = try await host.result(of: [settled])
    result.members["conversation"] = conversation.id.json
    return result.json
  }

  /// Lets everything go on that can, and tells what came of it once nothing runs.
  private func resume() async throws -> JSONObject {
    let before = host.settled.count
    try await harness.resume()
    await harness.waitUntilQuiet()
    let result = try await host.result(of: Array(host.settled.dropFirst(before)))
    return result.json
  }

  private func compact(_ request: ControlRequest) async throws -> JSONObject {
    var reader = ControlParameters(request)
    let id = try reader.conversation()
    guard let conversation = try await harness.conversation(id) else {
      throw Admission.missing(id, address)
    }
    let task = try await conversation.compact(instructions: try reader.text("instructions"))
    _ = try await harness.waitForTask(task)
    return try await CompactVerb.outcome(of: task, host).json
  }

  private func abort(_ request: ControlRequest) async throws -> JSONObject {
    var reader = ControlParameters(request)
    let id = try reader.conversation()
    guard let conversation = try await harness.conversation(id) else {
      throw Admission.missing(id, address)
    }
    try await conversation.abort(background: try reader.flag("background"))
    return ["conversation": id.json]
  }

  // MARK: Looking

  private func log(_ request: ControlRequest, _ emit: @escaping Emit) async throws -> JSONObject {
    var reader = ControlParameters(request)
    let id = try reader.conversation()
    let last = try reader.number("last", in: 1...Int64(Int32.max))
    let store = harness.reader
    guard try await store.reads.conversation(id) != nil else {
      throw Admission.missing(id, address)
    }
    _ = try await store.forEachReadableEntry(of: id, last: last) { entry in
      let time = try await store.time(ofEntry: entry.id)
      emit("entry", EventReport.members(of: entry, at: time))
      return !Task.isCancelled
    }
    let live = try await store.liveTasks(of: id)
    return ["conversation": id.json, "unfinished": .bool(!live.isEmpty)]
  }

  private func tasks() async throws -> JSONObject {
    let tasks = try await harness.inspect().tasks
    return ["tasks": .array(tasks.map { .object(TaskText.members($0.record, $0.condition)) })]
  }

  private func approvals() async throws -> JSONObject {
    let pending = try await harness.pendingApprovals()
    return ["approvals": .array(pending.map { .object(ApprovalText.members($0)) })]
  }

  private func close(_ request: ControlRequest) async throws -> JSONObject {
    var reader = ControlParameters(request)
    if try reader.flag("abort") { try await host.abortAll() }
    // Whoever asked takes the end of the connection for an answer, too.
    host.end.fire(.asked)
    return ["process": .int(Int64(getpid()))]
  }
}
