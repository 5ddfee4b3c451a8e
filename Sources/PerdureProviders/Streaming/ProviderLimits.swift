/// How long a provider may take, in milliseconds.
///
/// Only events count as signs of life: a comment that keeps a connection alive does not.
package struct ProviderLimits: Sendable, Equatable {
  /// Until the connection stands, including name look-up and TLS.
  package var connectMs: Int64 = 30_000
  /// From there until the header of the answer has arrived.
  package var firstByteMs: Int64 = 300_000
  /// From the header to the first event, and between two events.
  package var betweenEventsMs: Int64 = 120_000
  /// For the whole answer.
  package var totalMs: Int64 = 3_600_000

  /// Makes the limits that fit servers on the internet.
  package init() {}
}

extension ProviderLimits {
  static func nanoseconds(_ milliseconds: Int64) -> Int64 {
    let (value, overflow) = milliseconds.multipliedReportingOverflow(by: 1_000_000)
    return overflow ? .max : value
  }

  /// The number of seconds as people write it: `120 s`, `0.5 s`.
  static func seconds(_ milliseconds: Int64) -> String {
    milliseconds % 1000 == 0 ? "\(milliseconds / 1000) s" : "\(Double(milliseconds) / 1000) s"
  }
}
