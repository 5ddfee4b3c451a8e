import PerdureModel
import PerdureValue

/// A value that has to be migrated by code that may take its time, so not on the line.
struct NeedsMigration: Error {
  var kind: JSONString
  var key: JSONString?
  var version: Int64
  var value: JSON
}

/// Values that were migrated before a commit, each with what it was.
struct PreparedMigrations: Sendable {
  private struct Prepared: Sendable {
    var kind: JSONString
    var key: JSONString?
    var version: Int64
    var old: JSON
    var new: JSON
  }

  private var all: [Prepared] = []

  mutating func add(_ need: NeedsMigration, _ new: JSON) {
    all.append(
      Prepared(kind: need.kind, key: need.key, version: need.version, old: need.value, new: new)
    )
  }

  /// How often a document was migrated for this commit.
  func count(of need: NeedsMigration) -> Int {
    all.count { $0.kind == need.kind && $0.key == need.key }
  }

  func value(_ kind: JSONString, _ key: JSONString?, _ version: Int64, _ old: JSON) -> JSON? {
    all.last {
      $0.kind == kind && $0.key == key && $0.version == version && $0.old == old
    }?.new
  }
}

extension DocumentDefinition {
  /// Makes a definition of what was declared; values of older versions come from `prepared`.
  init(_ declaration: DocumentDeclaration, key: JSONString?, _ prepared: PreparedMigrations) {
    let kind = declaration.kind
    let scope: Scope =
      switch declaration.place {
      case .session: .session
      case .conversation(let history, let fork): .conversation(history, fork)
      case .task: .task
      }
    self.init(
      kind: kind,
      version: declaration.version,
      scope: scope,
      isFamily: declaration.isKeyed,
      initial: { seed, _ in seed ?? .object(declaration.initial) },
      migrate: { value, version in
        if let new = prepared.value(kind, key, version, value) { return new }
        throw NeedsMigration(kind: kind, key: key, version: version, value: value)
      },
      storesBase: { change in
        switch declaration.base {
        case .always: true
        case .never: false
        case .deltas(let count): change.deltasSinceBase >= count
        }
      }
    )
  }

  /// Makes the definition of a stored document as it is, for those who only look at it.
  init(viewing stored: StoredDocument) {
    let record = stored.record
    let scope: Scope =
      switch record.address.scope {
      case .session: .session
      case .conversation: .conversation(record.history ?? .latest, record.fork ?? .initial)
      case .task: .task
      }
    self.init(
      kind: record.address.kind,
      version: stored.version,
      scope: scope,
      isFamily: record.address.key != nil,
      initial: { _, _ in [:] },
      storesBase: { _ in false }
    )
  }
}
