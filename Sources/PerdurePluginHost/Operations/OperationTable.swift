/// All that plugins can ask for. Parsing, the check of where, `host.info` and the documentation go
/// by this list.
extension OperationSchema {
  /// The operations that this host serves, in the order of the documentation.
  static let served: [OperationSchema] =
    housekeeping + streams + reads + writes + work + models + environments + registration + wraps

  private static let byName: [String: OperationSchema] = Dictionary(
    served.map { ($0.name, $0) },
    uniquingKeysWith: { first, _ in first }
  )

  /// The operation of this name; it may be one that nobody serves.
  static func named(_ name: String) -> OperationSchema { byName[name] ?? unknown(name) }

  /// An operation that this host does not know.
  static func unknown(_ name: String) -> OperationSchema {
    OperationSchema(
      name: name,
      classes: [],
      members: [],
      body: .now { (_, _) throws(OperationProblem) in nil }
    )
  }

  /// Whether this host knows it.
  var isServed: Bool { Self.byName[name] != nil }
}
