import Perdure

/// How much the tests try; `Tests/run --long` asks for more by a variable of the environment.
package enum Effort: Sendable {
  /// A sample, in every run of the tests.
  case short
  /// Everything, for minutes.
  case long

  /// What the variable `PERDURE_TESTS` asks for.
  package static let current: Effort = HostText.variable("PERDURE_TESTS") == "long" ? .long : .short

  /// The seed of the variable `PERDURE_SEED`, with which a failure is repeated.
  package static let seed: UInt64? = HostText.variable("PERDURE_SEED").flatMap { UInt64($0) }

  /// Returns the value for this effort.
  package static func choose<Value>(_ short: Value, long: Value) -> Value {
    current == .long ? long : short
  }
}
