import PerdureValue

extension PluginTest {
  private static let nameLimit = 4_000

  /// Calls what the file has names of and the manifest does not.
  ///
  /// The kits for C++, Rust and Swift compare both themselves; a table in C, or code that compares
  /// names, cannot be read, but the names stand in the file.
  static let handlers = PluginTest(
    group: .calls,
    word: "handlers",
    question: "the manifest names everything that the plugin answers",
    remedy: "name it in the manifest as it is named in the code, or remove its function",
    limitMs: 180_000
  ) { subject in
    let names = HandlerNames(of: subject)
    guard !names.candidates.isEmpty else { return }
    try subject.live { host in
      var asked: [String: Bool] = [:]
      for name in names.candidates.prefix(nameLimit) {
        let kind = HandlerNames.kind(of: name)
        // A plugin that takes any name answers this one, too, and says nothing of others.
        let takesAny = try asked[kind] ?? answers(kind + HandlerNames.nobody, subject, host)
        asked[kind] = takesAny
        if !takesAny, try answers(name, subject, host) {
          throw CheckFailure("it answers \(name), which the manifest does not name")
        }
      }
    }
  }

  /// Whether the plugin does anything but refuse the target.
  private static func answers(
    _ name: String,
    _ subject: CheckSubject,
    _ host: CheckHost
  ) throws -> Bool {
    let target = subject.targets.unnamed(name)
    let call = subject.start(target, on: host)
    try subject.finish(call, of: target, on: host)
    return !host.look(at: call).isRefusal
  }
}

/// The targets that the file of a plugin seems to have functions for, and its manifest does not name.
struct HandlerNames {
  /// What no plugin has a function for.
  static let nobody = "nobody-has-this-name"

  /// How the targets of calls begin.
  private static let kinds = [
    "tool:", "tool.prepare:", "section:", "hook:", "wrap:tool:", "wrap:section:", "task:",
    "task.abort:", "task.initial:", "task.migrate:", "document.migrate:",
  ]
  /// The targets that are whole names.
  private static let words = ["snapshot", "restore", "health"]

  /// What the texts of the file come to, whole targets before names that may be those of tools.
  let candidates: [String]

  init(of subject: CheckSubject) {
    let named = subject.targets.declared
    let dynamic = subject.manifest.dynamic
    let texts = subject.texts.filter { $0.utf8.count <= 256 }
    let whole = texts.filter { text in Self.kinds.contains { text.hasPrefix($0) && text != $0 } }
    let tools = texts.filter(Names.isTool).map { "tool:\($0)" }
    candidates = (Self.words + whole + tools).filter { name in
      switch Self.kind(of: name) {
      case "tool:" where dynamic?.tools != nil: false
      case "section:" where dynamic?.sections != nil: false
      case "hook:" where dynamic?.hooks == true: false
      default: !named.contains(name)
      }
    }
  }

  /// How a target begins; nothing for one that is a whole name.
  static func kind(of name: String) -> String {
    kinds.first { name.hasPrefix($0) } ?? ""
  }
}
