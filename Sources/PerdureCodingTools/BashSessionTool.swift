import PerdureModel
import PerdureValue
import Synchronization

/// The tool `bash_session`.
struct BashSessionTool: CodingTool {
  let options: CodingToolOptions

  private static let longestWait = 300.0

  var tool: Tool {
    Tool(
      name: "bash_session",
      description: """
        Shows what a session of bash has put out since it was shown last, and whether it still runs. \
        Input is written to it first.
        """,
      parameters: [
        "type": "object",
        "additionalProperties": false,
        "required": ["session"],
        "properties": [
          "session": ["type": "string", "description": "Its id, as bash told it."],
          "input": [
            "type": "string",
            "description":
              "Written to it as it is: end a line with a newline. In a terminal U+0003 is ^C and U+0004 ^D.",
          ],
          "wait": [
            "type": "number", "minimum": 0, "maximum": .double(Self.longestWait),
            "description": "How many seconds new output is waited for; absent: 2.",
          ],
          "stop": [
            "type": "boolean", "description": "Ends it, with all that it started.",
          ],
        ],
      ],
      outputLimits: OutputLimits(retain: .tail),
      deadline: .seconds(600),
      structuredOutputSchema: SessionReading.schema
    ) { call in try await run(CodingCall(call, options)) }
  }

  func run(_ call: CodingCall) async throws -> ToolResult {
    let id = call.arguments["session"]?.text ?? ""
    guard let session = call.env.session(id) else {
      throw ExecutionError(
        .sessionEnded,
        "there is no session \(id.quotedForMessage), or it is gone: sessions end with the host that runs them",
        hint: "start the command again if it is still needed"
      )
    }
    if let input = call.arguments["input"]?.text, !input.isEmpty {
      try session.write(Array(input.utf8))
    }
    let stops = call.arguments["stop"]?.bool == true
    if stops { _ = await session.stop() }
    let wait = min(max(call.arguments["wait"]?.double ?? 2, 0), Self.longestWait)
    return try await SessionReading(session, call).shown(within: wait, isStopped: stops)
  }
}

/// Shows a call what is new of a session.
struct SessionReading {
  static let schema: JSON = [
    "type": "object",
    "required": ["output", "truncated"],
    "properties": [
      "output": ["type": "string"], "truncated": ["type": "boolean"],
      "fullOutputPath": ["type": "string"], "exitCode": ["type": "integer"],
      "session": ["type": "string"], "running": ["type": "boolean"],
    ],
  ]

  /// Seconds without output after which no more is waited for.
  private static let quiet = 0.2

  private let session: any CommandSession
  private let call: CodingCall

  init(_ session: any CommandSession, _ call: CodingCall) {
    self.session = session
    self.call = call
  }

  /// Returns what there is new, once there is something and then nothing for a moment, or it has ended.
  func shown(within seconds: Double, isStopped: Bool = false) async throws -> ToolResult {
    let clock = ContinuousClock()
    let deadline = clock.now + .seconds(seconds)
    var wait = seconds
    var output: SessionOutput
    repeat {
      output = await session.output(
        after: SessionPositions.shared.position(of: session.id),
        within: wait
      )
      if Task.isCancelled { throw ExecutionError(.aborted, "the call was cancelled") }
      for chunk in output.chunks { try call.commands.show(chunk) }
      SessionPositions.shared.note(output.position, of: session.id)
      let left = deadline - clock.now
      wait = min(
        Self.quiet,
        Double(left.components.seconds) + Double(left.components.attoseconds) / 1e18
      )
    } while output.end == nil && !output.chunks.isEmpty && wait > 0
    return try await result(output.end, isStopped: isStopped)
  }

  private func result(_ end: SessionEnd?, isStopped: Bool) async throws -> ToolResult {
    let retained = try await call.commands.retained()
    var answer = ToolResult()
    var values: JSONObject = [
      "output": .string(retained.text), "truncated": .bool(retained.truncated),
      "session": .string(session.id), "running": .bool(end == nil),
    ]
    if let end {
      values["exitCode"] = .int(Int64(end.exitCode))
      if let confinement = end.confinement {
        answer.details = ["confinement": confinement.json]
        answer.diagnostics += confinement.remarks
      }
      tell(end, isStopped: isStopped, &answer)
    } else {
      answer.diagnostics.append(
        ToolDiagnostic(.info, "The session \(session.id) runs", code: "session")
      )
    }
    answer.structuredOutput = .object(values)
    return answer
  }

  private func tell(_ end: SessionEnd, isStopped: Bool, _ answer: inout ToolResult) {
    var remark = ToolDiagnostic(.info, "The session \(session.id) has ended", code: "session_ended")
    if let failure = end.failure {
      if failure.code == .aborted {
        remark.message = "The session \(session.id) was stopped"
      } else {
        answer.isError = true
        remark = ToolDiagnostic(.error, "\(failure)", code: failure.code.rawValue)
      }
    } else if end.exitCode != 0, !isStopped {
      answer.isError = true
      remark = ToolDiagnostic(
        .error,
        "The command exited with code \(end.exitCode)",
        code: "exit_code"
      )
    }
    answer.diagnostics.append(remark)
  }
}

/// How far sessions of this process were shown.
private final class SessionPositions: Sendable {
  static let shared = SessionPositions()

  private static let most = 1_000

  private let positions = Mutex<(known: [String: SessionPosition], order: [String])>(([:], []))

  func position(of id: String) -> SessionPosition {
    positions.withLock { $0.known[id] ?? .start }
  }

  func note(_ position: SessionPosition, of id: String) {
    positions.withLock { positions in
      if positions.known.updateValue(position, forKey: id) == nil { positions.order.append(id) }
      if positions.order.count > Self.most {
        positions.known[positions.order.removeFirst()] = nil
      }
    }
  }
}
