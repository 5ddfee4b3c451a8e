package import PerdureValue

/// A value that follows events, and says by which operations it changes.
///
/// Applied to the `json` of before, the operations give the `json` of after.
package protocol Fold: Sendable {
  associatedtype Event: Sendable
  /// What the outside is shown.
  associatedtype Value: Sendable

  var value: Value { get }
  var json: JSON { get }
  /// Why it will never change again, once what it follows is gone.
  var end: WatchEnd? { get }

  /// Follows one event; without operations the event did not concern it.
  mutating func apply(_ event: Event) -> [Operation]
}

extension Fold {
  package var end: WatchEnd? { nil }
}

extension Operation {
  /// The same change of a value that lies at `prefix` in another one.
  package func under(_ prefix: [PathSegment]) -> Operation {
    switch self {
    case .replace(let value): .set(prefix, value)
    case .set(let path, let value): .set(prefix + path, value)
    case .delete(let path): .delete(prefix + path)
    case .append(let path, let text): .append(prefix + path, text)
    case .trim(let path, let count): .trim(prefix + path, count)
    case .splice(let path, let index, let remove, let items):
      .splice(prefix + path, at: index, remove: remove, insert: items)
    case .reorder(let path, let order): .reorder(prefix + path, order)
    }
  }
}
