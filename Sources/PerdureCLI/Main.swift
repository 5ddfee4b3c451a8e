import Perdure
import PerdureModel

/// The program `perdure`.
@main
enum Main {
  static func main() async {
    HostText.openStreams()
    HostExecutor.install()
    await program()
  }

  /// Away from the main actor, which libdispatch serves.
  @concurrent
  private static func program() async {
    let arguments = Array(CommandLine.arguments.dropFirst())
    // Known before the arguments are, so that every error has the form that was asked for.
    let isJSON = arguments.prefix { $0 != "--" }.contains("--json")
    let choice = choose(arguments)
    let reporter = Reporter(
      verb: choice.verb?.name ?? "",
      hasEvents: choice.verb?.hasEvents ?? false,
      isJSON: isJSON
    )
    do {
      try SignalWatch.start()
      SignalWatch.handleByEnding(reporter)
      guard let verb = choice.verb else {
        guard let unknown = choice.unknown else {
          reporter.print(choice.group.map { Help.overview(of: $0) } ?? Help.overview)
          finish(reporter, arguments.isEmpty ? .usage : .ok)
        }
        throw unknownVerb(unknown)
      }
      guard let parsed = try CommandLineParser.parse(choice.rest, for: verb) else {
        reporter.print(Help.text(for: verb))
        finish(reporter, .ok)
      }
      finish(reporter, try await verb.body(parsed, reporter))
    } catch let error as PerdureError {
      reporter.end(ExitStatus(error), error: error)
    } catch {
      reporter.end(.runFailed, error: PerdureError("internal", "\(error)"))
    }
  }

  private struct Choice {
    var verb: Verb?
    var unknown: String?
    /// The first word of the verbs that help is asked for about.
    var group: String?
    var rest: [String] = []
  }

  /// Finds the verb; options may stand before it only if they ask for help or the version.
  private static func choose(_ arguments: [String]) -> Choice {
    var words = arguments
    if words.first == "help" { words = Array(words.dropFirst()) + ["--help"] }
    if words.first == "--version" { words[0] = "version" }
    guard let first = words.first, first != "--help", first != "-h" else { return Choice() }
    for verb in Help.verbs + Help.hidden {
      let name = verb.name.split(separator: " ").map(String.init)
      if words.starts(with: name) {
        return Choice(verb: verb, rest: Array(words.dropFirst(name.count)))
      }
    }
    if words.dropFirst().contains(where: { ["-h", "--help"].contains($0) }), isGroup(first) {
      return Choice(group: first)
    }
    // A first word that is misspelt is known by the second one.
    let isWhole = words.count > 1 && !words[1].hasPrefix("-") && !isVerb(first)
    guard isWhole else { return Choice(unknown: first) }
    let whole = "\(first) \(words[1])"
    let isMeant = Suggestion.nearest(to: whole, among: Help.verbs.map { $0.name }) != nil
    return Choice(unknown: isGroup(first) || isMeant ? whole : first)
  }

  private static func isGroup(_ word: String) -> Bool {
    Help.verbs.contains { $0.name.hasPrefix(word + " ") }
  }

  private static func isVerb(_ word: String) -> Bool { Help.verbs.contains { $0.name == word } }

  private static func unknownVerb(_ unknown: String) -> PerdureError {
    let names = Help.verbs.map { $0.name }
    if isGroup(unknown) {
      let members = names.filter { $0.hasPrefix(unknown + " ") }.map { "'perdure \($0)'" }
      return UsageError.make(
        "\(unknown) is only the first word of a verb",
        "write \(members.joined(separator: ", "))"
      )
    }
    let groups = Set(
      names.compactMap { $0.split(separator: " ").dropLast().first.map(String.init) }
    )
    return UsageError.make(
      "there is no verb '\(unknown)'",
      Suggestion.sentence(for: unknown, among: names + groups.sorted())
        ?? "the verbs are \(names.joined(separator: ", "))"
    )
  }

  /// Ends after a verb whose output is complete without a result line.
  private static func finish(_ reporter: Reporter, _ status: ExitStatus) -> Never {
    reporter.endPlainly(status)
  }
}
