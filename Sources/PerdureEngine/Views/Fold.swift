package import PerdureValue

/// A value that follows events, and says by which steps it changes.
///
/// Steps are operations, unless a fold has others: applied to the `json` of before, they give the
/// `json` of after.
package protocol Fold: Sendable {
  associatedtype Event: Sendable
  /// What those who follow the value are told.
  associatedtype Step: Sendable = Operation
  /// What the outside is shown.
  associatedtype Value: Sendable

  var value: Value { get }
  var json: JSON { get }
  /// Why it will never change again, once what it follows is gone.
  var end: WatchEnd? { get }

  /// Follows one event; without steps the event did not concern it.
  mutating func apply(_ event: Event) -> [Step]
}

extension Fold {
  package var end: WatchEnd? { nil }
}
