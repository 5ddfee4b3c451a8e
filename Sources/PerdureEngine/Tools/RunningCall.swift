import PerdureModel
import PerdureValue
import Synchronization

/// The engine's side of one running call: it takes what the tool reports and shows it in the slot.
final class RunningCall: ToolCallHost, WrapPort {
  private struct State {
    var window: OutputWindow
    var diagnostics: [ToolDiagnostic] = []
    /// How many more there were than are kept.
    var leftOut = 0
    var details: JSON?
    var hasDetails = false
    var isOver = false
    var reason: CancelReason?
    /// What the slot shows; compared with, so that only what changed is written.
    var shown = Shown()
  }

  struct Shown: Equatable {
    var output: String?
    var droppedBytes = 0
    var droppedLines = 0
    var details: JSON?
    var diagnostics: [ToolDiagnostic] = []
  }

  /// What the tool has reported when it is over.
  struct Reported {
    var retained: OutputWindow.Retained
    var diagnostics: [ToolDiagnostic]
    var details: JSON?
  }

  private let runtime: TaskRuntime
  private let state: Mutex<State>
  /// What ends the call while its code runs.
  private let abandon = Mutex<(@Sendable () -> Void)?>(nil)
  // Progress is committed by the throttle and by `flushOutput`; one after the other.
  private let writing = CommitLine()
  private let throttle = Mutex<Throttle?>(nil)
  private let showsProgress: Bool
  private let nested: NestedCalls
  /// What ends with the call.
  let scope = InvocationScope()

  private static let bytesPerSecond: Int64 = 102_400

  init(_ runtime: TaskRuntime, _ call: RequestedCall, _ tool: Tool) {
    self.runtime = runtime
    showsProgress = call.nested?.showsProgress != false
    nested = NestedCalls(runtime, call, resumes: tool.replay == .safe, scope)
    state = Mutex(State(window: OutputWindow(limits: tool.outputLimits)))
    let throttle = Throttle(clock: runtime.surroundings.clock, firstDelayMs: 0) { [weak self] in
      await self?.commitFromThrottle() ?? 0
    }
    self.throttle.withLock { $0 = throttle }
  }

  static func hint(_ limits: OutputLimits, _ settings: Settings) -> OutputWindowHint? {
    guard limits.retain == .tail else { return nil }
    return OutputWindowHint(
      maxBytes: limits.maxBytes,
      maxLines: limits.maxLines,
      minIntervalMs: Int(clamping: settings.outputIntervalMs),
      bytesPerSecond: Int(bytesPerSecond)
    )
  }

  // MARK: ToolCallHost

  var cancelReason: CancelReason? { state.withLock { $0.reason } ?? runtime.signal.reason }

  func tasksAbove() async throws -> Set<TaskID> { try await runtime.tasksAbove() }

  func deadline(
    nanoseconds: Int64,
    _ atEnd: @escaping @Sendable () async -> Void
  ) -> @Sendable () -> Void {
    let clock = CallClock(runtime.surroundings.clock, budget: nanoseconds, atEnd: atEnd)
    scope.adopt(clock)
    clock.start()
    return { [scope] in
      clock.stop()
      scope.drop(clock)
    }
  }

  func giveUp() { abandon.withLock { $0 }?() }

  /// Takes what `giveUp` does.
  func onGivingUp(_ body: @escaping @Sendable () -> Void) { abandon.withLock { $0 = body } }

  func cancel(_ reason: CancelReason) {
    state.withLock { if $0.reason == nil { $0.reason = reason } }
  }

  private func whileRunning<Result: Sendable>(
    _ body: (inout State) throws -> Result
  ) throws -> Result {
    try state.withLock { state in
      if state.isOver {
        throw PerdureError(.invocationEnded, "the call of task \(runtime.taskId) is over")
      }
      return try body(&state)
    }
  }

  private func report(_ body: (inout State) throws -> Void) throws {
    try whileRunning(body)
    throttle.withLock { $0 }?.changed()
  }

  func output(_ text: JSONString, skipped: SkippedOutput?) throws {
    try report { try $0.window.append(text: text, skipped: skipped) }
  }

  func output(bytes: [UInt8], skipped: SkippedOutput?) throws {
    try report { try $0.window.append(bytes: bytes, skipped: skipped) }
  }

  func diagnostic(_ diagnostic: ToolDiagnostic) throws {
    try report { state in
      if state.diagnostics.count < DiagnosticBounds.maxReported {
        state.diagnostics.append(DiagnosticBounds.bounded(diagnostic))
      } else {
        state.leftOut += 1
      }
    }
  }

  func details(_ value: JSON?) throws {
    try report { state in
      state.details = value
      state.hasDetails = true
    }
  }

