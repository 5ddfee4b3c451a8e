import Foundation
import Perdure
import PerdureModel
import PerdurePluginHost
import PerdureTestKit
import PerdureValue
import Synchronization
import Testing

/// Collects what plugins report.
final class Reports: Sendable {
  private let all = Mutex<[Report]>([])

  func add(_ report: Report) { all.withLock { $0.append(report) } }

  /// The messages of one type.
  func messages(_ type: String) -> [String] {
    all.withLock { $0.filter { $0.type == type }.map(\.message) }
  }

  /// The plugins that logged a call, in order.
  var plugins: [String] {
    all.withLock { reports in
      reports.filter { $0.type == "plugin_log" && !$0.message.hasPrefix("[info] result") }
        .compactMap(\.extensionName)
    }
  }

  /// The strikes.
  var strikes: [String] { messages("plugin_strike") }
}

/// Stands for the engine behind one call.
final class FakeHost: ToolCallHost {
  struct State: Sendable {
    var reason: CancelReason?
    var isOver = false
    var text: [UInt8] = []
    var bytes = 0
    var keepsText = true
    var skipped: [SkippedOutput] = []
    var diagnostics: [ToolDiagnostic] = []
    var details: [JSON?] = []
    var flushes = 0
    var reports: [String] = []
    var waiters: [CheckedContinuation<Void, Never>] = []
  }

  let state = Mutex(State())
  let time: any HostClock

  init(time: any HostClock = SystemClock(), keepsText: Bool = true) {
    self.time = time
    state.withLock { $0.keepsText = keepsText }
  }

  private func change<Value>(_ body: (inout State) throws -> Value) throws -> Value {
    try state.withLock { state in
      if state.isOver { throw PerdureError(.invocationEnded, "the call is over") }
      return try body(&state)
    }
  }

  var cancelReason: CancelReason? { state.withLock { $0.reason } }

  func output(_ text: JSONString, skipped: SkippedOutput?) throws {
    try take(text.utf8Count, skipped) { text.bytes }
  }

  func output(bytes: [UInt8], skipped: SkippedOutput?) throws {
    try take(bytes.count, skipped) { bytes }
  }

  private func take(_ count: Int, _ skipped: SkippedOutput?, _ bytes: () -> [UInt8]) throws {
    let waiters = try change { state in
      if let skipped { state.skipped.append(skipped) }
      state.bytes += count
      if state.keepsText { state.text += bytes() }
      defer { state.waiters = [] }
      return state.waiters
    }
    for waiter in waiters { waiter.resume() }
  }

  /// Returns when the plugin has put something out, so that it has the call.
  func whenReady() async {
    await withCheckedContinuation { continuation in
      let isReady = state.withLock { state in
        if state.bytes == 0 { state.waiters.append(continuation) }
        return state.bytes > 0
      }
      if isReady { continuation.resume() }
    }
  }

  func diagnostic(_ diagnostic: ToolDiagnostic) throws {
    try change { $0.diagnostics.append(diagnostic) }
  }

  func details(_ value: JSON?) throws { try change { $0.details.append(value) } }
  func flushOutput() async throws { try change { $0.flushes += 1 } }

  func retainedOutput() throws -> (text: String, truncated: Bool) {
    try change { (String(decoding: $0.text, as: UTF8.self), false) }
  }

  func barrier() async throws { try change { _ in } }
  func settings() throws -> JSON { ["maxTurns": 3] }
  func clock() -> (now: Int64, monotonic: Int64) { (time.now(), time.monotonic()) }

  func sleep(milliseconds: Int64) async throws {
    await time.sleep(nanoseconds: milliseconds * 1_000_000)
  }

  func report(_ message: String) { state.withLock { $0.reports.append(message) } }

  /// What was put out so far.
  var text: String { state.withLock { String(decoding: $0.text, as: UTF8.self) } }
}

/// One loaded plugin and what a test needs around it.
struct PluginBench: Sendable {
  let plugin: LoadedPlugin
  let reports: Reports
  let clock: any HostClock
  let copies: String

