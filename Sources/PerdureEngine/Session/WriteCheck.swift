import PerdureModel
import PerdureValue

/// What a store may be given: nothing that it could not read again.
extension StorageWrite {
  // Room for what stores put around the values of a record.
  private static let margin = 12
  /// How deep what tools and models send may nest, far from what a record may hold.
  static let depth = 256

  /// Whether a value from outside is one that records can hold, with all that stands around it.
  static func takes(_ value: JSON) -> Bool {
    value.isReadable(below: JSON.ParseOptions().maxDepth - depth)
  }

  /// Throws `invalidInput` for a record that nobody could read again.
  func check() throws {
    switch self {
    case .entry(let record):
      var values = record.model ?? []
      if let data = record.data { values.append(data) }
      for case .replace(_, let messages) in record.edits ?? [] { values += messages }
      try Self.check(values, "entry \(record.id)")
    case .task(let record):
      var values = [record.input, record.state.checkpoint ?? record.state.outcome?.json ?? .null]
      if let memos = record.memos { values.append(.object(memos)) }
      try Self.check(values, "task \(record.id)")
    case .submission(let record):
      if case .unanswered(_, let detail?, _) = record.state {
        try Self.check([detail], "submission \(record.id)")
      }
    default: break
    }
  }

  private static func check(_ values: [JSON], _ name: String) throws {
    guard values.allSatisfy({ $0.isReadable(below: margin) }) else {
      throw PerdureError(
        .invalidInput,
        "\(name) has a value that nests too deep or has an integer that is none",
        hint: "values of records nest at most \(JSON.ParseOptions().maxDepth - margin) levels"
      )
    }
  }
}
