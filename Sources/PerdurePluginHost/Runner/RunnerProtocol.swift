import PerdureValue

/// What host and runner agree on.
package enum RunnerProtocol {
  static let version: Int64 = 1
  /// The version of Perdure; host and runner must be of the same.
  package static let build = "0.1.0"
  /// The name of the program.
  package static let program = "perdure-runner"

  /// Seconds for the first frame.
  static let helloSeconds: Int64 = 5
  /// Seconds of silence after which the other side is asked for a sign of life.
  static let quietSeconds: Int64 = 5
  /// Seconds of silence after which the other side counts as hung.
  static let hungSeconds: Int64 = 15

  /// What both sides say first.
  static func hello(process: Int32, digest: String?) -> Frame {
    var members: JSONObject = [
      "protocol": .int(version), "abi": 1, "minor": 0, "messages": 1, "build": .string(build),
      "pid": .int(Int64(process)),
      "interfaces": .array(PluginFiles.interfaces.sorted().map { .string($0) }),
      "limits": [
        "datagramBytes": .int(Frame.datagramLimit), "payloadBytes": .int(Frame.payloadLimit),
        "openRequests": .int(Int64(PluginCore.openRequests)),
      ],
    ]
    if let digest { members["sha256"] = .string(digest) }
    return Frame(.hello, payload: JSON.object(members).encoded)
  }

  /// Returns what does not fit in the first frame of the other side, or `nil`.
  static func mismatch(_ frame: Frame, digest: String?) -> String? {
    guard frame.type == .hello, let json = try? JSON(parsing: frame.payload ?? []) else {
      return "it does not begin with a greeting"
    }
    if json["protocol"]?.int != version { return "it speaks another protocol" }
    if json["build"]?.text != build {
      return "it is of version \(json["build"]?.text ?? "unknown") and this is \(build)"
    }
    if let digest, json["sha256"]?.text != digest { return "it has read another file" }
    return nil
  }

  // MARK: Errors

  /// The error of a frame.
  struct Problem: Sendable {
    var code: Int32 = 0
    var flags: UInt32 = 0
    var message: String?
    var detail: JSON?
    /// Whether the runner made it, because what the plugin passed cannot be sent.
    var isJunk = false
    /// The step of the life cycle.
    var step: String?

    /// Gives the bytes, within what a frame may hold.
    var encoded: [UInt8] {
      let bytes = encoding(message, detail)
      if bytes.count <= Frame.errorLimit { return bytes }
      let short = message.map { String(decoding: $0.utf8.prefix(2_048), as: UTF8.self) }
      let less = encoding(short, detail)
      return less.count <= Frame.errorLimit ? less : encoding(short, nil)
    }

    private func encoding(_ message: String?, _ detail: JSON?) -> [UInt8] {
      var object: JSONObject = ["code": .int(Int64(code)), "flags": .int(Int64(flags))]
      if let message { object["message"] = .string(JSONString(message)) }
      if let detail { object["detail"] = detail }
      if isJunk { object["junk"] = true }
      if let step { object["step"] = .string(JSONString(step)) }
      return JSON.object(object).encoded
    }

    /// Reads the bytes; what is no error is an empty one.
    init(_ bytes: [UInt8]) {
      guard !bytes.isEmpty, let json = try? JSON(parsing: bytes, options: .border) else { return }
      code = Int32(clamping: json["code"]?.int ?? 0)
      flags = UInt32(clamping: json["flags"]?.int ?? 0)
      message = json["message"]?.text
      detail = json["detail"]
      isJunk = json["junk"] == true
      step = json["step"]?.text
    }

    init(code: Int32) { self.code = code }
  }
}

extension RequestFailure {
  /// The error of a frame.
  var problem: RunnerProtocol.Problem {
    var problem = RunnerProtocol.Problem(code: code.rawValue)
    problem.flags = flags
    problem.message = message
    problem.detail = .object(detail)
    return problem
  }

  /// Reads the error of a frame.
  init(_ problem: RunnerProtocol.Problem, status: Int32) {
    self.init(
      BorderCode(rawValue: status) ?? .internal,
      problem.message ?? "the operation failed",
      reason: problem.detail?["reason"]?.text ?? "host",
      at: problem.detail?["at"]?.text
    )
    isRetryable = problem.flags & 1 != 0
    for (key, value) in problem.detail?.object ?? [:] where key != "reason" && key != "at" {
      members[key] = value
    }
  }
}

extension PluginCall.Kind {
  /// The kind of call that a target stands for.
  init(target: String) {
    let kinds: [(String, PluginCall.Kind)] = [
      ("tool:", .tool), ("wrap:tool:", .wrap), ("wrap:section:", .sectionWrap),
      ("section:", .section), ("hook:conversationCreated", .created), ("hook:", .hook),
      ("task:", .taskPhase), ("task.abort:", .abort), ("task.initial:", .pure),
      ("task.migrate:", .pure), ("document.migrate:", .pure), ("tool.prepare:", .pure),
    ]
    self = kinds.first { target.hasPrefix($0.0) }?.1 ?? .plugin
  }
}
