import Perdure
import PerdureModel
import PerdureValue
import Synchronization

/// What a run does about calls that need an approval.
enum ApprovalMode: String, CaseIterable {
  case wait, deny, ask

  static let option = Option(
    name: "approvals",
    value: "HOW",
    help: "ask on the terminal, wait for 'perdure approve', or deny\ncalls that need an approval",
    standard: "ask on a terminal, else deny"
  )

  /// Reads `--approvals`; without it people are asked, and scripts are not.
  init(_ arguments: ParsedArguments) throws {
    let isTerminal = HostText.Stream.input.isTerminal && HostText.Stream.error.isTerminal
    self = try arguments.choice("approvals", ApprovalMode.self) ?? (isTerminal ? .ask : .deny)
    if self == .ask, !isTerminal {
      throw UsageError.make(
        "--approvals ask needs a terminal",
        "write --approvals wait, and answer with 'perdure approve' or 'perdure deny'"
      )
    }
  }

  var setting: HarnessSettings.Approvals { self == .deny ? .deny : .wait }
}

/// How approvals are shown.
enum ApprovalText {
  /// Returns what is asked, in a line.
  static func sentence(_ approval: Approval) -> String {
    var words = approval.title
    if let tool = approval.tool, let arguments = approval.arguments {
      words += "  \(tool) \(arguments.compactText)"
    }
    return words
  }

  /// Returns the members of an approval in `--json`.
  static func members(_ approval: Approval) -> JSONObject {
    var members: JSONObject = [
      "id": approval.id.json, "conversation": approval.conversationId.json,
      "title": .string(approval.title),
    ]
    if let body = approval.body { members["body"] = .string(body) }
    if let tool = approval.tool { members["tool"] = .string(tool) }
    if let arguments = approval.arguments { members["arguments"] = arguments }
    if let at = approval.askedAt { members["askedAt"] = .int(at) }
    if let at = approval.expiresAt { members["expiresAt"] = .int(at) }
    if let choices = approval.choices {
      members["choices"] = .array(
        choices.map {
          ["id": .string($0.id), "label": .string($0.label), "allows": .bool($0.allows)]
        }
      )
    }
    return members
  }

  /// Makes the error of work that waits for these.
  static func error(_ approvals: [Approval], _ address: StoreAddress) -> PerdureError {
    let ids = approvals.map { "\($0.id)" }.joined(separator: ", ")
    let first = approvals.first.map { "\($0.id)" } ?? "ID"
    if case .memory = address {
      return PerdureError(
        .approvalRequired,
        "a call waited for an approval, and the store in memory is gone",
        hint: "give --store PATH, so that it can be decided later"
      )
    }
    return PerdureError(
      .approvalRequired,
      approvals.count == 1
        ? "a call waits for an approval (\(ids))" : "calls wait for approvals (\(ids))",
      hint: "`\(address.command("approve")) \(first)` or `\(address.command("deny")) \(first)`,"
        + " then `\(address.resumeCommand)`"
    )
  }

  /// Makes the error of a run in which calls were denied because nobody could be asked.
  static func denied(_ count: Int, _ address: StoreAddress) -> PerdureError {
    // What is decided later must be kept somewhere until then.
    let store = if case .memory = address { "--store PATH and " } else { "" }
    return PerdureError(
      .approvalRequired,
      count == 1
        ? "a call was denied, because nobody could be asked"
        : "\(count) calls were denied, because nobody could be asked",
      hint: "run it with \(store)--approvals wait to decide about such calls"
    )
  }
}

extension PerdureError.Code {
  /// A call needs an approval that nobody has given.
  static let approvalRequired: Self = "approval_required"
}

/// Asks on the terminal.
enum ApprovalPrompt {
  /// Asks about each of these and decides; `false` if nobody answers any more.
  static func ask(
    _ approvals: [Approval],
    _ harness: Harness,
    _ reporter: Reporter
  ) async -> Bool {
    for approval in approvals {
      // An answer to one question may have withdrawn another.
      guard case .pending? = try? await harness.approval(approval.id)?.status else { continue }
      var text = "? \(ApprovalText.sentence(approval))\n"
      if let body = approval.body { text += body + "\n" }
      text += "  y for yes, n or a reason for no: "
      HostText.writeError(Array(TerminalText.cleaned(text).utf8))
      guard let line = await HostText.inputLine() else {
        HostText.writeError([0x0A])
        return false
      }
      do {
        try await decide(approval.id, line, harness)
      } catch {
        reporter.warn("warning: \((error as? PerdureError)?.description ?? "\(error)")")
      }
    }
    return true
  }

  private static func decide(_ id: TaskID, _ line: String, _ harness: Harness) async throws {
    let answer = line.split(whereSeparator: \.isWhitespace).joined(separator: " ")
    let by = HostText.variable("USER")
    switch answer.lowercased() {
    case "y", "yes": try await harness.approve(id, by: by)
    case "", "n", "no": try await harness.deny(id, by: by)
    default: try await harness.deny(id, reason: answer, by: by)
    }
  }
}

/// How many calls were denied because nobody could be asked.
final class DenialCount: Sendable {
  private let count = Mutex(0)

  func add() { count.withLock { $0 += 1 } }

  /// Makes the error of what was denied, if anything was.
  func error(_ address: StoreAddress) -> PerdureError? {
    let count = count.withLock { $0 }
    return count == 0 ? nil : ApprovalText.denied(count, address)
  }
}
