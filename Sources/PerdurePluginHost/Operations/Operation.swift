internal import PerdureModel
import PerdureValue
internal import Synchronization

/// The situations in which an operation may be asked for.
struct CallClasses: OptionSet, Sendable {
  let rawValue: Int
  static let tool = CallClasses(rawValue: 1)
  static let task = CallClasses(rawValue: 2)
  static let abort = CallClasses(rawValue: 4)
  static let hook = CallClasses(rawValue: 8)
  static let created = CallClasses(rawValue: 16)
  static let section = CallClasses(rawValue: 32)
  static let plugin = CallClasses(rawValue: 64)
  /// Outside any call.
  static let none = CallClasses(rawValue: 128)
  static let all: CallClasses = [.tool, .task, .abort, .hook, .created, .section, .plugin, .none]
}

/// Something that a plugin can ask of the host.
enum Operation: Sendable {
  case hostInfo, log, report, clock, random, timerWait, settingsGet, barrier, outputFlush
  case outputRetained, lifecycleStopped
  /// Not served by this version.
  case unknown(String)

  static let served: [(name: String, operation: Operation)] = [
    ("host.info", .hostInfo), ("log", .log), ("report", .report), ("clock", .clock),
    ("random", .random), ("timer.wait", .timerWait), ("settings.get", .settingsGet),
    ("barrier", .barrier), ("output.flush", .outputFlush), ("output.retained", .outputRetained),
    ("lifecycle.stopped", .lifecycleStopped),
  ]

  init(name: String) {
    self = Self.served.first { $0.name == name }?.operation ?? .unknown(name)
  }

  var name: String {
    if case .unknown(let name) = self { return name }
    return Self.served.first { "\($0.operation)" == "\(self)" }?.name ?? ""
  }

  /// Whether it may be asked for without a function that gets the result.
  var isOneWay: Bool {
    switch self {
    case .log, .report, .lifecycleStopped: true
    default: false
    }
  }

  private var classes: CallClasses {
    switch self {
    case .barrier: [.tool, .task, .abort, .hook, .created, .section]
    case .outputFlush, .outputRetained: .tool
    case .lifecycleStopped: .none
    default: .all
    }
  }

  /// Runs the operation; `nil` means that the answer comes later.
  func run(
    _ core: PluginCore,
    _ request: PluginRequest,
    _ id: UInt64,
    _ input: JSONObject
  ) -> RequestResult? {
    do throws(OperationProblem) {
      if case .unknown(let name) = self {
        throw OperationProblem(
          .unsupported,
          "this host does not know the operation \(name)",
          reason: "op"
        )
      }
      let here: CallClasses =
        switch request.call?.kind {
        case nil: .none
        case .tool: .tool
        case .plugin, .bytes: .plugin
        }
      guard classes.contains(here) else {
        throw OperationProblem(.invalid, "\(name) cannot be asked for here", reason: "not_here")
      }
      return try OperationRun(core: core, request: request, id: id).run(self, input)
    } catch {
      return .failed(error)
    }
  }
}

typealias OperationProblem = RequestFailure

/// One operation at work.
struct OperationRun: Sendable {
  let core: PluginCore
  let request: PluginRequest
  let id: UInt64

  static let randomLimit = 65_536

  func run(_ operation: Operation, _ input: JSONObject) throws(OperationProblem) -> RequestResult? {
    var reader = FieldReader(input)
    switch operation {
    case .hostInfo: return .object(info)
    case .log: return try log(&reader)
    case .report: return try report(&reader)
    case .clock: return .object(clock)
    case .random:
      let count = try read { reader throws(BorderProblem) in
        try reader.required("bytes", reader.integer("bytes", in: 0...Int64(Self.randomLimit)))
      }(&reader)
      return .bytes(core.environment.random(count))
    case .timerWait: return try wait(&reader)
    case .settingsGet: return try settings(&reader)
    case .barrier:
      later { call in try await call.barrier() }
      return nil
    case .outputFlush: return flush()
    case .outputRetained: return try retained()
    case .lifecycleStopped: return try stopped(&reader)
    case .unknown: return nil
    }
  }

  /// Makes a shape problem of the input an answer.
  private func read<Value>(
    _ body: @escaping (inout FieldReader) throws(BorderProblem) -> Value
  ) -> (inout FieldReader) throws(OperationProblem) -> Value {
    { (reader: inout FieldReader) throws(OperationProblem) in
      do throws(BorderProblem) {
        let value = try body(&reader)
        try reader.finish()
        return value
      } catch {
        let pointer: String? = if case .shape(_, let at) = error { at } else { nil }
        throw OperationProblem(
          error.code,
          "\(request.operation.name) was given \(error.phrase)",
          reason: error.reason,
          at: pointer
        )
      }
    }
  }

  private var info: JSONObject {
    [
      "version": .string(core.environment.hostVersion), "messages": 1,
      "ops": .array(Operation.served.map { .string($0.name) }),
      "permissions": .object(core.permissions),
      "limits": [
        "messageBytes": .int(16 << 20), "emitBytes": .int(PluginCall.creditWindow),
        "openCalls": .int(Int64(PluginCore.openCalls)),
        "openRequests": .int(Int64(PluginCore.openRequests)),
      ],
      "isolated": false,
      "plugin": [
        "id": .string(core.id), "version": .string(core.version),
        "generation": .int(core.generation),
      ],
    ]
  }

  private var clock: JSONObject {
    let (now, monotonic) =
      request.call?.host?.clock()
      ?? (core.environment.clock.now(), core.environment.clock.monotonic())
    return ["now": .int(now), "monotonicNs": .string("\(monotonic)")]
  }

