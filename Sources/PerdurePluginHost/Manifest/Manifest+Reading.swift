import PerdureValue

extension Manifest {
  static let byteLimit = 1 << 20
  static let depthLimit = 32
  static let elementLimit = 1_024

  /// Reads a manifest; what breaks its schema is thrown with a JSON Pointer.
  init(parsing bytes: [UInt8]) throws(BorderProblem) {
    guard bytes.count <= Self.byteLimit else { throw .tooLarge(limit: Self.byteLimit) }
    guard String(validating: bytes, as: UTF8.self) != nil else { throw .notUTF8 }
    let json: JSON
    do {
      json = try JSON(
        parsing: bytes,
        options: JSON.ParseOptions(maxDepth: Self.depthLimit, allowsDuplicateKeys: false)
      )
    } catch {
      throw .notJSON(error)
    }
    guard let object = json.object else { throw .shape("JSON that is no object", at: "") }
    var reader = FieldReader(object)
    try self.init(&reader)
  }

  private init(_ reader: inout FieldReader) throws(BorderProblem) {
    guard try reader.required("manifest", reader.integer("manifest", in: 1...1 << 31)) == 1 else {
      throw .shape("a manifest version other than 1", at: "/manifest")
    }
    id = try reader.name("id", "a plugin id such as acme.crawl", Names.isPluginID)
    guard !Names.isReserved(id) else {
      throw .shape("an id that is reserved (pi. and perdure.)", at: "/id")
    }
    version = try reader.name("version", "a version such as 1.4.0", Names.isVersion)
    title = try reader.string("title")
    description = try reader.string("description")
    license = try reader.string("license")
    homepage = try reader.string("homepage")
    authors = try reader.strings("authors")
    abi = try Self.abi(&reader)
    runtime = try reader.required("runtime", reader.string("runtime"))
    guard (1...31).contains(runtime.utf8.count) else {
      throw .shape("a runtime that does not have 1 to 31 bytes", at: "/runtime")
    }
    (requiredInterfaces, optionalInterfaces) = try Self.interfaces(&reader)
    execution = try Self.execution(&reader)
    settings = try Self.settings(&reader)
    state = try reader.section("state") { reader throws(BorderProblem) in
      ManifestState(
        version: try reader.required("version", reader.integer("version", in: 0...1 << 31)),
        restores: try reader.integers("restores")
      )
    }
    health = try reader.objects("health", Self.health)
    dynamic = try reader.section("dynamic") { reader throws(BorderProblem) in
      ManifestDynamic(
        tools: try reader.string("tools"),
        sections: try reader.string("sections"),
        hooks: try reader.bool("hooks") ?? false
      )
    }
    permissions = try reader.section("permissions", Self.permissions) ?? ManifestPermissions()
    let foreign = runtime == ForeignReader.runtime ? try Self.foreign(&reader) : nil
    tools = try reader.objects("tools") { reader throws(BorderProblem) in
      try ManifestTool(&reader, foreign)
    }
    sections = try reader.objects("sections", ManifestSection.init)
    hooks = try reader.objects("hooks", ManifestHook.init)
    wraps = try reader.objects("wraps", ManifestWrap.init)
    tasks = try reader.objects("tasks", ManifestTask.init)
    documents = try reader.objects("documents", ManifestDocument.init)
    try reader.finish()
    unknownMembers = reader.unknown
    try checkWhole()
    try takeForeign()
  }

  private static func foreign(_ reader: inout FieldReader) throws(BorderProblem) -> ForeignReader {
    let libraries = try reader.section("ffi") { reader throws(BorderProblem) in
      try ForeignReader(&reader)
    }
    return try reader.required("ffi", libraries)
  }

  /// Refuses what a description of functions cannot have, and says how they are called.
  private mutating func takeForeign() throws(BorderProblem) {
    guard isForeign else { return }
    let others: [(String, Bool)] = [
      ("sections", sections.isEmpty), ("hooks", hooks.isEmpty), ("wraps", wraps.isEmpty),
      ("tasks", tasks.isEmpty), ("documents", documents.isEmpty), ("health", health.isEmpty),
      ("settings", settings == nil), ("state", state == nil), ("dynamic", dynamic == nil),
    ]
    if let other = others.first(where: { !$0.1 }) {
      throw .shape("a member that functions of libraries do not have", at: "/\(other.0)")
    }
    guard !tools.isEmpty else { throw .shape("no tools", at: "/tools") }
    guard execution.mode != .inProcess else {
      throw .shape("a mode in which functions of libraries are not called", at: "/execution/mode")
    }
    execution.mode = .runner
    // Nobody knows how long they take.
    execution.blocking = true
  }

