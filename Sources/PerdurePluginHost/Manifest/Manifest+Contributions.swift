import PerdureModel
import PerdureValue

extension CallOptions {
  init(_ reader: inout FieldReader, inline allowsInline: Bool) throws(BorderProblem) {
    deadlineMs = try reader.integer("deadlineMs", in: 1...1 << 40)
    wallMs = try reader.integer("wallMs", in: 1...1 << 40)
    graceMs = try reader.integer("graceMs", in: 100...60_000)
    maxConcurrency = try reader.integer("maxConcurrency", in: 1...1_024)
    blocking = try reader.bool("blocking")
    if allowsInline { inline = try reader.bool("inline") ?? false }
  }
}

extension ManifestTool {
  private enum Retain: String, CaseIterable { case head, tail }

  init(_ reader: inout FieldReader) throws(BorderProblem) { try self.init(&reader, nil) }

  /// Reads a tool, which in a plugin of the runtime `ffi` is a function of one of its libraries.
  init(
    _ reader: inout FieldReader,
    _ foreign: ForeignReader?
  ) throws(BorderProblem) {
    name = try reader.name(
      "name",
      "a tool name (letters, digits, _ and -, at most 64)",
      Names.isTool
    )
    description = try reader.required("description", reader.string("description"))
    parameters = .object(try reader.required("parameters", reader.object("parameters")).members)
    replay = try reader.word("replay", as: ReplayPolicyName.self) ?? .unsafe
    executionMode = try reader.word("executionMode", as: ExecutionModeName.self)
    prepare = try reader.bool("prepare") ?? false
    outputLimits = try reader.section("outputLimits") { reader throws(BorderProblem) in
      _ = try reader.integer("maxBytes", in: 1...1 << 30)
      _ = try reader.integer("maxLines", in: 1...1 << 30)
      _ = try reader.word("retain", as: Retain.self)
      return reader.members
    }
    structuredOutputSchema = try reader.object("structuredOutputSchema").map { .object($0.members) }
    let callers = try reader.optionalArray("callers") { (value, at) throws(BorderProblem) in
      guard let caller = value.text.flatMap(ToolCaller.init(rawValue:)) else {
        throw .shape("a caller that is neither model nor tools", at: at)
      }
      return caller
    }
    self.callers = callers.map { Set($0) } ?? [.model, .tools]
    deferred = try reader.bool("deferred") ?? false
    constrainedSampling = reader.any("constrainedSampling")
    overrides = try reader.bool("overrides") ?? false
    options = try CallOptions(&reader, inline: false)
    let parameters = self.parameters
    var functions = foreign
    function =
      try reader.section("ffi") { reader throws(BorderProblem) in
        guard functions != nil else {
          throw .shape(
            "a function of a library in a plugin with code of its own",
            at: reader.pointer
          )
        }
        return try functions?.function(&reader, parameters)
      } ?? nil
    guard foreign == nil || function != nil else {
      throw .shape("a missing member", at: reader.path("ffi"))
    }
    guard foreign == nil || !prepare else {
      throw .shape("arguments that nobody can prepare", at: reader.path("prepare"))
    }
  }
}

extension ManifestSection {
  init(_ reader: inout FieldReader) throws(BorderProblem) {
    key = try reader.name("key", "a section key", Names.isSectionKey)
    tag = try reader.bool("tag") ?? true
    text = try reader.string("text")
    options = try CallOptions(&reader, inline: true)
  }
}

extension ManifestHook {
  private static let points: Set<String> = [
    "beforeRequest", "afterResponse", "onYield", "afterTools", "beforeTool", "afterTool",
    "onAbort", "beforeCompact", "conversationCreated",
  ]

  init(_ reader: inout FieldReader) throws(BorderProblem) {
    point = try reader.name("point", "a hook point", Self.isPoint)
    role = try reader.required("role", reader.word("role", as: ManifestRole.self))
    changes = try reader.bool("changes") ?? false
    order = try reader.order()
    tools = try reader.strings("tools")
    fields = try reader.any("fields") == nil ? nil : reader.strings("fields")
    options = try CallOptions(&reader, inline: true)
    if role == .guard, Self.watched.contains(point) {
      throw .shape("a guard of \(point), where nothing can be denied", at: reader.path("role"))
    }
  }

