package import PerdureModel
package import PerdureValue

/// What a conversation's choices come to with the extensions that are installed now.
package struct Agent: Sendable {
  /// Something that went wrong while the choices were resolved.
  package struct Problem: Sendable, Equatable {
    package var message: String
    package var extensionName: String?
    /// Whether it is a property of the choices, and so the same each time.
    package var isLasting: Bool
  }

  package private(set) var model: ModelReference?
  package private(set) var thinkingLevel: String
  /// The selected extensions in order.
  package private(set) var extensions: [String]
  /// The tools that the model is offered, in order.
  package private(set) var tools: [InstalledTool] = []
  /// The tools that the model could be offered and that nobody has loaded.
  package private(set) var deferred: [InstalledTool] = []
  /// The tools that other tools may call.
  package private(set) var callable: [InstalledTool] = []
  /// The sections of the prompt in order, without the instructions.
  package private(set) var sections: [InstalledSection] = []
  /// The hooks of the selected extensions in their order.
  package private(set) var hooks: [InstalledHook]
  package private(set) var instructions: JSONString?
  package private(set) var cwd: String?
  package private(set) var problems: [Problem] = []

  /// The offered tool of this name.
  package func tool(_ name: JSONString) -> InstalledTool? {
    tools.first { JSONString($0.tool.name) == name }
  }

  /// Resolves the stored `pi.agent`.
  ///
  /// Pinned extensions come first, whatever the choice. Names that are not installed are passed over
  /// and become problems. A later extension's tool or section replaces an earlier one of the same
  /// name in its place, unless that is a pinned extension's. `defaults` are the extensions of a
  /// conversation that has chosen none; absent: all.
  package init(_ stored: JSON, registry: [InstalledExtension], defaults: [String]? = nil) {
    model = ModelReference(json: stored["model"])
    thinkingLevel = stored["thinkingLevel"]?.text ?? "off"
    instructions = stored["instructions"]?.string
    cwd = stored["cwd"]?.text
    var choice = Choice(registry: registry)
    let selected = choice.extensions(stored["extensions"], defaults: defaults)
    extensions = selected.map { $0.name }
    hooks = selected.flatMap { value in
      value.hooks.map { InstalledHook(hook: $0, extensionName: value.name) }
    }
    var composed = Composed(selected)
    composed.apply(selected)
    sections = composed.sections.values
    let enabled = choice.tools(stored["tools"], of: composed.tools.values)
    callable = enabled.filter { $0.tool.callers.contains(.tools) }
    let forModel = enabled.filter { $0.tool.callers.contains(.model) }
    tools = choice.offered(stored["modelTools"], of: forModel)
    let offered = Set(tools.map { JSONString($0.tool.name) })
    deferred = forModel.filter {
      $0.tool.isDeferred && !offered.contains(JSONString($0.tool.name))
    }
    problems = composed.problems + choice.problems
  }

  /// What extensions may know of it.
  package var info: AgentInfo {
    AgentInfo(
      model: model,
      thinkingLevel: thinkingLevel,
      extensions: extensions,
      tools: tools.map { $0.tool.name },
      deferred: deferred.map { $0.tool.name },
      callable: callable.map { $0.tool.name },
      instructions: instructions?.string,
      cwd: cwd
    )
  }
}

/// Values in order, each found by its name.
private struct Named<Value: Sendable> {
  private(set) var values: [Value] = []
  private var places: [JSONString: Int] = [:]

  subscript(name: JSONString) -> Value? { places[name].map { values[$0] } }

  /// Adds a value, or puts it in the place of its namesake.
  mutating func set(_ name: JSONString, _ value: Value) {
    if let place = places[name] {
      values[place] = value
    } else {
      places[name] = values.count
      values.append(value)
    }
  }

  mutating func remove(_ name: JSONString) {
    guard let place = places.removeValue(forKey: name) else { return }
    values.remove(at: place)
    for (other, position) in places where position > place { places[other] = position - 1 }
  }
}

/// The tools and sections of selected extensions, put together.
private struct Composed {
  private(set) var tools = Named<InstalledTool>()
  private(set) var sections = Named<InstalledSection>()
  private(set) var problems: [Agent.Problem] = []

  init(_ selected: [InstalledExtension]) {
    var pinnedTools: Set<JSONString> = []
    var pinnedSections: Set<JSONString> = []
    for value in selected {
      for tool in value.tools {
        let name = JSONString(tool.tool.name)
        if value.isPinned { pinnedTools.insert(name) }
        guard value.isPinned || !pinnedTools.contains(name) else { continue }
        tools.set(name, tool)
      }
      for section in value.sections {
        let key = JSONString(section.key)
        if value.isPinned { pinnedSections.insert(key) }
        guard value.isPinned || !pinnedSections.contains(key) else { continue }
        sections.set(key, InstalledSection(section: section, extensionName: value.name))
      }
    }
  }

