import Perdure

/// What `--help` says.
enum Help {
  /// The verbs, in the order in which they are listed.
  static let verbs =
    [RunVerb.verb, ResumeVerb.verb, ServeVerb.verb, CloseVerb.verb] + ApprovalVerbs.all
    + [CompactVerb.verb, LogVerb.verb] + TaskVerbs.all + StoreVerbs.all + [
      ConversationListVerb.verb, ConversationArchiveVerb.archive, ConversationArchiveVerb.unarchive,
      ConversationDeleteVerb.verb,
    ] + PluginVerbs.all + [DoctorVerb.verb, VersionVerb.verb]

  /// Verbs that only this program itself uses.
  static let hidden = [PluginCheckVerb.one]

  /// Returns the help of the verbs that begin with a word.
  static func overview(of group: String) -> String {
    """
    Usage: perdure \(group) VERB [options]

    \(list(verbs.filter { $0.name.hasPrefix(group + " ") }))

    'perdure \(group) VERB --help' lists the options of a verb.
    """
  }

  private static func list(_ verbs: [Verb]) -> String {
    let width = verbs.map { $0.name.count }.max() ?? 0
    return verbs.map { "  \(padded($0.name, width))  \($0.summary)" }.joined(separator: "\n")
  }

  /// Returns the help of the whole program.
  static var overview: String {
    """
    perdure \(PerdureVersion.perdure): durable AI agents, extended by shared libraries

    Usage: perdure VERB [options]

    \(list(verbs))

    'perdure VERB --help' lists the options of a verb.
    Exit status: 0 ok, 1 run failed, 2 usage, 3 configuration, 4 authentication,
    5 plugin refused, 6 limit reached, 7 approval, 8 store in use, 75 try again later,
    130 and 143 interrupted.
    """
  }

  /// Returns the help of one verb.
  static func text(for verb: Verb) -> String {
    let usage = (["perdure \(verb.name)"] + (verb.options.isEmpty ? [] : ["[options]"]))
    var text = "Usage: \((usage + verb.positionals).joined(separator: " "))\n\n\(verb.summary)\n"
    let all = verb.options + [Option(name: "help", help: "show this")]
    let left = all.map { "  --\($0.name)" + ($0.value.map { " \($0)" } ?? "") }
    let width = left.map { $0.count }.max() ?? 0
    text += "\n"
    for (option, start) in zip(all, left) {
      let lines = sentence(option).split(separator: "\n")
      for (number, line) in lines.enumerated() {
        text += padded(number == 0 ? start : "", width) + "  \(line)\n"
      }
    }
    return verb.notes.isEmpty ? text : text + "\n\(verb.notes)\n"
  }

  private static func sentence(_ option: Option) -> String {
    guard let standard = option.standard else { return option.help }
    let isLong = option.help.count + standard.count > 55
    return "\(option.help)\(isLong ? "\n" : " ")(default: \(standard))"
  }

  private static func padded(_ text: String, _ width: Int) -> String {
    text + String(repeating: " ", count: max(0, width - text.count))
  }
}