  private static let watched: Set<String> = [
    "afterResponse", "onYield", "afterTools", "onAbort", "conversationCreated",
  ]

  private static func isPoint(_ text: String) -> Bool {
    if points.contains(text) { return true }
    guard text.hasPrefix("task:") else { return false }
    let parts = text.dropFirst(5).split(separator: "/", omittingEmptySubsequences: false)
    return parts.count == 2 && Names.isKind(String(parts[0])) && Names.isTool(String(parts[1]))
  }
}

extension ManifestWrap {
  init(_ reader: inout FieldReader) throws(BorderProblem) {
    tool = try reader.string("tool")
    section = try reader.string("section")
    guard (tool == nil) != (section == nil) else {
      throw .shape("a wrap without exactly one of tool and section", at: reader.pointer)
    }
    role = try reader.word("role", as: ManifestRole.self) ?? .guard
    order = try reader.order()
    override = try reader.section("override", WrapOverride.init)
    if override != nil, tool == nil {
      throw .shape("an override of a section", at: reader.path("override"))
    }
    options = try CallOptions(&reader, inline: true)
  }
}

extension ManifestTask {
  init(_ reader: inout FieldReader) throws(BorderProblem) {
    type = try reader.name("type", "a task type outside pi. and perdure.", Names.isKind)
    version = try reader.required("version", reader.integer("version", in: 0...1 << 31))
    phases = try reader.names("phases", "a phase name", Names.isTool)
    guard !phases.isEmpty else { throw .shape("a task without phases", at: reader.path("phases")) }
    initial = try reader.required("initial", reader.any("initial"))
    guard initial.text == "call" || initial["phase"]?.text.map(phases.contains) == true else {
      throw .shape(
        "a value that is neither \"call\" nor an object whose phase is declared",
        at: reader.path("initial")
      )
    }
    migrates = try reader.integers("migrates")
    inputSchema = try reader.object("inputSchema").map { .object($0.members) }
    hooks = try reader.names("hooks", "a hook name", Names.isTool)
    options = try CallOptions(&reader, inline: false)
  }
}

extension ManifestDocument {
  private enum History: String, CaseIterable { case latest, rewindable }
  private enum Fork: String, CaseIterable { case asOf, current, initial }

  init(_ reader: inout FieldReader) throws(BorderProblem) {
    kind = try reader.name("kind", "a document kind outside pi. and perdure.", Names.isKind)
    version = try reader.required("version", reader.integer("version", in: 0...1 << 31))
    scope = try reader.required("scope", reader.word("scope", as: Scope.self))
    let history = try reader.word("history", as: History.self)
    let fork = try reader.word("fork", as: Fork.self)
    if scope == .conversation {
      _ = try reader.required("history", history)
      if try reader.required("fork", fork) == .asOf, history != .rewindable {
        throw .shape("asOf without a rewindable history", at: reader.path("fork"))
      }
    } else if history != nil || fork != nil {
      throw .shape("history or fork outside the scope conversation", at: reader.pointer)
    }
    self.history = history.flatMap { DocumentHistory(rawValue: $0.rawValue) } ?? .latest
    self.fork = fork.flatMap { DocumentFork(rawValue: $0.rawValue) } ?? .initial
    keyed = try reader.bool("keyed") ?? false
    initial = try reader.object("initial")?.members ?? [:]
    base = try reader.required("base", reader.any("base"))
    guard base.text == "always" || base.text == "never" || (base["deltas"]?.int ?? 0) > 0 else {
      throw .shape(
        "a value that is neither \"always\", \"never\" nor {\"deltas\": n}",
        at: reader.path("base")
      )
    }
    migrates = try reader.integers("migrates")
    create = try reader.word("create", as: Creation.self) ?? .onUse
    if create == .withConversation, scope != .conversation || keyed {
      throw .shape("a document that cannot come with a conversation", at: reader.path("create"))
    }
  }
}

extension FieldReader {
  /// Gives where a contribution stands among those of other plugins.
  fileprivate mutating func order() throws(BorderProblem) -> ContributionOrder {
    try section("order") { reader throws(BorderProblem) in
      ContributionOrder(
        before: try reader.names("before", "a plugin id", Names.isPluginID),
        after: try reader.names("after", "a plugin id", Names.isPluginID)
      )
    } ?? ContributionOrder()
  }
}
