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
    var (members, failure) = try await host.result(of: records).parts
    print(members, reporter)
    let pending = try await host.harness.pendingApprovals()
    await host.close()
    if let conversation { members["conversation"] = conversation.json }
    if !obstacles.isEmpty { members["obstacles"] = .array(obstacles.map { .string($0) }) }
    if !pending.isEmpty {
      members["approvals"] = .array(pending.map { .object(ApprovalText.members($0)) })
      if failure == nil, conversation == nil {
        failure = ApprovalText.error(pending, address)
      }
    }
    if failure == nil { failure = host.denial(address) }
    if failure == nil, let first = obstacles.first {
      failure = PerdureError(
        "blocked",
        "some work cannot go on: \(obstacles.joined(separator: "; "))",
        hint: hint(first, address)
      )
    }
    reporter.end(failure.map { ExitStatus($0) } ?? .ok, members, error: failure)
  }

  /// Prints the answers among the members of a result.
  static func print(_ members: JSONObject, _ reporter: Reporter) {
    guard !reporter.isJSON else { return }
    for answer in members["answers"]?.array ?? [] {
      if let text = answer["text"]?.text { reporter.print(text) }
    }
  }

  static func hint(_ obstacle: String, _ address: StoreAddress) -> String {
    if obstacle.hasSuffix("is parked") {
      return "find out why it is cut off; `\(address.command("task retry")) NUMBER` lets it go on"
    }
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

/// What a command came to, here or in the process that works on the store.
struct HostResult: Sendable {
  var members: JSONObject = [:]
  var failure: PerdureError?

  init() {}

  /// Reads the form that the control socket has.
  init(_ members: JSONObject) {
    self.members = members
    failure = members["error"].flatMap { PerdureError(json: $0) }
    self.members["error"] = nil
  }

  /// The form that the control socket has.
  var json: JSONObject {
    var members = members
    if let failure { members["error"] = failure.json }
    return members
  }

  var parts: (JSONObject, PerdureError?) { (members, failure) }
}
