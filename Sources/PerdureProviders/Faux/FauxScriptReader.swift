import PerdureModel
import PerdureValue

/// Reads a parsed script; strict, so that a misspelt member is an error and not a surprise.
struct FauxScriptReader {
  private static let longest: Int64 = 86_400_000
  private static let attemptMembers: [JSONString] = [
    "steps", "stopReason", "usage", "chunk", "chunkDelayMs", "deferred",
  ]
  private static let topMembers: [JSONString] = [
    "turns", "prompt", "summary", "contextWindow", "maxTokens", "chunk", "chunkDelayMs",
  ]

  private typealias Problem = ScriptNode.Problem

  private var chunk = 16
  private var chunkDelayMs: Int64 = 0

  mutating func turns(_ top: ScriptNode) throws(ScriptNode.Problem) -> [FauxScript.Turn] {
    try top.requireMembers(Self.topMembers)
    if let node = top.member("chunk") { chunk = try Self.chunk(node) }
    if let node = top.member("chunkDelayMs") { chunkDelayMs = try node.integer(0...Self.longest) }
    var turns: [FauxScript.Turn] = []
    for node in try top.required("turns", "an array").elements() {
      turns.append(try turn(node, number: turns.count + 1))
    }
    return turns
  }

  /// Reads the turn that answers requests for a summary, if there is one.
  func summary(_ top: ScriptNode) throws(ScriptNode.Problem) -> FauxScript.Turn? {
    guard let node = top.member("summary") else { return nil }
    return try turn(node, number: 0)
  }

  func tokens(_ top: ScriptNode, _ key: JSONString) throws(ScriptNode.Problem) -> Int? {
    guard let node = top.member(key) else { return nil }
    return Int(try node.integer(1...1_000_000_000))
  }

  private static func deferral(_ node: ScriptNode) throws(Problem) -> FauxScript.Deferral {
    try node.requireMembers(["pendingFetches", "pollAfterMs"])
    var deferral = FauxScript.Deferral(pendingFetches: 0)
    if let node = node.member("pendingFetches") {
      deferral.pendingFetches = try node.integer(0...1_000)
    }
    if let node = node.member("pollAfterMs") {
      deferral.pollAfterMs = try node.integer(0...longest)
    }
    return deferral
  }

  private static func chunk(_ node: ScriptNode) throws(Problem) -> Int {
    Int(try node.integer(1...1_000_000))
  }

  private func turn(_ node: ScriptNode, number: Int) throws(Problem) -> FauxScript.Turn {
    guard let list = node.member("attempts") else {
      return FauxScript.Turn(attempts: [try attempt(node, turn: number)])
    }
    try node.requireMembers(["attempts"])
    var attempts: [FauxScript.Attempt] = []
    for node in try list.elements() { attempts.append(try attempt(node, turn: number)) }
    return FauxScript.Turn(attempts: attempts)
  }

  private func attempt(_ node: ScriptNode, turn: Int) throws(Problem) -> FauxScript.Attempt {
    try node.requireMembers(Self.attemptMembers)
    var attempt = FauxScript.Attempt(
      steps: [],
      ending: .finished(.stop),
      chunk: chunk,
      chunkDelayMs: chunkDelayMs
    )
    if let node = node.member("chunk") { attempt.chunk = try Self.chunk(node) }
    if let node = node.member("chunkDelayMs") {
      attempt.chunkDelayMs = try node.integer(0...Self.longest)
    }
    if let node = node.member("usage") { attempt.usage = try usage(node) }
    if let node = node.member("deferred") { attempt.deferral = try Self.deferral(node) }
    var calls = 0
    var failure: FauxScript.Ending?
    for step in try node.required("steps", "an array").elements() {
      if failure != nil { throw step.problem("a step follows one that ends the answer") }
      switch try self.step(step, callName: "call_\(turn)_\(calls + 1)") {
      case .left(let value):
        if case .toolCall = value { calls += 1 }
        if case .toolResult = value, attempt.deferral != nil {
          throw step.problem("a deferred answer cannot hold the result of a call")
        }
        attempt.steps.append(value)
      case .right(let ending): failure = ending
      }
    }
    attempt.ending = try ending(node, failure: failure, calls: calls)
    return attempt
  }

  private func ending(
    _ node: ScriptNode,
    failure: FauxScript.Ending?,
    calls: Int
  ) throws(Problem) -> FauxScript.Ending {
    guard let reason = node.member("stopReason") else {
      return failure ?? .finished(calls > 0 ? .toolUse : .stop)
    }
    if failure != nil {
      throw reason.problem("a stop reason cannot follow a step that ends the answer")
    }
    switch try reason.string() {
    case "stop": return .finished(.stop)
    case "length": return .finished(.length)
    case "toolUse": return .finished(.toolUse)
    default:
      throw reason.problem(
        "expected 'stop', 'length' or 'toolUse' at \(ScriptNode.describe(reason.path))"
      )
    }
  }

