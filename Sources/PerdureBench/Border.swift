import Perdure
import PerdurePluginHost

/// W6: calls of a plugin's tool, 1 KiB in and 1 KiB out.
///
/// The plugin is `Tests/Fixtures/Plugins/border.c`; it has the tools `raw`, `text` and `json`.
struct Border: Sendable {
  private enum Part { case border, task, inline }

  private static let repetitions = 9

  private let plugin: LoadedPlugin
  private let arguments: Arguments
  private let calibration: Calibration

  static func run(_ arguments: Arguments) async throws {
    guard !arguments.plugin.isEmpty else {
      throw Arguments.wrong("w6 needs --plugin with Tests/Fixtures/Plugins/border.c, compiled")
    }
    let calibration = try Calibration(in: arguments.folder)
    let environment = PluginEnvironment(
      clock: SystemClock(),
      copies: arguments.folder + "/loaded",
      hostVersion: "bench",
      report: { _ in },
      checkSchema: { _ = try JSONSchema(compiling: $0) }
    )
    let plugin = try await PluginFiles.load(
      path: arguments.plugin,
      place: arguments.mode == "runner" ? .runner : .auto,
      environment: environment
    )
    let border = Border(plugin: plugin, arguments: arguments, calibration: calibration)
    let parts = try parts(of: arguments.mode)
    if parts.contains(.border) { try border.alone() }
    // On the pool of threads on which the engine runs its tasks, not on that of this function.
    try await Task.detached {
      if parts.contains(.task) {
        try await border.taskToTask()
        try await border.taskToTaskWithJSON()
      }
      if parts.contains(.inline) {
        try await border.inlineHook()
        try await border.inlineWrap()
      }
    }.value
    _ = await plugin.close()
  }

  /// What a mode measures; the runner has neither a border of its own nor an inline call.
  private static func parts(of mode: String) throws -> Set<Part> {
    switch mode {
    case "": [.border, .task, .inline]
    case "border": [.border]
    case "task", "runner": [.task]
    case "inline": [.inline]
    default: throw Arguments.wrong("w6 has the modes border, task, inline and runner")
    }
  }

  /// The text of arguments that are 1,024 bytes long.
  private static let argumentText =
    #"{"i": 7, "pad": ""# + String(repeating: "x", count: 1_005) + #""}"#

  private var place: String { plugin.isIsolated ? "runner, task to task" : "task to task" }

  // MARK: Variants

  /// Call, id table, completion and copies, on one thread and without JSON.
  private func alone() throws {
    let bench = BorderBench(plugin: plugin, tool: "raw")
    let input = Array(Self.argumentText.utf8)
    let rounds = arguments.count ?? 200_000
    var times: [Double] = []
    for _ in 0..<Self.repetitions {
      let start = Machine.now
      let received = try bench.run(rounds: rounds, input: input)
      times.append(Double(Machine.now - start) / Double(max(1, rounds)))
      guard received == rounds * input.count else {
        throw PerdureError(.pluginFault, "the plugin of the benchmark answered something else")
      }
    }
    print("perdure border, 1 KiB each way", target: 300, times, rounds, [])
  }

  /// The tool as the engine calls it: arguments to text, the plugin's thread, and back.
  private func taskToTask() async throws {
    let tool = try tool("text")
    let parsed = try JSON(parsing: Self.argumentText)
    let target = plugin.isIsolated ? 60_000 : 25_000
    try await measure("perdure \(place), 1 KiB each way", target: target) {
      _ = try await call(tool, parsed)
    }
  }

  /// The same with what the engine does to arguments before and to JSON results after.
  private func taskToTaskWithJSON() async throws {
    let tool = try tool("json")
    let schema = try JSONSchema(compiling: tool.parameters)
    let target = plugin.isIsolated ? 60_000 : 45_000
    try await measure("perdure \(place), 1 KiB each way, parsed and validated", target: target) {
      let parsed = schema.coerce(try JSON(parsing: Self.argumentText))
      guard schema.validate(parsed).isEmpty else {
        throw PerdureError(.invalidInput, "the arguments of the benchmark are invalid")
      }
      let result = try await call(tool, parsed)
      guard result.output?.count == 1 else {
        throw PerdureError(.pluginFault, "the plugin of the benchmark answered something else")
      }
    }
  }

