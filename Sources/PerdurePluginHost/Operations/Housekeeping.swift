internal import PerdureModel
import PerdureValue
internal import Synchronization

extension OperationSchema {
  static let housekeeping: [OperationSchema] = [
    OperationSchema(
      name: "host.info",
      classes: .all,
      outlivesRun: true,
      members: [],
      body: .now {
        (run, _) throws(OperationProblem) in .object(run.info)
      }
    ),
    OperationSchema(
      name: "log",
      classes: [.all, .pure],
      isOneWay: true,
      worksInTransaction: true,
      outlivesRun: true,
      members: [
        .needs("level", .word(["debug", "info", "warn", "error"])), .needs("message", .text),
        .takes("fields", .object),
      ],
      body: .now { (run, input) throws(OperationProblem) in run.log(input) }
    ),
    OperationSchema(
      name: "report",
      classes: .all,
      isOneWay: true,
      outlivesRun: true,
      members: [.needs("message", .text), .takes("detail", .json)],
      body: .now { (run, input) throws(OperationProblem) in run.report(input) }
    ),
    OperationSchema(
      name: "metric",
      classes: .all,
      isOneWay: true,
      outlivesRun: true,
      members: [
        .needs("name", .short), .takes("add", .number), .takes("set", .number),
        .takes("observe", .number), .takes("labels", .object),
      ],
      body: .now { (run, input) throws(OperationProblem) in try run.metric(input) }
    ),
    OperationSchema(
      name: "clock",
      classes: .all,
      worksInTransaction: true,
      outlivesRun: true,
      members: [],
      body: .now { (run, _) throws(OperationProblem) in .object(run.clock) }
    ),
    OperationSchema(
      name: "random",
      classes: .all,
      worksInTransaction: true,
      outlivesRun: true,
      members: [.needs("bytes", .integer(0...65_536))],
      body: .now { (run, input) throws(OperationProblem) in
        .bytes(run.core.environment.random(Int(input.integer("bytes") ?? 0)))
      }
    ),
    OperationSchema(
      name: "barrier",
      classes: [.tool, .task, .abort, .hook, .created, .section],
      members: [],
      body: .later { run, _ in
        if let operations = run.call?.operations {
          try await operations.barrier()
        } else {
          try await run.call?.host?.barrier()
        }
        return .object([:])
      }
    ),
    OperationSchema(
      name: "timer.wait",
      classes: .all,
      members: [.takes("ms", .count), .takes("until", .count)],
      body: .now { (run, input) throws(OperationProblem) in try run.wait(input) }
    ),
    OperationSchema(
      name: "settings.get",
      classes: .all,
      members: [.needs("scope", .word(["plugin", "run"]))],
      body: .now { (run, input) throws(OperationProblem) in try run.settings(input) }
    ),
    OperationSchema(
      name: "secret.get",
      classes: .all,
      members: [.needs("name", .text)],
      body: .now { (run, input) throws(OperationProblem) in try run.secret(input) }
    ),
    OperationSchema(
      name: "registry.get",
      classes: .all,
      members: [],
      body: .now { (run, _) throws(OperationProblem) in .object(try run.registry()) }
    ),
    OperationSchema(
      name: "content.read",
      classes: [.tool, .task, .abort, .hook, .created, .section],
      members: [.needs("source", .handle)],
      body: .now { (run, input) throws(OperationProblem) in try run.content(input) }
    ),
    OperationSchema(
      name: "output.flush",
      classes: .tool,
      members: [],
      body: .now { (run, _) throws(OperationProblem) in run.flush() }
    ),
    OperationSchema(
      name: "output.retained",
      classes: .tool,
      members: [],
      body: .now { (run, _) throws(OperationProblem) in try run.retained() }
    ),
    OperationSchema(
      name: "lifecycle.stopped",
      classes: .none,
      isOneWay: true,
      members: [.needs("ticket", .text)],
      body: .now { (run, input) throws(OperationProblem) in try run.stopped(input) }
    ),
  ]
}

/// What operations do that need no store.
extension OperationRun {
  var info: JSONObject {
    [
      "version": .string(core.environment.hostVersion), "messages": 1,
      "ops": .array(OperationSchema.served.map { .string($0.name) }),
      "permissions": .object(core.permissions),
      "limits": [
        "messageBytes": .int(16 << 20), "emitBytes": .int(PluginCall.creditWindow),
        "openCalls": .int(Int64(PluginCore.openCalls)),
        "openRequests": .int(Int64(PluginCore.openRequests)),
      ],
      "isolated": .bool(core.isIsolated),
      "plugin": [
        "id": .string(core.id), "version": .string(core.version),
        "generation": .int(core.generation),
      ],
    ]
  }

  var clock: JSONObject {
    let (now, monotonic) =
      call?.operations?.clock() ?? call?.host?.clock()
      ?? (core.environment.clock.now(), core.environment.clock.monotonic())
    return ["now": .int(now), "monotonicNs": .string("\(monotonic)")]
  }

