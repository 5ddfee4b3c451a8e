import Perdure
import PerdureModel
import PerdureValue

/// What the tools of a run may do with its folder, and what its commands reach.
struct SandboxChoice: Sendable, Equatable {
  /// The words of `--sandbox`.
  enum Mode: String, Sendable, CaseIterable {
    case readonly, workspace, full
    /// The files of the folder, and no commands.
    case files
    /// The machine, unconfined.
    case none
  }

  var mode: Mode = .workspace
  var tier: SandboxPolicy.Tier = .namespaces
  var network: SandboxPolicy.Network = .off
  /// Absolute paths that are written, too.
  var writable: [String] = []
  /// Paths in the folder that look empty.
  var hidden: [String] = []

  static let options = [
    Option(
      name: "sandbox",
      value: "HOW",
      help: "what the tools and commands of --cwd may do: readonly,\n"
        + "workspace or full in a sandbox that shows only the\n"
        + "folder; files for tools without commands; none for\n"
        + "the whole machine as this user, unconfined",
      standard: "workspace"
    ),
    Option(
      name: "sandbox-tier",
      value: "TIER",
      help:
        "namespaces, or landlock where there are none; it is\nweaker, and never taken by itself;\n'perdure doctor sandbox' tells what works here",
      standard: "namespaces"
    ),
    Option(
      name: "network",
      value: "WHAT",
      help: "what commands in the sandbox have of a network: off,\n"
        + "loopback, host, or allow=HOST,... with names,\n"
        + "*.NAME for all below one, or addresses, each with\n"
        + ":PORT or for the ports 80 and 443",
      standard: "off"
    ),
    Option(
      name: "write",
      value: "PATH",
      isRepeatable: true,
      help: "let the sandbox write this path, too; may be repeated"
    ),
    Option(
      name: "hide",
      value: "PATH",
      isRepeatable: true,
      help: "let this path of the folder look empty; may be repeated"
    ),
  ]

  /// The names of the options.
  private static let names = options.map { $0.name }

  init() {}

  /// Reads the stored form; a record without one is of a version that ran no commands.
  init(json: JSON?) {
    mode = json?["mode"]?.text.flatMap(Mode.init(rawValue:)) ?? .files
    tier = json?["tier"]?.text.flatMap(SandboxPolicy.Tier.init(rawValue:)) ?? .namespaces
    network = json?["network"]?.text.flatMap { Self.network($0) } ?? .off
    writable = (json?["write"]?.array ?? []).compactMap { $0.text }
    hidden = (json?["hide"]?.array ?? []).compactMap { $0.text }
  }

  /// The stored form.
  var json: JSON {
    var object: JSONObject = [
      "mode": .string(mode.rawValue), "tier": .string(tier.rawValue),
      "network": .string(Self.word(network)),
    ]
    if !writable.isEmpty { object["write"] = .array(writable.map { .string($0) }) }
    if !hidden.isEmpty { object["hide"] = .array(hidden.map { .string($0) }) }
    return .object(object)
  }

  /// What the options make of what counted before, for a run on `folder`.
  func changed(by arguments: ParsedArguments, folder: String?) throws -> SandboxChoice {
    guard let given = Self.names.first(where: { arguments.has($0) }) else { return self }
    guard let folder else {
      throw UsageError.make(
        "--\(given) says nothing without a folder",
        "give --cwd DIR, too"
      )
    }
    var choice = self
    if let mode = try arguments.choice("sandbox", Mode.self) { choice.mode = mode }
    if let tier = try arguments.choice("sandbox-tier", SandboxPolicy.Tier.self) {
      choice.tier = tier
    }
    if let text = arguments.value("network") { choice.network = try Self.networkOption(text) }
    if arguments.has("write") { choice.writable = try arguments.all("write").map(Self.written) }
    if arguments.has("hide") {
      choice.hidden = try arguments.all("hide").map { try Self.hidden($0, in: folder) }
    }
    try choice.checkWords(arguments)
    return choice
  }

  /// Refuses options that say nothing beside the mode.
  private func checkWords(_ arguments: ParsedArguments) throws {
    guard mode == .files || mode == .none else { return }
    for name in ["sandbox-tier", "network", "write", "hide"] where arguments.has(name) {
      throw UsageError.make(
        "--\(name) says nothing with --sandbox \(mode.rawValue)",
        "leave it out, or use --sandbox readonly, workspace or full"
      )
    }
  }

  private static func networkOption(_ text: String) throws -> SandboxPolicy.Network {
    guard let network = network(text) else {
      throw UsageError.make(
        "--network cannot be '\(text)'",
        "use off, loopback, host or allow=HOST,..."
      )
    }
    return network
  }

  private static func network(_ text: String) -> SandboxPolicy.Network? {
    switch text {
    case "off": return .off
    case "loopback": return .loopback
    case "host": return .host
    default:
      let start = "allow="
      guard text.hasPrefix(start), text.utf8.count > start.utf8.count else { return nil }
      return .allow(text.dropFirst(start.count).split(separator: ",").map { String($0) })
    }
  }

  private static func word(_ network: SandboxPolicy.Network) -> String {
    switch network {
    case .off: "off"
    case .loopback: "loopback"
    case .host: "host"
    case .allow(let names): "allow=" + names.joined(separator: ",")
    }
  }

  private static func written(_ path: String) throws -> String {
    guard let full = HostText.fullPath(path) else {
      throw PerdureError(
        .invalidConfiguration,
        "the path \(path) of --write does not exist",
        hint: "create it first"
      )
    }
    return full
  }

  /// The path relative to the folder, in which it must be.
  private static func hidden(_ path: String, in folder: String) throws -> String {
    var rest = path[...]
    if path.hasPrefix("/") {
      let start = folder.hasSuffix("/") ? folder : folder + "/"
      guard path.hasPrefix(start) else {
        throw UsageError.make("--hide cannot be '\(path)'", "name a path in the folder \(folder)")
      }
      rest = path.dropFirst(start.count)
    }
    let names = rest.split(separator: "/").filter { $0 != "." }
    guard !names.isEmpty, !names.contains("..") else {
      throw UsageError.make("--hide cannot be '\(path)'", "name a path in the folder \(folder)")
    }
    return names.joined(separator: "/")
  }

  /// Where another choice differs, as options.
  func differences(from other: SandboxChoice) -> [String] {
    guard self != other else { return [] }
    var found = ["--sandbox \(other.mode.rawValue)"]
    guard other.mode != .files, other.mode != .none else { return found }
    if tier != other.tier { found.append("--sandbox-tier \(other.tier.rawValue)") }
    if network != other.network { found.append("--network \(Self.word(other.network))") }
    if writable != other.writable {
      let options = other.writable.map { "--write \(ShellWord.quoted($0))" }
      found.append(options.isEmpty ? "no --write" : options.joined(separator: " "))
    }
    if hidden != other.hidden {
      let options = other.hidden.map { "--hide \(ShellWord.quoted($0))" }
      found.append(options.isEmpty ? "no --hide" : options.joined(separator: " "))
    }
    return found
  }

  /// The policy of a sandbox on a folder; `nil` if there is to be none.
  func policy(for folder: String) -> SandboxPolicy? {
    guard let preset = SandboxPolicy.Preset(rawValue: mode.rawValue) else { return nil }
    var policy = SandboxPolicy(workspace: folder, preset: preset, tier: tier, network: network)
    policy.writable = writable
    policy.hidden = hidden
    return policy
  }
}
