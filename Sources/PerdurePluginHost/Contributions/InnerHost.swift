import PerdureModel
import PerdureValue
import Synchronization

/// The engine's side of a call as a tool inside a wrap sees it: its own reason to end, and its output
/// to the wrap if that wants it.
final class InnerHost: ToolCallHost, WrapPort {
  private let outer: any ToolCallHost
  private let capture: Capture?
  private let reason = Mutex<CancelReason?>(nil)

  init(_ outer: any ToolCallHost, _ capture: Capture?) {
    self.outer = outer
    self.capture = capture
  }

  /// Notes why the inner call ends; the first reason stays.
  func cancel(_ new: CancelReason) {
    reason.withLock { reason in if reason == nil { reason = new } }
  }

  var cancelReason: CancelReason? {
    let own = reason.withLock { (reason) -> CancelReason? in reason }
    return own ?? outer.cancelReason
  }

  private var port: (any WrapPort)? { outer as? any WrapPort }

  func tasksAbove() async throws -> Set<TaskID> {
    guard let port else { return [] }
    return try await port.tasksAbove()
  }

  func giveUp() { port?.giveUp() }

  func deadline(
    nanoseconds: Int64,
    _ atEnd: @escaping @Sendable () async -> Void
  ) -> @Sendable () -> Void {
    guard let port else { return {} }
    return port.deadline(nanoseconds: nanoseconds, atEnd)
  }

  // MARK: Output

  func output(_ text: JSONString, skipped: SkippedOutput?) throws {
    guard let capture else { return try outer.output(text, skipped: skipped) }
    try outer.check()
    capture.skip(skipped)
    capture.add(["text": .string(text)])
  }

  func output(bytes: [UInt8], skipped: SkippedOutput?) throws {
    guard let capture else { return try outer.output(bytes: bytes, skipped: skipped) }
    try outer.check()
    capture.skip(skipped)
    capture.add(bytes: bytes)
  }

  func diagnostic(_ diagnostic: ToolDiagnostic) throws {
    guard let capture else { return try outer.diagnostic(diagnostic) }
    try outer.check()
    capture.add(["diagnostic": diagnostic.json])
  }

  func details(_ value: JSON?) throws {
    guard let capture else { return try outer.details(value) }
    try outer.check()
    capture.add(["details": value ?? .null])
  }

  func flushOutput() async throws {
    if capture == nil { try await outer.flushOutput() } else { try await outer.barrier() }
  }

  func retainedOutput() throws -> (text: String, truncated: Bool) {
    guard let capture else { return try outer.retainedOutput() }
    try outer.check()
    return (capture.text, capture.isTruncated)
  }

  // MARK: Everything else is the outer call's

  func barrier() async throws { try await outer.barrier() }
  func settings() throws -> JSON { try outer.settings() }
  func clock() -> (now: Int64, monotonic: Int64) { outer.clock() }

  func sleep(milliseconds: Int64) async throws {
    try await outer.sleep(milliseconds: milliseconds)
  }

  func report(_ message: String) { outer.report(message) }

  func executeTool(
    _ name: String,
    _ arguments: JSON,
    _ options: NestedCallOptions
  ) async throws -> NestedToolResult {
    try await outer.executeTool(name, arguments, options)
  }
}

extension ToolCallHost {
  /// Throws `invocationEnded` once the call is over.
  fileprivate func check() throws { _ = try retainedOutput() }
}