  /// Loads a plugin, runs `body` and closes the plugin.
  static func with<Value>(
    _ path: String,
    clock: any HostClock = SystemClock(),
    settings: JSONObject? = nil,
    _ body: (PluginBench) async throws -> Value
  ) async throws -> Value {
    let bench = try await load(path, clock: clock, settings: settings)
    do {
      let value = try await body(bench)
      _ = await bench.plugin.close()
      try FileManager.default.removeItem(atPath: bench.copies)
      return value
    } catch {
      _ = await bench.plugin.close()
      throw error
    }
  }

  /// Loads a plugin; the caller closes it.
  static func load(
    _ path: String,
    clock: any HostClock = SystemClock(),
    settings: JSONObject? = nil
  ) async throws -> PluginBench {
    let reports = Reports()
    let copies = try Fixtures.folder()
    let plugin = try await PluginFiles.load(
      path: path,
      settings: settings,
      place: Place.current.place,
      environment: environment(reports, clock: clock, copies: copies)
    )
    return PluginBench(plugin: plugin, reports: reports, clock: clock, copies: copies)
  }

  @Sendable static func checkSchema(_ schema: JSON) throws {
    if schema["unevaluatedItems"] != nil {
      throw PerdureError(.invalidInput, "the keyword unevaluatedItems is not supported")
    }
  }

  static func environment(
    _ reports: Reports,
    clock: any HostClock = SystemClock(),
    copies: String
  ) -> PluginEnvironment {
    var environment = PluginEnvironment(
      clock: clock,
      copies: copies,
      hostVersion: "1.0.0",
      report: { reports.add($0) },
      checkSchema: checkSchema,
      random: { count in (0..<count).map { UInt8(truncatingIfNeeded: $0) } }
    )
    // One process runs all tests.
    environment.retiredLimit = .max
    environment.runner = Place.program
    return environment
  }

  /// The adversary, which most tests load.
  static func adversary<Value>(
    clock: any HostClock = SystemClock(),
    _ body: (PluginBench) async throws -> Value
  ) async throws -> Value {
    try await with(Fixtures.plugin("adversary"), clock: clock, body)
  }

  /// Calls a tool as the engine does.
  func call(
    _ name: String,
    _ arguments: JSON = [:],
    host: FakeHost? = nil,
    recovered: Bool = false,
    window: OutputWindowHint? = nil
  ) async throws -> ToolResult {
    let tool = try #require(plugin.extensionValue.tools.first { $0.name == name })
    return try await call(tool, arguments, host: host, recovered: recovered, window: window)
  }

  /// Calls a tool that somebody has kept.
  func call(
    _ tool: Tool,
    _ arguments: JSON = [:],
    host: FakeHost? = nil,
    recovered: Bool = false,
    window: OutputWindowHint? = nil
  ) async throws -> ToolResult {
    try await tool.execute(
      ToolCall(
        callId: "call-1",
        conversationId: #require(ConversationID(1)),
        taskId: #require(TaskID(2)),
        arguments: arguments,
        replay: tool.replay,
        recovered: recovered,
        outputWindow: window,
        deadline: clock.monotonic() + 1_000_000_000,
        host: host ?? FakeHost(time: clock)
      )
    )
  }

  /// Calls a tool and gives its text.
  func text(_ name: String, _ arguments: JSON = [:], host: FakeHost? = nil) async throws -> String {
    try await call(name, arguments, host: host).output?.first?["text"]?.text ?? ""
  }

  /// Calls a tool that is to fail and gives the error.
  func failure(
    _ name: String,
    _ arguments: JSON = [:],
    host: FakeHost? = nil
  ) async -> PerdureError? {
    do {
      _ = try await call(name, arguments, host: host)
      return nil
    } catch {
      return error as? PerdureError
    }
  }

  /// Returns when the plugin has broken this many promises.
  func hasStrikes(_ count: Int) async {
    while plugin.strikes < count { await Task.yield() }
  }

  /// Starts a call and cancels it as the engine does, once the plugin has it.
  func cancelled(
    _ name: String,
    _ arguments: JSON = [:],
    reason: CancelReason,
    host: FakeHost
  ) async -> Task<ToolResult, any Error> {
    let task = Task { try await call(name, arguments, host: host) }
    await host.whenReady()
    host.state.withLock { $0.reason = reason }
    task.cancel()
    return task
  }
}