  // MARK: Steps

  private enum Read {
    case left(FauxScript.Step)
    case right(FauxScript.Ending)
  }

  private static let stepMembers: [JSONString] = [
    "text", "thinking", "toolResult", "toolCall", "delayMs", "error", "stall", "truncate",
  ]

  private func step(_ node: ScriptNode, callName: String) throws(Problem) -> Read {
    try node.requireMembers(Self.stepMembers)
    let present = Self.stepMembers.filter { node.member($0) != nil }
    guard present.count == 1, let key = present.first, let value = node.member(key) else {
      let list = Self.stepMembers.map(\.string).joined(separator: ", ")
      throw node.problem(
        "expected exactly one of \(list) at \(ScriptNode.describe(node.path)), "
          + "found \(present.count)"
      )
    }
    switch key {
    case "text": return .left(.text(try value.string()))
    case "thinking": return .left(.thinking(try value.string()))
    case "toolResult": return .left(.toolResult(JSONString(try value.name())))
    case "toolCall": return .left(try toolCall(value, callName: callName))
    case "delayMs": return .left(.delay(milliseconds: try value.integer(0...Self.longest)))
    case "error": return .right(.failed(try error(value)))
    case "stall":
      try value.isTrue()
      return .right(.stall)
    default:
      try value.isTrue()
      return .right(.truncated)
    }
  }

  private func toolCall(_ node: ScriptNode, callName: String) throws(Problem) -> FauxScript.Step {
    try node.requireMembers(["id", "name", "arguments", "argumentsText"])
    let name = JSONString(try node.required("name", "a string").name())
    var id = JSONString(callName)
    if let node = node.member("id") { id = JSONString(try node.name()) }
    let arguments = node.member("arguments")
    if let text = node.member("argumentsText") {
      if arguments != nil {
        throw text.problem("'arguments' and 'argumentsText' exclude each other")
      }
      return .toolCall(id: id, name: name, argumentsText: try text.string(), arguments: nil)
    }
    let value = arguments?.value ?? [:]
    guard value.object != nil else { throw (arguments ?? node).expected("an object") }
    return .toolCall(id: id, name: name, argumentsText: value.compactText, arguments: value)
  }

  private func error(_ node: ScriptNode) throws(Problem) -> ProviderFailure {
    try node.requireMembers(["status", "message", "code", "body", "retryAfterMs"])
    let status = try node.member("status").map { node throws(Problem) in
      Int(try node.integer(300...599))
    }
    let delay = try node.member("retryAfterMs").map { node throws(Problem) in
      try node.integer(0...Self.longest)
    }
    if let body = node.member("body") {
      guard let status else { throw body.problem("'body' needs a 'status'") }
      guard node.member("message") == nil, node.member("code") == nil else {
        throw body.problem("'body' stands in place of 'message' and 'code'")
      }
      let text = Array(try body.string().utf8)
      return ErrorAnswer(status: status, body: text, now: 0) { field in
        field == "retry-after-ms" ? delay.map(String.init) : nil
      }.failure
    }
    var answer = ErrorAnswer(status: status, retryAfterMs: delay, isInStream: status == nil)
    if let node = node.member("message") { answer.text = try node.string() }
    if let node = node.member("code") { answer.codes = [try node.name().lowercased()] }
    if status == nil, answer.text.isEmpty {
      throw node.problem("expected 'status' or 'message' at \(ScriptNode.describe(node.path))")
    }
    return answer.failure
  }

  private func usage(_ node: ScriptNode) throws(Problem) -> Usage {
    let counters: [JSONString] = ["input", "output", "cacheRead", "cacheWrite", "reasoning"]
    try node.requireMembers(counters + ["totalTokens", "cost"])
    for key in counters + ["totalTokens"] {
      _ = try node.member(key)?.integer(0...Identifier<Usage>.greatest)
    }
    if let cost = node.member("cost") {
      let kinds: [JSONString] = ["input", "output", "cacheRead", "cacheWrite", "total"]
      try cost.requireMembers(kinds)
      for key in kinds {
        guard let money = cost.member(key) else { continue }
        guard let value = money.value.double, value >= 0 else { throw money.expected("an amount") }
      }
    }
    var usage = Usage(json: node.value)
    if node.member("totalTokens") == nil {
      let (prompt, first) = usage.input.addingReportingOverflow(usage.cacheRead)
      let (more, second) = prompt.addingReportingOverflow(usage.cacheWrite)
      let (all, third) = more.addingReportingOverflow(usage.output)
      usage.totalTokens = first || second || third ? .max : all
    }
    return usage
  }
}
