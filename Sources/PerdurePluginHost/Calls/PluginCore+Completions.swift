internal import PerdureModel
import PerdureValue

/// How a plugin said that a call failed.
struct CallFailure: Sendable {
  var status: Int32
  var flags: UInt32 = 0
  var message: String?
  var detail: String?

  static let userVisible: UInt32 = 8
}

/// How a plugin ended a call.
enum CallAnswer: Sendable {
  case value(Payload)
  case failure(CallFailure)
  case junk(BorderProblem)
}

/// What plugins answer and send, on their own threads.
extension PluginCore {
  // MARK: Completions, on the plugin's thread; the id is claimed

  /// Ends a call in the way that the plugin said.
  func finish(_ call: PluginCall, _ answer: CallAnswer) -> Int32 {
    if let relay { return relay.complete(call, answer) }
    return switch answer {
    case .value(let payload): finish(call, with: payload)
    case .failure(let failure): finish(call, with: failure)
    case .junk(let problem): finish(call, withJunk: problem)
    }
  }

  /// Ends a call with bytes; what they should be depends on the call.
  func finish(_ call: PluginCall, with payload: Payload) -> Int32 {
    if isOver(call) { return finishLate(call) }
    do throws(BorderProblem) {
      switch call.kind {
      case _ where call.kind.isTool && payload.isMessage:
        var members = try payload.object()
        if !members.isEmpty {
          members = try call.place.images.restored(.object(members), at: "").object ?? members
        }
        settle(call, .tool(try ToolCompletion.decode(members)))
      case .tool, .wrap: settle(call, .tool(try ToolCompletion.decode(payload)))
      case _ where call.kind.isSection && payload.type == .text:
        let object: JSONObject = ["text": .string(JSONString(try payload.text()))]
        try call.check?(object)
        settle(call, .object(object))
      case .taskPhase, .abort, .hook, .created, .section, .sectionWrap, .plugin, .pure:
        let object = try payload.object()
        try call.check?(object)
        settle(call, .object(object))
      case .bytes: settle(call, .bytes(payload.bytes))
      }
      return 0
    } catch {
      return finish(call, withJunk: error)
    }
  }

  /// Ends a call with the plugin's error.
  func finish(_ call: PluginCall, with failure: CallFailure) -> Int32 {
    if isOver(call) { return finishLate(call) }
    guard failure.status < 0 else {
      return finish(call, withJunk: .shape("a positive status (\(failure.status))", at: ""))
    }
    settle(call, .failed(error(of: failure, call)))
    return 0
  }

  /// Ends a call that was answered with something that cannot be used.
  func finish(_ call: PluginCall, withJunk problem: BorderProblem) -> Int32 {
    if isOver(call) { return finishLate(call) }
    let sentence = "answered \(call.label) with \(problem.phrase)"
    strike(sentence)
    settle(
      call,
      .failed(
        PerdureError(
          "tool_error",
          "plugin \(id) \(sentence)",
          hint: "report this to the plugin's author",
          details: ["reason": .string(problem.reason)]
        )
      )
    )
    return problem.code.rawValue
  }

  /// Whether the engine has given up a cancelled call, which only it knows for certain.
  private func isOver(_ call: PluginCall) -> Bool {
    guard let host = call.host, call.cancelReason != nil else { return false }
    do {
      _ = try host.retainedOutput()
      return false
    } catch {
      return (error as? PerdureError)?.code == .invocationEnded
    }
  }

  private func finishLate(_ call: PluginCall) -> Int32 {
    noteStaleCompletion(of: call.id)
    settle(
      call,
      .failed(PerdureError("interrupted", "plugin \(id) answered \(call.label) too late"))
    )
    return BorderCode.stale.rawValue
  }

  private func error(of failure: CallFailure, _ call: PluginCall) -> PerdureError {
    let code = BorderCode(rawValue: failure.status)
    let word = code?.word ?? "\(failure.status)"
    let plain = "\(call.label) of plugin \(id) failed (\(word))"
    let kind: PerdureError.Code =
      switch code {
      case .cancelled: .cancelled
      default: "tool_error"
      }
    var details: JSONObject = ["code": .int(Int(failure.status))]
    if let text = failure.detail, let detail = try? JSON(parsing: text, options: .border) {
      details["detail"] = detail
    }
    guard let message = failure.message, !message.isEmpty else {
      return PerdureError(kind, plain, details: .object(details))
    }
    // Its text is for the operator, not for the model.
    guard failure.flags & CallFailure.userVisible != 0 else {
      environment.report(
        Report(
          type: "plugin_error",
          message: "\(plain): \(secrets.masked(message))",
          extensionName: id
        )
      )
      return PerdureError(kind, plain, details: .object(details))
    }
    return PerdureError(kind, message, details: .object(details))
  }

  // MARK: Output

  /// Takes a frame of output.
  func emit(_ payload: Payload, on call: PluginCall) -> BorderCode? {
    do throws(BorderProblem) {
      let frame: OutputFrame
      switch payload.type {
      case .text:
        guard String(validating: payload.bytes, as: UTF8.self) != nil else { throw .notUTF8 }
        frame = .text(payload.bytes)
      case .bytes: frame = .bytes(payload.bytes)
      case .json: frame = try FrameDecoder.decode(try payload.object())
      case .image, .parts: throw .mediaType(payload.type.name)
      }
      guard !payload.bytes.isEmpty else { return nil }
      if let relay { return relay.emit(payload, on: call) }
      return call.emit(frame, bytes: payload.bytes.count)
    } catch {
      noteJunk("sent output of \(call.label) with \(error.phrase)")
      return error.code
    }
  }
}