  private enum Level: String, CaseIterable { case debug, info, warn, error }

  private func log(_ reader: inout FieldReader) throws(OperationProblem) -> RequestResult? {
    let (level, message, fields) = try read { reader throws(BorderProblem) in
      (
        try reader.required("level", reader.word("level", as: Level.self)),
        try reader.required("message", reader.string("message")),
        try reader.object("fields")?.members
      )
    }(&reader)
    let time = core.environment.clock.monotonic()
    guard core.logBudget.withLock({ $0.take(at: time) }) else { return .object([:]) }
    let dropped = core.logBudget.withLock { $0.takeDropped() }
    if dropped > 0 { send("plugin_log", "[warn] \(dropped) log lines were left out") }
    var line = "[\(level.rawValue)] \(message)"
    if let fields, !fields.isEmpty { line += " " + JSON.object(fields).compactText }
    if line.utf8.count > LogBudget.lineLimit {
      line = String(decoding: line.utf8.prefix(LogBudget.lineLimit), as: UTF8.self) + "…"
    }
    send("plugin_log", line)
    return .object([:])
  }

  private func report(_ reader: inout FieldReader) throws(OperationProblem) -> RequestResult? {
    let message = try read { reader throws(BorderProblem) in
      _ = reader.any("detail")
      return try reader.required("message", reader.string("message"))
    }(&reader)
    if let host = request.call?.host {
      host.report(message)
    } else {
      send("extension_error", message)
    }
    return .object([:])
  }

  private func send(_ type: String, _ message: String) {
    core.environment.report(Report(type: type, message: message, extensionName: core.id))
  }

  private func wait(_ reader: inout FieldReader) throws(OperationProblem) -> RequestResult? {
    let (length, until) = try read { reader throws(BorderProblem) in
      (try reader.count("ms"), try reader.count("until"))
    }(&reader)
    let clock = core.environment.clock
    let milliseconds: Int
    switch (length, until) {
    case (let length?, nil): milliseconds = length
    case (nil, let until?): milliseconds = max(0, until - Int(clock.now()))
    default:
      throw OperationProblem(
        .invalid,
        "timer.wait takes exactly one of ms and until",
        reason: "shape",
        at: ""
      )
    }
    let (product, overflow) = Int64(milliseconds).multipliedReportingOverflow(by: 1_000_000)
    // Owned by the request, which cancels it.
    request.attach(
      Task { [core, id] in
        await clock.sleep(nanoseconds: overflow ? .max : product)
        core.answer(id, .object(["now": .int(clock.now())]))
      }
    )
    return nil
  }

  private enum Scope: String, CaseIterable { case plugin, run }

  private func settings(_ reader: inout FieldReader) throws(OperationProblem) -> RequestResult? {
    let scope = try read { reader throws(BorderProblem) in
      try reader.required("scope", reader.word("scope", as: Scope.self))
    }(&reader)
    guard scope == .run else {
      return .object(["settings": .object(core.settings), "revision": 1])
    }
    guard let host = request.call?.host else {
      throw OperationProblem(
        .invalid,
        "settings of a run can only be asked for inside a call",
        reason: "not_here"
      )
    }
    return .object(["settings": try asking { () throws in try host.settings() }])
  }

  private func flush() -> RequestResult? {
    guard let call = request.call, call.flush(request, id) else {
      return .failed(OperationProblem(.stale, "the call is over", reason: "ended"))
    }
    return nil
  }

  /// Answers a flush whose place in the output was reached.
  func finishFlush() {
    later { call in try await call.flushOutput() }
  }

  private func retained() throws(OperationProblem) -> RequestResult? {
    guard let host = request.call?.host else { return nil }
    let (text, truncated) = try asking { () throws in try host.retainedOutput() }
    return .object(["text": .string(text), "truncated": .bool(truncated)])
  }

  private func stopped(_ reader: inout FieldReader) throws(OperationProblem) -> RequestResult? {
    let ticket = try read { reader throws(BorderProblem) in
      try reader.required("ticket", reader.string("ticket"))
    }(&reader)
    guard let stop = core.stop.withLock({ $0 }), ticket == "\(stop.ticket)" else {
      throw OperationProblem(.stale, "the ticket is not one that waits", reason: "unknown_handle")
    }
    stop.stopped.fire(true)
    return .object([:])
  }

  /// Answers with nothing when the engine's part is done.
  private func later(_ body: @escaping @Sendable (any ToolCallHost) async throws -> Void) {
    guard let host = request.call?.host else { return }
    // Owned by the request, which cancels it.
    request.attach(
      Task { [core, id] in
        do {
          try await body(host)
          core.answer(id, .object([:]))
        } catch {
          core.answer(id, .failed(Self.failure(of: error)))
        }
      }
    )
  }

  private func asking<Value>(
    _ body: () throws -> Value
  ) throws(OperationProblem) -> Value {
    do { return try body() } catch { throw Self.failure(of: error) }
  }

  private static func failure(of error: any Error) -> OperationProblem {
    guard let error = error as? PerdureError else {
      return error is CancellationError
        ? OperationProblem(.cancelled, "the operation was cancelled", reason: "abort")
        : OperationProblem(.internal, "the host failed to do it: \(error)", reason: "host")
    }
    switch error.code {
    case .invocationEnded: return OperationProblem(.stale, error.message, reason: "ended")
    case .closed: return OperationProblem(.stale, error.message, reason: "closing")
    case .cancelled: return OperationProblem(.cancelled, error.message, reason: "abort")
    default: return OperationProblem(.internal, error.message, reason: error.code.rawValue)
    }
  }
}
