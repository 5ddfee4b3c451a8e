/// Converts nanoseconds.
func milliseconds(_ nanoseconds: Int64) -> Double { Double(nanoseconds) / 1_000_000 }

/// The value below which about `share` percent of `values` lie; 0 without values.
func percentile(_ values: [Double], _ share: Double) -> Double {
  guard !values.isEmpty else { return 0 }
  let position = (share / 100 * Double(values.count - 1)).rounded()
  return values.sorted()[min(values.count - 1, max(0, Int(position)))]
}
