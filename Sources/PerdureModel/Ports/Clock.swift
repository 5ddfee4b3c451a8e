/// Time as the host sees it; tests put a clock that they turn by hand.
public protocol HostClock: Sendable {
  /// Milliseconds since 1970.
  func now() -> Int64
  /// Nanoseconds of a clock that never goes back.
  func monotonic() -> Int64
  /// Returns at `monotonic() + nanoseconds`, or earlier when the calling task is cancelled.
  func sleep(nanoseconds: Int64) async
  /// Sleeps for something that may as well not happen, and returns whether it did.
  ///
  /// A host that should not be woken for that returns `false` at once.
  func sleepInBackground(nanoseconds: Int64) async -> Bool
  /// Calls `ring`, which returns at once, when `nanoseconds` are over.
  ///
  /// The returned closure takes that back, if it is not too late, and may be called more than once.
  /// What nearly always is taken back, such as a deadline, should not cost a task: an
  /// implementation of one's own may do better than the default.
  func alarm(nanoseconds: Int64, _ ring: @escaping @Sendable () -> Void) -> @Sendable () -> Void
}

extension HostClock {
  public func alarm(
    nanoseconds: Int64,
    _ ring: @escaping @Sendable () -> Void
  ) -> @Sendable () -> Void {
    // Owned by whoever holds the returned closure.
    let task = Task.detached {
      await sleep(nanoseconds: nanoseconds)
      if !Task.isCancelled { ring() }
    }
    return { task.cancel() }
  }

  public func sleepInBackground(nanoseconds: Int64) async -> Bool {
    await sleep(nanoseconds: nanoseconds)
    return true
  }
}

/// Something that went wrong and was contained; a report never changes what happens.
public struct Report: Sendable {
  /// What kind of thing it was: `session_failed`, `task_faulted`, `task_parked`, `task_error`,
  /// `extension_error`, `task_outdated`, `migration_failed`, `plugin_log`, `plugin_error`,
  /// `plugin_strike`, `plugin_closed`, `plugin_slow_start`, `plugin_died`, `plugin_quarantined`,
  /// `host_error`, `listener_error`, `approval_denied`, `tool_waiting`.
  public var type: String
  /// One sentence.
  public var message: String
  /// The task it concerns.
  public var task: TaskID?
  /// The extension it concerns.
  public var extensionName: String?
  /// The error that it is about, where there is one.
  public var error: PerdureError?

  /// Makes a report.
  public init(
    type: String,
    message: String,
    task: TaskID? = nil,
    extensionName: String? = nil,
    error: PerdureError? = nil
  ) {
    self.type = type
    self.message = message
    self.task = task
    self.extensionName = extensionName
    self.error = error
  }
}
