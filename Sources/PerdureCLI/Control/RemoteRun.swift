import Perdure
import PerdureModel
import PerdureValue
import Synchronization

/// Lets the process that works on a store do what a verb asks for.
struct RemoteRun: Sendable {
  /// What ends the wait.
  private enum End: Sendable {
    case answered(Result<JSONObject, PerdureError>)
    case signal(Int32)
  }

  private let client: ControlClient
  private let address: StoreAddress
  private let reporter: Reporter

  init(_ client: ControlClient, _ address: StoreAddress, _ reporter: Reporter) {
    self.client = client
    self.address = address
    self.reporter = reporter
  }

  /// Gives a prompt, shows what happens, and ends with the answer.
  func run(
    _ prompt: String,
    _ conversation: ChosenConversation,
    _ whenBusy: PromptPolicy,
    _ arguments: ParsedArguments
  ) async throws -> Never {
    var parameters: JSONObject = [
      "prompt": .string(prompt), "whenBusy": .string(whenBusy.whenBusy.rawValue),
      "options": options(arguments),
    ]
    switch conversation {
    case .first: break
    case .new: parameters["conversation"] = "new"
    case .existing(let id): parameters["conversation"] = id.json
    }
    var header: JSONObject = ["store": .string(address.text)]
    if case .existing(let id) = conversation { header["conversation"] = id.json }
    if arguments.has("approvals") { try await check(try ApprovalMode(arguments)) }
    let abort = arguments.has("abort-on-interrupt")
    try await follow("submit", parameters, header, abortsOnSignal: abort)
  }

  /// Throws if the host does something else about calls that need an approval.
  private func check(_ wanted: ApprovalMode) async throws {
    guard let word = try await client.ask("hello")["approvals"]?.text,
      let mode = ApprovalMode(rawValue: word), mode.setting != wanted.setting
    else { return }
    throw PerdureError(
      .invalidConfiguration,
      "the process that works on the store runs it in another way",
      hint: "leave --approvals out, or end that process with `\(address.command("close"))` first",
      cause: "there it is --approvals \(word)"
    )
  }

  /// Lets unfinished work go on, and ends when nothing runs.
  func resume(_ arguments: ParsedArguments) async throws -> Never {
    try await follow("resume", [:], ["store": .string(address.text)])
  }

  /// Lets the older part of a conversation be summarized.
  func compact(_ id: ConversationID, _ arguments: ParsedArguments) async throws -> Never {
    var parameters: JSONObject = ["conversation": id.json]
    if let text = arguments.value("instructions") { parameters["instructions"] = .string(text) }
    let header: JSONObject = ["store": .string(address.text), "conversation": id.json]
    try await follow("compact", parameters, header)
  }

  private func follow(
    _ operation: String,
    _ parameters: JSONObject,
    _ header: JSONObject,
    abortsOnSignal: Bool = false
  ) async throws -> Never {
    var header = header
    let hello = try await client.ask("hello")
    header["owner"] = hello["process"]
    reporter.header(header)
    if let process = hello["process"]?.int {
      reporter.progress("process \(process) works on the store; it is asked")
    }
    let end = OneEvent<End>()
    let place = Place()
    SignalWatch.handle { end.fire(.signal($0)) }
    // Ends with the process.
    Task { [client, reporter] in
      do {
        let result = try await client.ask(operation, parameters) { type, members in
          place.note(members["conversation"])
          Self.show(type, members, reporter)
        }
        end.fire(.answered(.success(result)))
      } catch {
        let error = error as? PerdureError ?? PerdureError("internal", "\(error)")
        end.fire(.answered(.failure(error)))
      }
    }
    switch await end.value {
    case .answered(.success(let result)): finish(HostResult(result))
    case .answered(.failure(let error)): throw Remedy.named(error, address)
    case .signal(let signal):
      try await stop(signal, abortsOnSignal ? place.conversation : nil)
    }
  }

  private static func show(_ type: String, _ members: JSONObject, _ reporter: Reporter) {
    if reporter.isJSON { return reporter.event(type, members) }
    switch type {
    case "entry":
      if let entry = try? EntryRecord(json: .object(members)) { EventReport.show(entry, reporter) }
    case "output":
      if let task = TaskID(members["task"]), let text = members["text"]?.text {
        reporter.output(task, text)
      }
    case "approval":
      let id = members["id"]?.int ?? 0
      reporter.warn("a call waits for an approval (\(id)): \(members["title"]?.text ?? "")")
    default: break
    }
  }

  private func finish(_ result: HostResult) -> Never {
    Outcome.print(result.members, reporter)
    if !reporter.isJSON, let text = result.members["text"]?.text { reporter.print(text) }
    if let note = result.members["note"]?.text { reporter.progress(note) }
    let status = result.failure.map { ExitStatus($0) } ?? .ok
    reporter.end(status, result.members, error: result.failure)
  }

  /// Ends after a signal; the work goes on unless it is to be aborted.
  private func stop(_ signal: Int32, _ conversation: JSON?) async throws -> Never {
    var hint = "the process that works on the store goes on with it"
    if let conversation {
      reporter.progress("aborting; once more to quit at once")
      _ = try await client.ask("abort", ["conversation": conversation, "background": true])
      hint = "the work was aborted; there is nothing to continue"
    }
    reporter.end(ExitStatus(signal: signal), error: SignalWatch.error(signal, hint: hint))
  }

  /// The options that say how to run; paths are those of this process.
  private func options(_ arguments: ParsedArguments) -> JSON {
    let others = ["store", "json", "approvals"]
    var object: JSONObject = [:]
    for option in RunOptions.all where arguments.has(option.name) && !others.contains(option.name) {
      let isPath = ["plugin", "plugins", "faux", "cwd", "write"].contains(option.name)
      object[JSONString(option.name)] = .array(
        arguments.all(option.name).map { value in
          .string(isPath ? HostText.fullPath(value) ?? HostText.absolutePath(value) : value)
        }
      )
    }
    return .object(object)
  }
}

/// The conversation that a prompt went to, once it is known.
private final class Place: Sendable {
  private let value = Mutex<JSON?>(nil)

  var conversation: JSON? { value.withLock { $0 } }

  func note(_ conversation: JSON?) {
    guard let conversation else { return }
    value.withLock { $0 = $0 ?? conversation }
  }
}
