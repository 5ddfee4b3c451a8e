/// One option of a verb.
struct Option: Sendable {
  /// Without the two dashes.
  var name: String
  /// What stands for its value in the help; `nil` for an option without value.
  var value: String?
  var isRepeatable = false
  var help: String
  /// What holds if it is not given; said behind the help.
  var standard: String?
}

/// One verb as the command line offers it.
struct Verb: Sendable {
  /// One or two words.
  var name: String
  var summary: String
  var options: [Option] = []
  /// The names of what may follow, in order; all but those in brackets must be there.
  var positionals: [String] = []
  /// Said below the options.
  var notes: String = ""
  /// Whether `--json` gives a header, events and a result, and not one object.
  var hasEvents = false
  var body: @Sendable (ParsedArguments, Reporter) async throws -> ExitStatus
}

/// What stood on the command line behind the verb.
struct ParsedArguments: Sendable {
  private var values: [String: [String]] = [:]
  private(set) var positionals: [String] = []

  /// Whether an option was given.
  func has(_ name: String) -> Bool { values[name] != nil }

  /// Returns the value of an option, or `nil`.
  func value(_ name: String) -> String? { values[name]?.last }

  /// Returns all values of an option that may be repeated.
  func all(_ name: String) -> [String] { values[name] ?? [] }

  /// Returns the value of an option that must be one of a few words.
  func choice<Word: RawRepresentable & CaseIterable>(
    _ name: String,
    _ type: Word.Type
  ) throws -> Word? where Word.RawValue == String {
    guard let text = value(name) else { return nil }
    if let word = Word(rawValue: text) { return word }
    let words = Word.allCases.map { $0.rawValue }
    throw UsageError.make(
      "--\(name) cannot be '\(text)'",
      Suggestion.sentence(for: text, among: words)
        ?? "use one of \(words.joined(separator: ", "))"
    )
  }

  /// Returns the value of an option that must be a whole number.
  func number(_ name: String, in range: ClosedRange<Int64>) throws -> Int64? {
    guard let text = value(name) else { return nil }
    guard let number = Int64(text), range.contains(number) else {
      throw UsageError.make(
        "--\(name) cannot be '\(text)'",
        "give a whole number from \(range.lowerBound) to \(range.upperBound)"
      )
    }
    return number
  }

  mutating func add(_ value: String, for option: Option) throws {
    if values[option.name] != nil, !option.isRepeatable, option.value != nil {
      throw UsageError.make("--\(option.name) is given twice", "give it once")
    }
    values[option.name, default: []].append(value)
  }

  mutating func add(positional: String) { positionals.append(positional) }
}
