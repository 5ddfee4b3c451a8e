import Perdure
import PerdureModel
import PerdureValue

/// Entries as people read them.
enum Transcript {
  /// Returns the calls that an answer makes, each in one line.
  static func calls(of entry: EntryRecord) -> [String] {
    let items = (entry.model ?? []).flatMap { $0["content"]?.array ?? [] }
    return items.filter { $0["type"] == "toolCall" }.map { call in
      let arguments = call["arguments"]?.compactText ?? ""
      return "\(call["name"]?.text ?? "?") \(arguments)"
    }
  }

  /// Returns the result of a call in one line, or `nil` for another entry.
  static func result(of entry: EntryRecord) -> String? {
    guard let message = entry.model?.first, message["role"] == "toolResult" else { return nil }
    let failed = message["isError"] == true ? " failed" : ""
    let text = EntryRecord.text(ofContent: message["content"])
    return "\(message["toolName"]?.text ?? "?")\(failed): \(text)"
  }

  /// One entry as a heading and a body.
  static func section(of entry: EntryRecord) -> (heading: String, body: String) {
    let message = entry.model?.first
    switch entry.kind {
    case "pi.user": return ("user", entry.text)
    case "pi.assistant":
      var lines = [entry.text].filter { !$0.isEmpty }
      lines += calls(of: entry).map { "→ \($0)" }
      if let reason = message?["errorMessage"]?.text { lines.append("! \(reason)") }
      let model = message?["model"]?.text.map { " (\($0))" } ?? ""
      return ("assistant\(model)", lines.joined(separator: "\n"))
    case "pi.tool-result":
      let failed = message?["isError"] == true ? ", failed" : ""
      return ("tool \(message?["toolName"]?.text ?? "?")\(failed)", entry.text)
    case "pi.system": return ("system", system(message))
    default:
      let data = entry.data.map { $0.compactText } ?? ""
      let body = entry.text
      return (entry.kind.string, body.isEmpty ? data : body)
    }
  }

  private static func system(_ message: JSON?) -> String {
    func names(_ key: JSONString) -> [String] {
      (message?[key]?.array ?? []).compactMap { $0["name"]?.text }
    }
    var lines = [EntryRecord.text(ofContent: message?["content"])].filter { !$0.isEmpty }
    lines += (message?["sections"]?.object?.keys ?? []).map { "+ section \($0.string)" }
    lines += names("toolsRemoved").map { "- tool \($0)" }
    lines += names("toolsAdded").map { "+ tool \($0)" }
    return lines.joined(separator: "\n")
  }
}