  func flushOutput() async throws {
    try whileRunning { _ in }
    _ = try await commitProgress()
    try await runtime.barrier()
  }

  func retainedOutput() throws -> (text: String, truncated: Bool) {
    try whileRunning { state in
      let retained = state.window.retained()
      return (retained.text, retained.truncated)
    }
  }

  func barrier() async throws {
    try whileRunning { _ in }
    try await runtime.barrier()
  }

  func settings() throws -> JSON {
    try whileRunning { _ in }
    return runtime.settings.json
  }

  func clock() -> (now: Int64, monotonic: Int64) {
    (runtime.surroundings.clock.now(), runtime.surroundings.clock.monotonic())
  }

  func sleep(milliseconds: Int64) async throws {
    try whileRunning { _ in }
    let clock = runtime.surroundings.clock
    try await scope.run { await clock.sleep(milliseconds: max(0, milliseconds)) }
    try whileRunning { _ in }
    if cancelReason != nil || Task.isCancelled {
      throw PerdureError(.cancelled, "the call of task \(runtime.taskId) was cancelled")
    }
  }

  func report(_ message: String) { runtime.report(message) }

  func executeTool(
    _ name: String,
    _ arguments: JSON,
    _ options: NestedCallOptions
  ) async throws -> NestedToolResult {
    try whileRunning { _ in }
    return try await scope.waitingForHost {
      try await nested.execute(name, arguments, options)
    }
  }

  // MARK: Progress

  private func commitFromThrottle() async -> Int64 {
    do {
      let written = try await commitProgress()
      return max(runtime.settings.outputIntervalMs, written * 1_000 / Self.bytesPerSecond)
    } catch {
      if cancelReason == nil { runtime.report("progress was not kept: \(error)") }
      return runtime.settings.outputIntervalMs
    }
  }

  /// Writes what has changed into the slot; returns about how many bytes that were.
  private func commitProgress() async throws -> Int64 {
    guard showsProgress else { return 0 }
    return try await writing.hold {
      let (before, now) = state.withLock { state in
        let retained = state.window.retained()
        let now = Shown(
          output: retained.text.isEmpty && !retained.truncated ? nil : retained.text,
          droppedBytes: retained.droppedBytes,
          droppedLines: retained.droppedLines,
          details: state.hasDetails ? state.details ?? .null : nil,
          diagnostics: state.diagnostics
        )
        return (state.shown, now)
      }
      guard before != now else { return 0 }
      try await runtime.commit { tx, record in
        try await tx.editSlot(of: record.id, record.conversationId) { live, slot in
          guard live.value.value(at: slot)?["status"] == "running" else { return }
          try Self.show(now, instead: before, in: &live, slot)
        }
        return nil
      }
      state.withLock { $0.shown = now }
      return Self.size(of: now, after: before)
    }
  }

  private static func show(
    _ now: Shown,
    instead before: Shown,
    in live: inout DocumentDraft,
    _ slot: [PathSegment]
  ) throws {
    if now.output != before.output, let output = now.output {
      try live.assign(slot + ["output"], .string(output))
    }
    if now.droppedBytes != before.droppedBytes {
      try live.assign(slot + ["droppedBytes"], .int(now.droppedBytes))
      try live.assign(slot + ["droppedLines"], .int(now.droppedLines))
    }
    if now.details != before.details, let details = now.details {
      try live.assign(slot + ["details"], details)
    }
    if now.diagnostics != before.diagnostics {
      try live.assign(slot + ["diagnostics"], .array(now.diagnostics.map { $0.json }))
    }
  }

  private static func size(of now: Shown, after before: Shown) -> Int64 {
    var size = 0
    if let output = now.output {
      let old = before.output ?? ""
      let isExtended = output.utf8.starts(with: old.utf8)
      size += output.utf8.count - (isExtended ? old.utf8.count : 0)
    }
    if now.details != before.details { size += now.details?.roughSize ?? 0 }
    for diagnostic in now.diagnostics.dropFirst(before.diagnostics.count) {
      size += diagnostic.message.utf8.count
    }
    return Int64(size)
  }

  // MARK: End

  /// Refuses everything later, ends the progress commits and returns what was reported.
  func finish() async -> Reported {
    let reported = state.withLock { state in
      state.isOver = true
      state.window.finish()
      return Reported(
        retained: state.window.retained(),
        diagnostics: state.diagnostics
          + (state.leftOut > 0 ? [DiagnosticBounds.leftOut(state.leftOut)] : []),
        details: state.hasDetails ? state.details : nil
      )
    }
    scope.end()
    await nested.finish()
    await throttle.withLock { $0 }?.stop()
    return reported
  }
}