  /// Applies the wraps to whatever won.
  mutating func apply(_ selected: [InstalledExtension]) {
    let wraps = selected.flatMap { value in
      value.wraps.map { (wrap: $0, extensionName: value.name) }
    }
    guard wraps.contains(where: { !$0.wrap.order.isEmpty }) else {
      for (wrap, name) in wraps { apply(wrap, of: name) }
      return
    }
    // Wraps of different targets do not meet, so each target is sorted by itself.
    for (_, group) in Dictionary(grouping: wraps, by: { $0.wrap.place }) {
      let sorted = ContributionSort.sorted(group) {
        ContributionSort.Item(extensionName: $0.extensionName, order: $0.wrap.order)
      }
      for (wrap, name) in sorted { apply(wrap, of: name) }
    }
  }

  private mutating func apply(_ wrap: Wrap, of extensionName: String) {
    switch wrap.target {
    case .tool(let name, let body):
      let name = JSONString(name)
      guard let target = tools[name] else { return }
      do {
        tools.set(name, try target.wrapped(by: body, of: extensionName))
      } catch {
        tools.remove(name)
        note("the tool '\(name.string)' is left out, because its wrap failed", error, extensionName)
      }
    case .section(let key, let body):
      let key = JSONString(key)
      guard let target = sections[key] else { return }
      do {
        sections.set(key, try target.wrapped(by: body, of: extensionName))
      } catch {
        sections.remove(key)
        note(
          "the section '\(key.string)' is left out, because its wrap failed",
          error,
          extensionName
        )
      }
    }
  }

  private mutating func note(_ message: String, _ error: any Error, _ extensionName: String) {
    problems.append(
      Agent.Problem(
        message: "\(message): \(Failure.describe(error))",
        extensionName: extensionName,
        isLasting: false
      )
    )
  }
}

/// Applies stored selections: an array is taken as it is, an object edits the default.
private struct Choice {
  let registry: [InstalledExtension]
  private(set) var problems: [Agent.Problem] = []

  init(registry: [InstalledExtension]) { self.registry = registry }

  private static func names(_ json: JSON?) -> [JSONString] {
    unique((json?.array ?? []).compactMap { $0.string })
  }

  private static func unique(_ names: [JSONString]) -> [JSONString] {
    var seen: Set<JSONString> = []
    return names.filter { seen.insert($0).inserted }
  }

  private mutating func note(_ names: [JSONString], _ field: String, _ kind: String) {
    for name in names {
      problems.append(
        Agent.Problem(
          message: "'\(field)' names the \(kind) '\(name.string)', which is not installed",
          extensionName: nil,
          isLasting: true
        )
      )
    }
  }

  mutating func extensions(_ choice: JSON?, defaults: [String]?) -> [InstalledExtension] {
    var names: [JSONString]
    if case .array? = choice {
      names = Self.names(choice)
    } else {
      let base = defaults?.map { JSONString($0) } ?? registry.map { JSONString($0.name) }
      let removed = Set(Self.names(choice?["remove"]))
      names = (base + Self.names(choice?["add"])).filter { !removed.contains($0) }
    }
    let pinned = registry.filter { $0.isPinned }.map { JSONString($0.name) }
    names = Self.unique(pinned + names)
    let installed = Dictionary(
      registry.map { (JSONString($0.name), $0) },
      uniquingKeysWith: { first, _ in first }
    )
    note(names.filter { installed[$0] == nil }, "extensions", "extension")
    return names.compactMap { installed[$0] }
  }

  mutating func tools(_ choice: JSON?, of tools: [InstalledTool]) -> [InstalledTool] {
    if case .array? = choice { return pick(Self.names(choice), "tools", of: tools) }
    return Self.without(Self.names(choice?["remove"]), tools)
  }

  mutating func offered(_ choice: JSON?, of tools: [InstalledTool]) -> [InstalledTool] {
    if case .array? = choice { return pick(Self.names(choice), "modelTools", of: tools) }
    let kept = Self.without(Self.names(choice?["remove"]), tools)
    let added = Self.names(choice?["add"])
    let loaded = pick(added, "modelTools", of: tools).filter { tool in
      tool.tool.isDeferred && kept.contains { $0.tool.name.utf8.elementsEqual(tool.tool.name.utf8) }
    }
    return kept.filter { !$0.tool.isDeferred } + loaded
  }

  private mutating func pick(
    _ names: [JSONString],
    _ field: String,
    of tools: [InstalledTool]
  ) -> [InstalledTool] {
    if names.isEmpty { return [] }
    let known = Dictionary(
      tools.map { (JSONString($0.tool.name), $0) },
      uniquingKeysWith: { first, _ in first }
    )
    let missing = names.filter { known[$0] == nil }
    if !missing.isEmpty {
      // A tool that the conversation does without for another reason is no slip of the pen.
      let installed = Set(registry.flatMap { $0.tools.map { JSONString($0.tool.name) } })
      note(missing.filter { !installed.contains($0) }, field, "tool")
    }
    return names.compactMap { known[$0] }
  }

  private static func without(
    _ removed: [JSONString],
    _ tools: [InstalledTool]
  ) -> [InstalledTool] {
    if removed.isEmpty { return tools }
    let removed = Set(removed)
    return tools.filter { !removed.contains(JSONString($0.tool.name)) }
  }
}

/// How an error is told to people.
enum Failure {
  static func describe(_ error: any Error) -> String {
    (error as? PerdureError)?.description ?? "\(error)"
  }
}
