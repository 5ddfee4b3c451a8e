import PerdureValue

/// What changed in what a plugin registers.
struct ManifestDiff: Sendable {
  /// What is new, such as "tool grep" or "hook beforeTool (guard of grep)".
  var added: [String] = []
  var removed: [String] = []
  /// What is there in another form, with the members that are not as they were.
  var changed: [(name: String, members: [String])] = []

  private static let lists: [(key: JSONString, word: String, names: [JSONString])] = [
    ("tools", "tool", ["name"]), ("sections", "section", ["key"]), ("hooks", "hook", ["point"]),
    ("wraps", "wrap", ["tool", "section"]), ("tasks", "task", ["type"]),
    ("documents", "document", ["kind"]),
  ]

  var isEmpty: Bool { added.isEmpty && removed.isEmpty && changed.isEmpty }

  /// Compares two manifests; without an old one everything is new.
  init(from old: JSON?, to new: JSON) {
    let (before, after) = (Self.parts(of: old), Self.parts(of: new))
    added = after.filter { part in !before.contains { $0.name == part.name } }.map { $0.label }
    removed = before.filter { part in !after.contains { $0.name == part.name } }.map { $0.name }
    for part in after {
      guard let other = before.first(where: { $0.name == part.name }), other.value != part.value
      else { continue }
      changed.append((part.name, Self.members(other.value, part.value)))
    }
    guard let old else { return }
    let known = Set(Self.lists.map { $0.key })
    let others = Self.members(old, new).filter { !known.contains(JSONString($0)) }
    if !others.isEmpty { changed.append(("the plugin", others)) }
  }

  private struct Part {
    var name: String
    var value: JSON

    /// The name with what decides when it is called, which is easily wrong.
    var label: String {
      guard let role = value["role"]?.text, value["point"] != nil else { return name }
      let tools = (value["tools"]?.array ?? []).compactMap { $0.text }
      return "\(name) (\(role)" + (tools.isEmpty ? "" : " of \(tools.joined(separator: ", "))")
        + ")"
    }
  }

  private static func parts(of manifest: JSON?) -> [Part] {
    var parts: [Part] = []
    for list in lists {
      for item in manifest?[list.key]?.array ?? [] {
        let name = list.names.lazy.compactMap { item[$0]?.text }.first ?? "?"
        let base = "\(list.word) \(name)"
        // One point may have several hooks.
        let same = parts.count { $0.name == base || $0.name.hasPrefix("\(base) (") }
        parts.append(Part(name: same == 0 ? base : "\(base) (\(same + 1))", value: item))
      }
    }
    return parts
  }

  private static func members(_ old: JSON, _ new: JSON) -> [String] {
    let (before, after) = (old.object ?? [:], new.object ?? [:])
    var names = after.keys.filter { before[$0] != after[$0] }
    names += before.keys.filter { after[$0] == nil }
    return names.map { $0.string }
  }

  /// For people, a line each.
  var lines: [String] {
    added.map { "+ \($0)" } + removed.map { "- \($0)" }
      + changed.map { "~ \($0.name): \($0.members.joined(separator: ", "))" }
  }

  /// For programs.
  var json: JSONObject {
    [
      "added": .array(added.map { .string($0) }), "removed": .array(removed.map { .string($0) }),
      "changed": .array(
        changed.map {
          ["name": .string($0.name), "members": .array($0.members.map { .string($0) })]
        }
      ),
    ]
  }
}
