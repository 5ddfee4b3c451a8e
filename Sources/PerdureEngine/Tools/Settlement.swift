import PerdureModel
import PerdureValue

/// What becomes of a call: its result for the model and the outcome of its task.
struct Settlement {
  /// The outcome without its result; absent for a call that completed.
  var outcome: TaskOutcome?
  /// Why there is no result of the tool itself.
  var failure: ToolDiagnostic?
  /// Whether output and details are those that the slot shows, as after a crash.
  var fromSlot = false

  private(set) var content: [JSON] = []
  var diagnostics: [ToolDiagnostic] = []
  var isError = false
  private var details: JSON?
  /// What programs get.
  var structuredOutput: JSON?
  private(set) var usage: Usage?
  /// What the result asks of its round.
  private var control: JSONObject?
  private(set) var durationMs: Int64?

  init(outcome: TaskOutcome?, failure: ToolDiagnostic, fromSlot: Bool = false) {
    self.outcome = outcome
    self.failure = failure
    self.fromSlot = fromSlot
  }

  init(
    _ end: ToolExecution.End,
    _ reported: RunningCall.Reported,
    _ tool: Tool,
    _ durationMs: Int64
  ) {
    self.durationMs = durationMs
    diagnostics = reported.diagnostics
    details = reported.details
    switch end {
    case .returned(let result): take(result, reported, tool)
    case .threw(let message):
      keep(reported.retained)
      failure = ToolDiagnostic(.error, message, code: "tool_error")
      outcome = .failed(message: message)
    case .abandoned:
      keep(reported.retained)
      let text = "the call did not end in time and was given up; it may still be running"
      failure = ToolDiagnostic(.error, text, code: "interrupted")
      outcome = .failed(message: text)
    }
  }

  private mutating func take(
    _ result: ToolResult,
    _ reported: RunningCall.Reported,
    _ tool: Tool
  ) {
    isError = result.isError
    usage = result.usage
    structuredOutput = result.structuredOutput
    details = result.details ?? details
    diagnostics += result.diagnostics
    take(result.control)
    guard let output = result.output else { return keep(reported.retained) }
    let bounded = OutputWindow.bound(output, limits: tool.outputLimits)
    content = bounded.content
    if bounded.truncated { noteTruncation(bounded.droppedBytes, bounded.droppedLines) }
  }

  /// Keeps what the result asks of its round, if it is well formed.
  private mutating func take(_ control: JSONObject?) {
    guard let control, !control.isEmpty else { return }
    func fits(_ key: JSONString, _ value: JSON) -> Bool {
      switch key {
      case "terminate": value == true
      case "handoff": value.string != nil
      case "addTools": value.array?.allSatisfy { $0.string != nil } ?? false
      default: true
      }
    }
    let wrong = control.filter { !fits($0.key, $0.value) }.map { $0.key.string }
    guard wrong.isEmpty else {
      let names = wrong.sorted().joined(separator: ", ")
      return diagnostics.append(
        ToolDiagnostic(.warn, "the control part of the result was ignored: \(names) is wrong")
      )
    }
    self.control = control
  }

  private mutating func keep(_ retained: OutputWindow.Retained) {
    if !retained.text.isEmpty { content = [["type": "text", "text": .string(retained.text)]] }
    if retained.truncated { noteTruncation(retained.droppedBytes, retained.droppedLines) }
  }

  private mutating func noteTruncation(_ bytes: Int, _ lines: Int) {
    diagnostics.append(Self.truncation(Int64(bytes), Int64(lines)))
  }

  private static func truncation(_ bytes: Int64, _ lines: Int64) -> ToolDiagnostic {
    ToolDiagnostic(
      .warn,
      "the output was truncated: \(bytes) bytes, \(lines) lines left out",
      code: "truncated"
    )
  }

  /// What a result says, whoever gets it.
  struct Said {
    var content: [JSON]
    var details: JSON?
    var diagnostics: [ToolDiagnostic]
    var isError: Bool
  }

  /// What the result says, with what the slot shows if that is all there is.
  func said(slot: JSON?) -> Said {
    var content = content
    var details = details
    var diagnostics = diagnostics
    if fromSlot {
      if let output = slot?["output"], output.string?.isEmpty == false {
        content = [["type": "text", "text": output]]
      }
      details = slot?["details"]
      diagnostics = (slot?["diagnostics"]?.array ?? []).compactMap { ToolDiagnostic(json: $0) }
      if let bytes = slot?["droppedBytes"]?.int, bytes > 0 {
        diagnostics.append(Self.truncation(bytes, slot?["droppedLines"]?.int ?? 0))
      }
    }
    if let failure { diagnostics.append(failure) }
    return Said(
      content: content,
      details: details,
      diagnostics: diagnostics,
      isError: isError || failure != nil
    )
  }

  /// The entry that holds the result.
  func entry(for call: RequestedCall, slot: JSON?, at now: Int64) -> EntryDraft {
    let said = said(slot: slot)
    return ToolResultEntry.draft(
      call,
      content: said.content,
      diagnostics: said.diagnostics,
      isError: said.isError,
      details: said.details,
      usage: usage,
      durationMs: durationMs,
      at: now
    )
  }

  /// The outcome of the task, with what it leaves.
  func outcome(_ result: JSONObject) -> TaskOutcome {
    var result = result
    switch outcome {
    case .failed(let message, let detail, _):
      return .failed(message: message, detail: detail, result: .object(result))
    case .aborted(let reason, _): return .aborted(reason: reason, result: .object(result))
    default:
      // A call of another tool has no round of which it could ask something.
      if let control, result["kind"] == "model" { result["control"] = .object(control) }
      return .completed(result: .object(result))
    }
  }
}
