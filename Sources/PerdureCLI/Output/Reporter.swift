import CPerdureLinux
import Perdure
import PerdureModel
import PerdureValue
import Synchronization

/// Everything that this command says, in the one form that was asked for.
///
/// For people, answers go to standard output and the rest to standard error; for programs, events
/// go to standard output, the first line a header and the last one the result.
final class Reporter: Sendable {
  private struct State {
    var hasHeader = false
    /// The events of before the header, which come behind it.
    var early: [[UInt8]] = []
    var isEnding = false
    /// Whose output ends in the middle of a line of the terminal.
    var openLine: TaskID?
  }

  let isJSON: Bool
  let verb: String
  private let hasEvents: Bool
  private let state = Mutex(State())

  /// Whether a person watches the progress.
  let showsProgress: Bool
  private let cleansOutput: Bool

  /// Makes a reporter; a verb without events has one object as its JSON output.
  init(verb: String, hasEvents: Bool, isJSON: Bool) {
    self.verb = verb
    self.hasEvents = hasEvents
    self.isJSON = isJSON
    cleansOutput = HostText.Stream.output.isTerminal
    showsProgress = !isJSON && HostText.Stream.error.isTerminal
  }

  /// Whether bold headings may be used on standard output.
  var usesStyle: Bool {
    func isSet(_ name: String) -> Bool { HostText.variable(name)?.isEmpty == false }
    if isJSON || isSet("NO_COLOR") { return false }
    if isSet("CLICOLOR_FORCE") || isSet("FORCE_COLOR") { return true }
    return cleansOutput && HostText.variable("TERM") != "dumb"
  }

  // MARK: Standard output

  /// Writes text of a conversation, with a line end behind it.
  func print(_ text: String) {
    let text = cleansOutput ? TerminalText.cleaned(text) : text
    closeLine()
    HostText.queueOutput(Array((text.hasSuffix("\n") ? text : text + "\n").utf8))
  }

  /// Writes text as it is; for what this program styled itself.
  func printStyled(_ text: String) { HostText.queueOutput(Array(text.utf8)) }

  /// Writes the first line of events, with what is known of the run.
  func header(_ members: JSONObject) {
    guard isJSON else { return }
    state.withLock { if !$0.isEnding { queueHeader(members, &$0) } }
  }

  // Under the lock, so that no event of another thread comes between.
  private func queueHeader(_ members: JSONObject, _ state: inout State) {
    guard !state.hasHeader else { return }
    state.hasHeader = true
    var object: JSONObject = [
      "type": "header", "schema": 1, "perdure": .string(PerdureVersion.perdure),
      "verb": .string(verb),
    ]
    for (key, value) in members { object[key] = value }
    HostText.queueOutput(EventLine.bytes(.object(object)))
    for line in state.early { HostText.queueOutput(line) }
    state.early = []
  }

  /// Writes an event.
  func event(_ type: String, _ members: JSONObject) {
    guard isJSON, state.withLock({ !$0.isEnding }) else { return }
    var object: JSONObject = ["type": .string(type)]
    for (key, value) in members { object[key] = value }
    let line = EventLine.bytes(.object(object))
    let isEarly = state.withLock { state in
      guard hasEvents, !state.hasHeader else { return false }
      state.early.append(line)
      return true
    }
    if !isEarly { HostText.queueOutput(line) }
  }

  // MARK: Standard error

  /// Says what goes on, to a person who watches.
  func progress(_ text: String) {
    guard showsProgress else { return }
    closeLine()
    HostText.writeError(Array((TerminalText.line(text) + "\n").utf8))
  }

  /// How many lines of output are shown at once.
  private static let outputLines = 10
  private static let margin = "  │ "

  /// Shows the end of what a running tool has put out, to a person who watches.
  func output(_ task: TaskID, _ text: String) {
    guard showsProgress else { return }
    var lines = TerminalText.cleaned(text).split(separator: "\n", omittingEmptySubsequences: false)
    let isOpen = lines.last != ""
    if !isOpen { lines.removeLast() }
    if lines.count > Self.outputLines { lines = ["…"] + lines.suffix(Self.outputLines) }
    let start = state.withLock { state in
      defer { state.openLine = isOpen ? task : nil }
      guard let open = state.openLine else { return Self.margin }
      return open == task ? "" : "\n" + Self.margin
    }
    let body = lines.joined(separator: "\n" + Self.margin)
    HostText.writeError(Array((start + body + (isOpen ? "" : "\n")).utf8))
  }

