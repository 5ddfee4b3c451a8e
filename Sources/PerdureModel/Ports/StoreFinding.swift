/// Something that a check found in a store.
package struct StoreFinding: Sendable, Equatable {
  /// What kind of thing it is; an open set of lower-case names.
  package var code: String
  /// What it is about: a record, a file and line, a table.
  package var object: String
  /// One clause that says what is wrong.
  package var message: String
  /// Whether something is broken; otherwise it is worth knowing and no more.
  package var isDamage: Bool

  /// Makes a finding.
  package init(_ code: String, _ object: String, _ message: String, isDamage: Bool = true) {
    self.code = code
    self.object = object
    self.message = message
    self.isDamage = isDamage
  }
}

extension StoreFinding: CustomStringConvertible {
  package var description: String { "\(object): \(message)" }
}

/// Takes findings while a check goes on; called from any thread, one call at a time.
package typealias FindingSink = @Sendable (StoreFinding) -> Void
