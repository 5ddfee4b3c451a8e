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
    // Cancellation ends the sleep early, which is what the caller asked for.
    try? await Task.sleep(nanoseconds: UInt64(nanoseconds))
  }
}
