package import PerdureValue

/// A kind of document as whoever keeps it declares it, without code but for migration.
package struct DocumentDeclaration: Sendable {
  /// What documents of the kind belong to.
  package enum Place: Sendable, Hashable {
    case session
    case conversation(DocumentHistory, DocumentFork)
    case task
  }

  /// When a complete value is stored rather than a change.
  package enum Base: Sendable, Hashable {
    case always, never
    /// After so many changes.
    case deltas(Int)
  }

  /// Leads a value of an older version to this one.
  package typealias Migration =
    @Sendable (_ key: JSONString?, _ version: Int64, _ value: JSON) async throws -> JSON

  package var kind: JSONString
  package var version: Int64
  package var place: Place
  package var isKeyed: Bool
  package var initial: JSONObject
  package var base: Base
  /// The older versions that can be led to this one.
  package var migrates: [Int64]
  package var migrate: Migration
  /// Whether each new conversation gets one.
  package var comesWithConversation: Bool

  package init(
    kind: JSONString,
    version: Int64,
    place: Place,
    isKeyed: Bool,
    initial: JSONObject,
    base: Base,
    migrates: [Int64],
    comesWithConversation: Bool,
    migrate: @escaping Migration
  ) {
    self.kind = kind
    self.version = version
    self.place = place
    self.isKeyed = isKeyed
    self.initial = initial
    self.base = base
    self.migrates = migrates
    self.comesWithConversation = comesWithConversation
    self.migrate = migrate
  }
}
