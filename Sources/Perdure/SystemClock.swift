import CPerdureLinux
public import PerdureModel

/// The clocks of the machine.
public struct SystemClock: HostClock {
  /// Makes the clock.
  public init() {}

  public func now() -> Int64 { perdure_realtime_ms() }

  public func monotonic() -> Int64 { perdure_monotonic_ns() }

  public func sleep(nanoseconds: Int64) async {
    guard nanoseconds > 0 else { return }
    if let thread = TimerThread.shared { return await thread.sleep(nanoseconds: nanoseconds) }
    // Cancellation ends the sleep early, which is what the caller asked for.
    try? await Task.sleep(nanoseconds: UInt64(nanoseconds))
  }

  public func alarm(
    nanoseconds: Int64,
    _ ring: @escaping @Sendable () -> Void
  ) -> @Sendable () -> Void {
    if let thread = TimerThread.shared {
      return thread.alarm(nanoseconds: nanoseconds, ring)
    }
    // Owned by whoever holds the returned closure.
    let task = Task.detached {
      await sleep(nanoseconds: nanoseconds)
      if !Task.isCancelled { ring() }
    }
    return { task.cancel() }
  }
}
