import PerdureModel

extension PerdureError.Code {
  /// The command line cannot be understood.
  static let usage: Self = "usage"
}

/// Makes the errors of a command line that cannot be understood.
enum UsageError {
  static func make(_ message: String, _ hint: String) -> PerdureError {
    PerdureError(.usage, message, hint: hint)
  }
}

/// Reads what stands behind the verb: options before, between and behind the rest, each as
/// `--name value` or `--name=value`; behind `--` nothing is an option.
struct CommandLineParser {
  private let verb: Verb
  private var result = ParsedArguments()

  private init(_ verb: Verb) { self.verb = verb }

  /// Returns the parsed arguments, or `nil` if help is asked for.
  static func parse(_ arguments: [String], for verb: Verb) throws -> ParsedArguments? {
    var parser = CommandLineParser(verb)
    return try parser.run(arguments[...]) ? parser.result : nil
  }

  private mutating func run(_ arguments: ArraySlice<String>) throws -> Bool {
    var rest = arguments
    while let argument = rest.popFirst() {
      if argument == "--" {
        for last in rest { try positional(last) }
        break
      }
      if argument == "-h" || argument == "--help" { return false }
      if argument == "-" || !argument.hasPrefix("-") {
        try positional(argument)
      } else {
        try option(argument, &rest)
      }
    }
    let required = verb.positionals.filter { !$0.hasPrefix("[") }
    if result.positionals.count < required.count {
      throw UsageError.make(
        "\(verb.name) needs \(required[result.positionals.count])",
        Self.askForHelp(verb)
      )
    }
    return true
  }

  private mutating func positional(_ text: String) throws {
    guard result.positionals.count < verb.positionals.count else {
      let quoting = verb.positionals == ["[PROMPT]"]
      throw UsageError.make(
        "there is an argument too many: '\(text)'",
        quoting ? "put the whole prompt in quotes" : Self.askForHelp(verb)
      )
    }
    result.add(positional: text)
  }

  private mutating func option(_ argument: String, _ rest: inout ArraySlice<String>) throws {
    let parts = argument.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
    let name = String(parts[0].drop { $0 == "-" })
    guard argument.hasPrefix("--"), let option = verb.options.first(where: { $0.name == name })
    else {
      let known = verb.options.map { $0.name } + ["help"]
      let hint =
        Suggestion.nearest(to: name, among: known).map { "did you mean --\($0)?" }
        ?? Self.askForHelp(verb)
      throw UsageError.make("\(verb.name) has no option \(parts[0])", hint)
    }
    guard let placeholder = option.value else {
      if parts.count == 2 {
        throw UsageError.make("--\(name) takes no value", "write --\(name) alone")
      }
      return try result.add("", for: option)
    }
    if parts.count == 2 { return try result.add(String(parts[1]), for: option) }
    guard let value = rest.first, !isOption(value) else {
      throw UsageError.make("--\(name) needs a value", "write --\(name) \(placeholder)")
    }
    rest.removeFirst()
    try result.add(value, for: option)
  }

  /// Whether a word is an option of this verb, and so hardly a value that stands for itself.
  private func isOption(_ word: String) -> Bool {
    guard word.hasPrefix("--") else { return word == "-h" }
    let name = word.dropFirst(2).prefix { $0 != "=" }
    return name == "help" || verb.options.contains { $0.name == name }
  }

  private static func askForHelp(_ verb: Verb) -> String {
    "'perdure \(verb.name) --help' lists what it takes"
  }
}
