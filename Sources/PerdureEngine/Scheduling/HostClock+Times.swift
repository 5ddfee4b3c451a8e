import PerdureModel

extension HostClock {
  /// Sleeps as `sleep(nanoseconds:)` does; times beyond what a clock counts are cut.
  func sleep(milliseconds: Int64) async {
    let (nanoseconds, overflow) = milliseconds.multipliedReportingOverflow(by: 1_000_000)
    await sleep(nanoseconds: overflow ? (milliseconds > 0 ? .max : 0) : nanoseconds)
  }
}

extension Int64 {
  /// Returns the sum, or the nearest integer there is.
  func addingSaturated(_ other: Int64) -> Int64 {
    let (sum, overflow) = addingReportingOverflow(other)
    return overflow ? (other > 0 ? .max : .min) : sum
  }
}

extension Duration {
  /// The whole nanoseconds, at most the greatest integer and at least 0.
  var nanoseconds: Int64 {
    let (seconds, attoseconds) = components
    let (whole, overflow) = seconds.multipliedReportingOverflow(by: 1_000_000_000)
    if overflow { return seconds > 0 ? .max : 0 }
    let (sum, isTooBig) = whole.addingReportingOverflow(attoseconds / 1_000_000_000)
    return isTooBig ? .max : max(0, sum)
  }
}
