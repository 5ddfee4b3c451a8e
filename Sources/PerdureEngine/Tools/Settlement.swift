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
  private(set) var details: JSON?
  /// What programs get.
  var structuredOutput: JSON?
  private(set) var usage: Usage?
  /// What the result asks of its round.
  private var control: JSONObject?
  private(set) var durationMs: Int64?
  /// Present while the content is the output that was retained, if that is not all of it.
  private var truncation: ToolDiagnostic?

  init(outcome: TaskOutcome?, failure: ToolDiagnostic, fromSlot: Bool = false) {
    self.outcome = outcome
    self.failure = failure
    self.fromSlot = fromSlot
  }

  init(_ end: ToolExecution.End, _ reported: RunningCall.Reported, _ durationMs: Int64) {
    self.durationMs = durationMs
    diagnostics = reported.diagnostics
    details = reported.details
    if let details, !StorageWrite.takes(details) {
      self.details = nil
      diagnostics.append(
        ToolDiagnostic(.warn, "the details were left out: \(HandedOver.unreadable)")
      )
    }
    switch end {
    case .returned(let result):
      if let misuse = HandedOver.misuse(result: result) {
        // Whatever is no content would stand in every later request.
        keep(reported.retained)
        fail("the result of the tool cannot be used: \(misuse)", "tool_error")
        return
      }
      isError = result.isError
      usage = result.usage
      details = result.details ?? details
      diagnostics += result.diagnostics
      structuredOutput = result.structuredOutput
      take(result.control)
      if let output = result.output { content = output } else { keep(reported.retained) }
    case .threw(let message, let code):
      keep(reported.retained)
      fail(message, Self.codes.contains(code) ? code : "tool_error")
    case .cutOff(let error):
      keep(reported.retained)
      fail(error.description, "interrupted")
    case .abandoned:
      keep(reported.retained)
      fail("the call did not end in time and was given up; it may still be running", "interrupted")
    }
  }

  /// The codes that the model may get for what was thrown.
  private static let codes: Set<String> = ["tool_unavailable", "interrupted", "blocked"]

  private mutating func fail(_ message: String, _ code: String) {
    isError = true
    diagnostics.append(ToolDiagnostic(.error, message, code: code))
    outcome = .failed(message: message)
  }

  // MARK: Changes

  /// The result as hooks see it.
  var result: ToolResult {
    ToolResult(
      output: content,
      structuredOutput: structuredOutput,
      isError: isError,
      details: details,
      diagnostics: diagnostics,
      usage: usage,
      control: control
    )
  }

  /// Takes over what the slot shows and why there is no result, so that hooks can see it.
  mutating func read(slot: JSON?) {
    guard fromSlot else { return }
    fromSlot = false
    if let output = slot?["output"], output.string?.isEmpty == false {
      content = [["type": "text", "text": output]]
    }
    details = slot?["details"]
    diagnostics = (slot?["diagnostics"]?.array ?? []).compactMap { ToolDiagnostic(json: $0) }
    if let bytes = slot?["droppedBytes"]?.int, bytes > 0 {
      diagnostics.append(Self.truncation(bytes, slot?["droppedLines"]?.int ?? 0))
    }
    if let failure { diagnostics.append(failure) }
    isError = failure != nil
    failure = nil
  }

  /// Does with the result as the hooks decided; the outcome of the task stays.
  mutating func apply(_ decision: ResultDecision) {
    switch decision {
    case .proceed: break
    case .change(let changed): change(to: changed)
    case .deny(let reason):
      // What is kept from the model must not reach it by another way either.
      let spent = usage
      change(to: ToolResult(output: [], isError: true))
      usage = spent
      let text = "the result was blocked: \(reason)"
      diagnostics = [ToolDiagnostic(.error, text, code: "blocked")]
    }
  }

  private mutating func change(to changed: ToolResult) {
    if changed.output != content { truncation = nil }
    content = changed.output ?? content
    structuredOutput = changed.structuredOutput
    isError = changed.isError
    details = changed.details
    diagnostics = changed.diagnostics
    usage = changed.usage
    control = nil
    take(changed.control)
  }

  /// Puts the text within the limits and says so where some was left out.
  mutating func bound(_ limits: OutputLimits) {
    if let truncation { diagnostics.append(truncation) }
    let bounded = OutputWindow.bound(content, limits: limits)
    content = bounded.content
    guard bounded.truncated else { return }
    diagnostics.append(
      Self.truncation(Int64(bounded.droppedBytes), Int64(bounded.droppedLines))
    )
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
    guard retained.truncated else { return }
    truncation = Self.truncation(Int64(retained.droppedBytes), Int64(retained.droppedLines))
  }

  private static func truncation(_ bytes: Int64, _ lines: Int64) -> ToolDiagnostic {
    ToolDiagnostic(
      .warn,
      "the output was truncated: \(bytes) bytes, \(lines) lines left out",
      code: "truncated"
    )
  }

  /// The result as its caller gets it: with what the slot shows, if that is all there is.
  func complete(slot: JSON?) -> Settlement {
    var complete = self
    complete.read(slot: slot)
    if let failure = complete.failure { complete.diagnostics.append(failure) }
    complete.isError = complete.isError || complete.failure != nil
    complete.failure = nil
    complete.diagnostics = DiagnosticBounds.bounded(complete.diagnostics)
    return complete
  }

  /// The entry that holds the result.
  func entry(for call: RequestedCall, slot: JSON?, at now: Int64) -> EntryDraft {
    let complete = complete(slot: slot)
    return ToolResultEntry.draft(
      call,
      content: complete.content,
      diagnostics: complete.diagnostics,
      isError: complete.isError,
      details: complete.details,
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
      let message = DiagnosticBounds.text(message)
      return .failed(message: message, detail: detail, result: .object(result))
    case .aborted(let reason, _): return .aborted(reason: reason, result: .object(result))
    default:
      // A call of another tool has no round of which it could ask something.
      if let control, result["kind"] == "model" { result["control"] = .object(control) }
      return .completed(result: .object(result))
    }
  }
}