  private func closeLine() {
    let isOpen = state.withLock { state in
      defer { state.openLine = nil }
      return state.openLine != nil
    }
    if isOpen { HostText.writeError([UInt8(ascii: "\n")]) }
  }

  /// Says something that deserves attention but changes nothing.
  func warn(_ sentence: String) {
    if isJSON { return event("report", ["kind": "warning", "message": .string(sentence)]) }
    closeLine()
    HostText.writeError(Array("perdure: \(TerminalText.line(sentence, limit: 1_000))\n".utf8))
  }

  /// Passes on a report of the engine or of a plugin.
  func report(_ report: Report) {
    var members: JSONObject = ["kind": .string(report.type), "message": .string(report.message)]
    if let task = report.task { members["task"] = task.json }
    if let name = report.extensionName { members["extension"] = .string(name) }
    if isJSON { return event("report", members) }
    let text = report.extensionName.map { "\($0): \(report.message)" } ?? report.message
    // What a plugin only mentions is for a person who watches, or for the log of a host.
    let isMention = report.type == "plugin_log" && !Self.isUrgent(report) && verb != "serve"
    if isMention { progress(text) } else { warn(text) }
  }

  /// Whether a plugin logged it as a warning or an error.
  private static func isUrgent(_ report: Report) -> Bool {
    report.message.hasPrefix("[warn] ") || report.message.hasPrefix("[error] ")
  }

  /// Passes on what a plugin has measured, to programs.
  func measure(_ measurement: PluginMeasurement) {
    guard isJSON else { return }
    var members: JSONObject = [
      "plugin": .string(measurement.plugin), "name": .string(measurement.name),
    ]
    members[JSONString(measurement.kind.rawValue)] = .double(measurement.value)
    if !measurement.labels.isEmpty { members["labels"] = .object(measurement.labels) }
    event("metric", members)
  }

  private func write(_ error: PerdureError) {
    guard isJSON else {
      let sentence = TerminalText.line("\(error)", limit: 4_000)
      closeLine()
      return HostText.writeError(Array("perdure: \(sentence)\n".utf8))
    }
    HostText.writeError(EventLine.bytes(error.json))
  }

  // MARK: The end

  /// Ends the process; what was queued is written first.
  ///
  /// Whoever calls second never returns: the first one decides how the process ends.
  func end(_ status: ExitStatus, _ members: JSONObject = [:], error: PerdureError? = nil) -> Never {
    claimEnd()
    if isJSON, hasEvents { queueResult(status, members, error) }
    if let error { write(error) }
    drain(status)
  }

  /// Ends the process without a result line, after output that is complete in itself.
  func endPlainly(_ status: ExitStatus) -> Never {
    claimEnd()
    drain(status)
  }

  private func claimEnd() {
    let isFirst = state.withLock { state in
      defer { state.isEnding = true }
      return !state.isEnding
    }
    if !isFirst { perdure_process_wait() }
  }

  private func drain(_ status: ExitStatus) -> Never {
    var status = status
    if let reason = HostText.finishOutput() {
      write(
        PerdureError(
          "output_lost",
          "standard output could not be written",
          hint: ["run", "resume", "compact"].contains(verb)
            ? "'perdure log' shows what was answered"
            : "free space there, or let it go elsewhere",
          cause: reason
        )
      )
      if status == .ok { status = .runFailed }
    }
    perdure_process_end(status.rawValue)
  }

  private func queueResult(_ status: ExitStatus, _ members: JSONObject, _ error: PerdureError?) {
    state.withLock { queueHeader([:], &$0) }
    var object: JSONObject = [
      "type": "result", "status": status == .ok ? "ok" : "failed",
      "exit": .int(Int(status.rawValue)),
    ]
    for (key, value) in members { object[key] = value }
    if let error { object["error"] = error.json }
    HostText.queueOutput(EventLine.bytes(.object(object)))
  }
}

extension PerdureError {
  /// The error for programs.
  var json: JSON {
    var object: JSONObject = ["code": .string(code.rawValue), "message": .string(message)]
    if let cause { object["cause"] = .string(cause) }
    if let hint { object["hint"] = .string(hint) }
    if let details { object["details"] = details }
    return .object(object)
  }
}
