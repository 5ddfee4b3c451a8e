import Perdure
import PerdureModel
import PerdureValue

/// `perdure plugin new`: a folder with a plugin that builds and answers as it is.
enum PluginNewVerb {
  private static let languages = ScaffoldLanguage.all.map { $0.name }
  private static let kinds = Scaffold.Kind.allCases.map { $0.rawValue }

  static let verb = Verb(
    name: "plugin new",
    summary: "write a new plugin, which builds, passes the check and answers its test",
    options: [
      Option(name: "lang", value: "LANGUAGE", help: languages.joined(separator: ", ")),
      Option(
        name: "kinds",
        value: "LIST",
        help: "what it has besides a tool: all, or some of\n\(kinds.joined(separator: ","))",
        standard: "nothing"
      ),
      Option(name: "id", value: "ID", help: "its id, as acme.crawl", standard: "local.NAME"),
      Option(name: "json", help: "write one JSON object"),
    ],
    positionals: ["NAME"],
    notes: """
      NAME is the folder, which must not exist, and the name of its tool. The folder has all
      that the build needs but the compiler.
      """,
    body: { try run($0, $1) }
  )

  private static func run(
    _ arguments: ParsedArguments,
    _ reporter: Reporter
  ) throws -> ExitStatus {
    let name = arguments.positionals.first ?? ""
    let scaffold = Scaffold(
      name: try checked(name),
      id: try id(arguments, name),
      language: try language(arguments),
      kinds: try chosenKinds(arguments)
    )
    let folder = HostText.absolutePath(name)
    let paths = try scaffold.write(to: folder)
    if reporter.isJSON {
      let object: JSON = [
        "folder": .string(folder), "name": .string(name), "id": .string(scaffold.id),
        "language": .string(scaffold.language.name),
        "kinds": .array(
          Scaffold.Kind.allCases.filter(scaffold.kinds.contains).map { .string($0.rawValue) }
        ),
        "files": .array(paths.map { .string($0) }),
      ]
      reporter.printStyled(String(decoding: EventLine.bytes(object), as: UTF8.self))
    } else {
      let kit = Scaffold.kitFolder + "/"
      let own = paths.filter { !$0.hasPrefix(kit) } + [kit]
      reporter.print("wrote \(name): \(own.joined(separator: ", "))")
      reporter.print("build it:  \(name)/build")
      reporter.print("check it:  perdure plugin check \(name)/\(name).so")
      reporter.print("test it:   perdure plugin test \(name)")
      reporter.print("all three, at each change:  perdure plugin dev \(name)")
    }
    return .ok
  }

  private static func checked(_ name: String) throws -> String {
    let words = name.split(separator: "-", omittingEmptySubsequences: false)
    let isGood =
      name.utf8.count <= 40 && name.utf8.first.map { $0 >= UInt8(ascii: "a") } == true
      && words.allSatisfy { word in
        !word.isEmpty
          && word.utf8.allSatisfy {
            (UInt8(ascii: "a")...UInt8(ascii: "z")).contains($0)
              || (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0)
          }
      }
    // The folder of the kit and the key of a section have names of their own.
    guard isGood, name != "instructions" else {
      throw UsageError.make(
        "a plugin cannot be named '\(name)'",
        "use at most 40 lower-case letters and digits, with - between words, as in word-count"
      )
    }
    return name
  }

  private static func id(_ arguments: ParsedArguments, _ name: String) throws -> String {
    guard let id = arguments.value("id") else { return "local.\(name)" }
    guard PluginInspection.isID(id) else {
      throw UsageError.make(
        "--id cannot be '\(id)'",
        "use lower-case letters and digits, joined by . or -, as in acme.crawl; pi. and perdure. are taken"
      )
    }
    return id
  }

  private static func language(_ arguments: ParsedArguments) throws -> ScaffoldLanguage {
    guard let name = arguments.value("lang") else {
      throw UsageError.make(
        "plugin new needs --lang",
        "write --lang and one of \(languages.joined(separator: ", "))"
      )
    }
    guard let language = ScaffoldLanguage.all.first(where: { $0.name == name }) else {
      throw UsageError.make(
        "plugin new writes no plugins in '\(name)'",
        Suggestion.sentence(for: name, among: languages)
          ?? "use one of \(languages.joined(separator: ", ")); docs/plugins.md has what others need"
      )
    }
    return language
  }

  private static func chosenKinds(_ arguments: ParsedArguments) throws -> Set<Scaffold.Kind> {
    var chosen: Set<Scaffold.Kind> = []
    for word in (arguments.value("kinds") ?? "").split(separator: ",").map(String.init) {
      if word == "all" {
        chosen.formUnion(Scaffold.Kind.allCases)
      } else if let kind = Scaffold.Kind(rawValue: word) {
        chosen.insert(kind)
      } else if word != "tool" {
        throw UsageError.make(
          "--kinds cannot have '\(word)'",
          Suggestion.sentence(for: word, among: kinds + ["all"])
            ?? "use all, or some of \(kinds.joined(separator: ","))"
        )
      }
    }
    return chosen
  }
}
