import Foundation

/// The functions of a header with what their comments say of them, and the page that is made of it.
struct HeaderReference {
  /// One function, or a pointer to one.
  struct Function {
    var name: String
    /// The struct whose member it is; empty for none.
    var owner: String
    var declaration: String
    var text: String
    /// What the comment says under "Threads", "Ownership" and "Failure".
    var notes: [String: String]
  }

  static let notes = ["Threads", "Ownership", "Failure"]

  private(set) var functions: [Function] = []
  /// The first comment of the header.
  private(set) var introduction = ""
  /// What is said of each struct.
  private var owners: [String: String] = [:]

  init(header: String) {
    var comment = ""
    var owner = ""
    var lines = header.split(separator: "\n", omittingEmptySubsequences: false)[...]
    while let line = lines.popFirst().map(String.init) {
      if let name = line.firstMatch(of: /^typedef struct (\w+) \{/) {
        owner = String(name.1)
        owners[owner] = comment
      } else if line.hasPrefix("}") {
        owner = ""
      }
      if line.contains(/^ *\/\*/) {
        comment = Self.comment(line, &lines)
        if introduction.isEmpty { introduction = comment }
        continue
      }
      guard !line.hasPrefix("#"), !line.hasPrefix(" *"),
        let name = line.firstMatch(of: /\(\*(\w+)\)\(|(perdure_plugin_1)\(/)
      else {
        if !line.contains("{") { comment = "" }
        continue
      }
      var declaration = line
      while !declaration.hasSuffix(";"), let more = lines.popFirst() { declaration += "\n" + more }
      add(String(name.1 ?? name.2 ?? ""), owner, declaration, comment)
      comment = ""
    }
  }

  private static func comment(_ first: String, _ lines: inout ArraySlice<Substring>) -> String {
    var text = [first]
    while !text.joined().contains("*/"), let line = lines.popFirst() { text.append(String(line)) }
    return text.map { line in
      line.replacing(/^ *\/?\*+ ?/, with: "").replacing(/[ ]*\*\/.*$/, with: "")
    }
    .joined(separator: "\n").trimmingCharacters(in: .newlines)
  }

  private mutating func add(
    _ name: String,
    _ owner: String,
    _ declaration: String,
    _ comment: String
  ) {
    var parts: [String: [Substring]] = [:]
    var part = ""
    for line in comment.split(separator: "\n") {
      if let note = Self.notes.first(where: { line.hasPrefix("\($0): ") }) {
        part = note
        parts[part] = [line.dropFirst(note.count + 2)]
      } else {
        parts[part, default: []].append(line)
      }
    }
    let indent = declaration.prefix { $0 == " " }.count
    functions.append(
      Function(
        name: name,
        owner: owner,
        declaration: declaration.split(separator: "\n").map { line in
          String(line.dropFirst(min(indent, line.prefix { $0 == " " }.count)))
        }.joined(separator: "\n"),
        text: (parts[""] ?? []).joined(separator: " "),
        notes: parts.filter { !$0.key.isEmpty }.mapValues { $0.joined(separator: " ") }
      )
    )
  }

  // MARK: The page

  /// The page in Markdown.
  var page: String {
    var lines = [
      "# The functions of perdure.h", "",
      "Made of the comments of `perdure.h` by `Tests/ABITests`, which compares;"
        + " `PERDURE_WRITE_REFERENCE=1 swift test --filter HeaderReferenceTests` writes it anew.",
      "docs/plugins.md says what the messages are that travel through them.", "",
    ]
    lines += rules
    var owner: String?
    for function in functions {
      if owner != function.owner {
        owner = function.owner
        lines +=
          function.owner.isEmpty ? [] : ["## \(function.owner)", "", about(function.owner), ""]
      }
      let title = function.owner.isEmpty ? "## \(function.name)" : "### \(function.name)"
      lines += [title, "", "```c", function.declaration, "```", "", function.text, ""]
      lines += ["| | |", "|---|---|"]
      lines += Self.notes.map { "| \($0) | \(Self.cell(function.notes[$0] ?? "")) |" }
      lines.append("")
    }
    return lines.joined(separator: "\n")
  }

  private func about(_ owner: String) -> String {
    (owners[owner] ?? "").split(separator: "\n").joined(separator: " ")
  }

  private static func cell(_ text: String) -> String { text.replacing("|", with: "\\|") }

  /// What the first comment says of all functions.
  private var rules: [String] {
    let text = introduction
    guard let start = text.range(of: "Rules that hold everywhere"),
      let tags = text.range(of: "Thread tags"),
      let end = text.range(of: "\n\nThe comment of each function")
    else { return [] }
    let rules = text[start.upperBound..<tags.lowerBound]
      .replacing(/\n {3}/, with: " ").split(separator: "\n")
      .map { $0.trimmingCharacters(in: .whitespaces) }
    let words = text[tags.upperBound..<end.lowerBound].split(separator: "\n").map { line in
      let parts = line.trimmingCharacters(in: .whitespaces).split(
        separator: /[ ]{2,}/,
        maxSplits: 1
      )
      return "| `\(parts.first ?? "")` | \(parts.last ?? "") |"
    }
    return ["## Rules that hold everywhere", ""] + rules + ["", "| thread tag | |", "|---|---|"]
      + words + [""]
  }
}