  func log(_ input: Arguments) -> RequestResult {
    let time = core.environment.clock.monotonic()
    guard core.logBudget.withLock({ $0.take(at: time) }) else { return .object([:]) }
    let dropped = core.logBudget.withLock { $0.takeDropped() }
    if dropped > 0 { send("plugin_log", "[warn] \(dropped) log lines were left out") }
    var line = "[\(input.text("level"))] \(input.text("message"))"
    if let fields = input["fields"]?.object, !fields.isEmpty {
      line += " " + JSON.object(fields).compactText
    }
    line = core.secrets.masked(line)
    if line.utf8.count > LogBudget.lineLimit {
      line = String(decoding: line.utf8.prefix(LogBudget.lineLimit), as: UTF8.self) + "…"
    }
    send("plugin_log", line)
    return .object([:])
  }

  func report(_ input: Arguments) -> RequestResult {
    if let operations = call?.operations {
      operations.report(input.text("message"))
    } else if let host = call?.host {
      host.report(input.text("message"))
    } else {
      send("extension_error", input.text("message"))
    }
    return .object([:])
  }

  func wait(_ input: Arguments) throws(OperationProblem) -> RequestResult? {
    let clock = core.environment.clock
    let milliseconds: Int64
    switch (input.integer("ms"), input.integer("until")) {
    case (let length?, nil): milliseconds = length
    case (nil, let until?): milliseconds = max(0, until - clock.now())
    default:
      throw OperationProblem(
        .invalid,
        "timer.wait takes exactly one of ms and until",
        reason: "shape",
        at: ""
      )
    }
    let (product, overflow) = milliseconds.multipliedReportingOverflow(by: 1_000_000)
    later { _ in
      await clock.sleep(nanoseconds: overflow ? .max : product)
      return .object(["now": .int(clock.now())])
    }
    return nil
  }

  func settings(_ input: Arguments) throws(OperationProblem) -> RequestResult {
    guard input.text("scope") == "run" else {
      return .object([
        "settings": .object(core.settings), "revision": .int(Int64(core.settingsRevision)),
      ])
    }
    if let operations = call?.operations {
      return .object(["settings": try asking { () throws in try operations.settings() }])
    }
    guard let host = call?.host else {
      throw OperationProblem(
        .invalid,
        "settings of a run can only be asked for inside a call",
        reason: "not_here"
      )
    }
    return .object(["settings": try asking { () throws in try host.settings() }])
  }

  func metric(_ input: Arguments) throws(OperationProblem) -> RequestResult {
    let kinds = PluginMetric.Kind.allCases.filter { input[$0.rawValue] != nil }
    guard kinds.count == 1, let kind = kinds.first, let value = input[kind.rawValue]?.double else {
      throw OperationProblem(
        .invalid,
        "metric takes exactly one of add, set and observe",
        reason: "shape",
        at: ""
      )
    }
    let time = core.environment.clock.monotonic()
    guard core.metricBudget.withLock({ $0.take(at: time) }) else { return .object([:]) }
    core.environment.metric(
      PluginMetric(
        plugin: core.id,
        name: input.text("name"),
        kind: kind,
        value: value,
        labels: input["labels"]?.object ?? [:]
      )
    )
    return .object([:])
  }

  func secret(_ input: Arguments) throws(OperationProblem) -> RequestResult {
    let name = input.text("name")
    guard core.grants.secrets.contains(name) else {
      throw denied("the secret \(name)", "ask for the permission secrets: [\"\(name)\"]")
    }
    guard let value = core.environment.secret(core.id, name) else {
      throw OperationProblem(
        .invalid,
        "the operator has bound no value to the secret \(name)",
        reason: "not_found"
      )
    }
    core.secrets.keep(value)
    return .bytes(Array(value.utf8), .text)
  }

  func registry() throws(OperationProblem) -> JSONObject {
    let operations = call?.operations
    let extensions = try asking { () throws in try operations?.extensions() ?? [] }
    return [
      "extensions": .array(
        extensions.map { listing in
          [
            "name": .string(JSONString(listing.name)),
            "version": .string(JSONString(listing.version)),
            "tools": ContributionMessage.names(listing.tools),
            "sections": ContributionMessage.names(listing.sections),
            "hooks": ContributionMessage.names(listing.hooks),
            "wraps": ContributionMessage.names(listing.wraps),
            "tasks": .array(
              listing.tasks.map {
                ["type": .string(JSONString($0.type)), "version": .int($0.version)]
              }
            ),
          ]
        }
      )
    ]
  }

  func content(_ input: Arguments) throws(OperationProblem) -> RequestResult {
    let source = input.text("source")
    guard let (bytes, type) = call?.place.images.content(source) else {
      throw .unknownHandle(source)
    }
    return .bytes(bytes, type)
  }

  func flush() -> RequestResult? {
    guard let call, call.flush(request, id) else {
      return .failed(OperationProblem(.stale, "the call is over", reason: "ended"))
    }
    return nil
  }

  /// Answers a flush whose place in the output was reached.
  func finishFlush() {
    guard let host = call?.host else { return }
    later { _ in
      try await host.flushOutput()
      return .object([:])
    }
  }

  func retained() throws(OperationProblem) -> RequestResult? {
    guard let host = call?.host else { return nil }
    let (text, truncated) = try asking { () throws in try host.retainedOutput() }
    return .object(["text": .string(text), "truncated": .bool(truncated)])
  }

  func stopped(_ input: Arguments) throws(OperationProblem) -> RequestResult {
    guard let stop = core.stop.withLock({ $0 }), input.text("ticket") == "\(stop.ticket)" else {
      throw OperationProblem(.stale, "the ticket is not one that waits", reason: "unknown_handle")
    }
    stop.stopped.fire(true)
    return .object([:])
  }
}
