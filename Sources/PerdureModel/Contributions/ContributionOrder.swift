/// Where a hook or wrap stands among those of other extensions at the same place.
///
/// Without it they stand in the order of their extensions. Names of extensions that bring nothing to
/// the place are passed over. Orders that lead in a circle refuse the extension that closes it.
public struct ContributionOrder: Sendable, Equatable {
  /// The extensions that it comes before.
  public var before: [String]
  /// The extensions that it comes after.
  public var after: [String]

  /// Makes an order; an empty one leaves things as they are.
  public init(before: [String] = [], after: [String] = []) {
    self.before = before
    self.after = after
  }

  /// Whether it leaves things as they are.
  package var isEmpty: Bool { before.isEmpty && after.isEmpty }
}