  /// A hook that runs inline and does nothing: all that the plugin host does for it, JSON included.
  private func inlineHook() async throws {
    guard let hook = plugin.extensionValue.hooks.first, case .beforeTool(let body) = hook.handler
    else { throw PerdureError(.pluginRefused, "the plugin \(plugin.id) has no hook") }
    let call = HookedCall(id: "call_7", name: "raw", arguments: ["i": 7])
    let context = DetachedContext(taskId: BenchCallHost.task)
    try await measureAll("perdure inline hook that does nothing", target: 1_000) {
      _ = try await body(call, context)
    }
  }

  /// A wrap that runs inline and answers at once.
  private func inlineWrap() async throws {
    guard let wrap = plugin.extensionValue.wraps.first, case .tool(_, let body) = wrap.target
    else { throw PerdureError(.pluginRefused, "the plugin \(plugin.id) has no wrap") }
    let wrapped = try body(try tool("raw"))
    try await measureAll("perdure inline wrap that does nothing", target: 1_000) {
      _ = try await call(wrapped, ["i": 7])
    }
  }

  // MARK: Measuring

  /// Measures what is shorter than a look at the clock.
  private func measureAll(
    _ name: String,
    target: Int,
    _ body: () async throws -> Void
  ) async throws {
    let rounds = max(1, arguments.count ?? 200_000)
    var times: [Double] = []
    var work: [Double] = []
    for _ in 0..<Self.repetitions {
      let (start, used) = (Machine.now, Machine.processorTime)
      for _ in 0..<rounds { try await body() }
      times.append(Double(Machine.now - start) / Double(rounds))
      work.append(Double(Machine.processorTime - used) / Double(rounds))
    }
    print(name, target: target, times, rounds, [], work)
  }

  private func tool(_ name: String) throws -> Tool {
    guard let tool = plugin.extensionValue.tools.first(where: { $0.name == name }) else {
      throw PerdureError(.pluginRefused, "the plugin \(plugin.id) has no tool \(name)")
    }
    return tool
  }

  private func call(_ tool: Tool, _ parsed: JSON) async throws -> ToolResult {
    try await tool.execute(
      ToolCall(
        callId: "call_7",
        conversationId: .root,
        taskId: BenchCallHost.task,
        arguments: parsed,
        replay: .safe,
        recovered: false,
        outputWindow: nil,
        deadline: Machine.now + 60_000_000_000,
        host: BenchCallHost()
      )
    )
  }

  private func measure(
    _ name: String,
    target: Int,
    _ body: () async throws -> Void
  ) async throws {
    let rounds = max(1, (arguments.count ?? 200_000) / 20)
    var times: [Double] = []
    var each: [Double] = []
    for _ in 0..<Self.repetitions {
      let begin = Machine.now
      for _ in 0..<rounds {
        let start = Machine.now
        try await body()
        each.append(Double(Machine.now - start))
      }
      times.append(Double(Machine.now - begin) / Double(rounds))
    }
    print(name, target: target, times, rounds, each)
  }

  private func print(
    _ name: String,
    target: Int,
    _ times: [Double],
    _ rounds: Int,
    _ each: [Double],
    _ work: [Double] = []
  ) {
    var line = ResultLine("w6", peer: name)
    line.set("ns_per_call", percentile(times, 50))
    line.set("min_ns", times.min() ?? 0)
    if !each.isEmpty {
      line.set("p50_ns", percentile(each, 50))
      line.set("p99_ns", percentile(each, 99))
    }
    // What a busy machine does not add to.
    if let least = work.min() { line.set("min_cpu_ns", least) }
    line["target_ns"] = .int(Int64(target))
    line["calls"] = .int(Int64(rounds))
    line.print(calibration)
  }
}

/// The engine's side of a call that reports nothing.
struct BenchCallHost: ToolCallHost {
  static let task = TaskID.known(2)

  var cancelReason: CancelReason? { nil }
  func output(_ text: JSONString, skipped: SkippedOutput?) throws {}
  func output(bytes: [UInt8], skipped: SkippedOutput?) throws {}
  func diagnostic(_ diagnostic: ToolDiagnostic) throws {}
  func details(_ value: JSON?) throws {}
  func flushOutput() async throws {}
  func retainedOutput() throws -> (text: String, truncated: Bool) { ("", false) }
  func barrier() async throws {}
  func settings() throws -> JSON { [:] }
  func clock() -> (now: Int64, monotonic: Int64) { (SystemClock().now(), Machine.now) }
  func sleep(milliseconds: Int64) async throws {}
  func report(_ message: String) {}
}