  private func checkWhole() throws(BorderProblem) {
    let count =
      tools.count + sections.count + hooks.count + wraps.count + tasks.count + documents.count
    guard count <= Self.elementLimit else {
      throw .shape("\(count) contributions (at most \(Self.elementLimit) are allowed)", at: "")
    }
    try Self.unique(tools.map(\.name), "two tools named", at: "/tools")
    try Self.unique(sections.map(\.key), "two sections with the key", at: "/sections")
    try Self.unique(tasks.map(\.type), "two tasks of the type", at: "/tasks")
    try Self.unique(documents.map(\.kind), "two documents of the kind", at: "/documents")
  }

  private static func unique(
    _ names: [String],
    _ what: String,
    at pointer: String
  ) throws(BorderProblem) {
    var seen: Set<String> = []
    for (index, name) in names.enumerated() where !seen.insert(name).inserted {
      throw .shape("\(what) \(name)", at: "\(pointer)/\(index)")
    }
  }

  private static func abi(_ reader: inout FieldReader) throws(BorderProblem) -> ABI {
    try reader.section("abi") { reader throws(BorderProblem) in
      ABI(
        major: try reader.integer("major", in: 1...1 << 31) ?? 1,
        minor: try reader.integer("minor", in: 0...1 << 31) ?? 0,
        messages: try reader.integer("messages", in: 1...1 << 31) ?? 1
      )
    } ?? ABI()
  }

  private static func interfaces(
    _ reader: inout FieldReader
  ) throws(BorderProblem) -> ([String], [String]) {
    try reader.section("interfaces") { reader throws(BorderProblem) in
      (try reader.strings("required"), try reader.strings("optional"))
    } ?? ([], [])
  }

  private static func execution(_ reader: inout FieldReader) throws(BorderProblem) -> Execution {
    try reader.section("execution") { reader throws(BorderProblem) in
      var execution = Execution()
      execution.mode = try reader.word("mode", as: Execution.Mode.self) ?? .any
      execution.maxConcurrency = try reader.integer("maxConcurrency", in: 1...1_024) ?? 16
      execution.blocking = try reader.bool("blocking") ?? false
      execution.deadlineMs = try reader.integer("deadlineMs", in: 1...1 << 40)
      execution.graceMs = try reader.integer("graceMs", in: 100...60_000) ?? 5_000
      execution.limits = try reader.section("limits") { reader throws(BorderProblem) in
        for name in ["memoryMiB", "files", "processes"] {
          _ = try reader.integer(name, in: 1...1 << 40)
        }
        return reader.members
      }
      return execution
    } ?? Execution()
  }

  private static func settings(_ reader: inout FieldReader) throws(BorderProblem) -> Settings? {
    try reader.section("settings") { reader throws(BorderProblem) in
      let schema = try reader.required("schema", reader.object("schema")).members
      return Settings(
        schema: .object(schema),
        defaults: try reader.object("default")?.members ?? [:]
      )
    }
  }

  private static func health(
    _ reader: inout FieldReader
  ) throws(BorderProblem) -> ManifestHealth {
    ManifestHealth(
      name: try reader.required("name", reader.string("name")),
      title: try reader.required("title", reader.string("title")),
      everyMs: try reader.integer("everyMs", in: 1...1 << 40)
    )
  }

  private static func permissions(
    _ reader: inout FieldReader
  ) throws(BorderProblem) -> ManifestPermissions {
    var permissions = ManifestPermissions(json: reader.members)
    permissions.environment = try reader.word(
      "environment",
      as: ManifestPermissions.Environment.self
    )
    permissions.conversations =
      try reader.word("conversations", as: ManifestPermissions.Conversations.self) ?? .own
    for name in ["network", "models", "tools"] { try reader.patterns(name) }
    for name in ["secrets", "documents"] { _ = try reader.strings(name) }
    permissions.approvals = try reader.bool("approvals") ?? false
    _ = try reader.bool("files")
    return permissions
  }
}

extension FieldReader {
  /// Gives a string that has to be there and to have a form.
  mutating func name(
    _ member: String,
    _ what: String,
    _ isRight: (String) -> Bool
  ) throws(BorderProblem) -> String {
    let text = try required(member, string(member))
    guard isRight(text) else { throw .shape("a value that is not \(what)", at: path(member)) }
    return text
  }

  /// Gives integers; absent is empty.
  mutating func integers(_ name: String) throws(BorderProblem) -> [Int] {
    try optionalArray(name) { (value, at) throws(BorderProblem) in
      guard case .int(let number) = value, (0...1 << 31).contains(number) else {
        throw .shape("a value that is no version number", at: at)
      }
      return Int(number)
    } ?? []
  }

  /// Checks a list of patterns or `true`.
  mutating func patterns(_ name: String) throws(BorderProblem) {
    if any(name)?.bool != nil { return }
    _ = try strings(name)
  }

  /// Checks that a list of strings has the form.
  mutating func names(
    _ member: String,
    _ what: String,
    _ isRight: (String) -> Bool
  ) throws(BorderProblem) -> [String] {
    let names = try strings(member)
    for (index, name) in names.enumerated() where !isRight(name) {
      throw .shape("a value that is not \(what)", at: "\(path(member))/\(index)")
    }
    return names
  }
}
