public import PerdureValue

/// What an environment keeps tools and commands from, for people and programs to read.
public struct Confinement: Sendable, Equatable {
  /// What confines: `directory`, `none`, `namespaces`, `landlock`, or a name of its author's.
  public var tier: String
  /// What file tools are kept from, as a clause.
  public var files: String
  /// What commands are kept from, as a clause; absent: there are none.
  public var commands: String?
  /// Facts for programs.
  public var facts: JSONObject

  /// Makes a description.
  public init(tier: String, files: String, commands: String? = nil, facts: JSONObject = [:]) {
    self.tier = tier
    self.files = files
    self.commands = commands
    self.facts = facts
  }

  /// One sentence without a full stop.
  public var sentence: String { "\(files); \(commands ?? "commands cannot be run")" }

  /// The form in which it is shown to programs.
  public var json: JSON {
    var object: JSONObject = ["tier": .string(tier), "files": .string(files)]
    if let commands { object["commands"] = .string(commands) }
    for (key, value) in facts { object[key] = value }
    return .object(object)
  }
}
