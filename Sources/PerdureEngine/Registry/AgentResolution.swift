package import PerdureModel
package import PerdureValue

/// A tool with its compiled schema.
package struct InstalledTool: Sendable {
  package var tool: Tool
  package var schema: JSONSchema
  /// What results carry for programs has to fit; absent if they carry nothing.
  package var structuredOutput: JSONSchema?
  /// The extension that brought it.
  package var extensionName: String
}

/// What a conversation's choices come to with the extensions that are installed now.
package struct Agent: Sendable {
  package var model: ModelReference?
  package var thinkingLevel: String
  /// The selected extensions in order.
  package var extensions: [String]
  /// The tools that the model is offered, in order.
  package var tools: [InstalledTool]
  /// The tools that the model could be offered and that nobody has loaded.
  package private(set) var deferred: [InstalledTool] = []
  /// The tools that other tools may call.
  package private(set) var callable: [InstalledTool] = []

  /// The offered tool of this name.
  package func tool(_ name: JSONString) -> InstalledTool? {
    tools.first { JSONString($0.tool.name) == name }
  }

  /// Resolves the stored `pi.agent`.
  ///
  /// Names that are not installed are passed over. A later extension's tool replaces an earlier
  /// one of the same name in its place.
  package init(_ stored: JSON, registry: [InstalledExtension]) {
    model = ModelReference(json: stored["model"])
    thinkingLevel = stored["thinkingLevel"]?.text ?? "off"
    let installed = registry.map { JSONString($0.name) }
    let names = Self.edited(installed, by: stored["extensions"], filters: false)
    let selected = names.compactMap { name in registry.first { JSONString($0.name) == name } }
    extensions = selected.map { $0.name }
    var enabled: [InstalledTool] = []
    for tool in selected.flatMap({ $0.tools }) {
      if let position = enabled.firstIndex(where: { $0.tool.name == tool.tool.name }) {
        enabled[position] = tool
      } else {
        enabled.append(tool)
      }
    }
    enabled = Self.pick(Self.edited(Self.names(enabled), by: stored["tools"]), from: enabled)
    callable = enabled.filter { $0.tool.callers.contains(.tools) }
    let forModel = enabled.filter { $0.tool.callers.contains(.model) }
    let loaded = Set((stored["modelTools"]?["add"]?.array ?? []).compactMap { $0.string })
    let known = Self.edited(Self.names(forModel), by: stored["modelTools"])
    let isList = stored["modelTools"]?.array != nil
    tools = Self.pick(known, from: forModel).filter {
      isList || !$0.tool.isDeferred || loaded.contains(JSONString($0.tool.name))
    }
    let offered = Set(tools.map { JSONString($0.tool.name) })
    deferred = forModel.filter {
      $0.tool.isDeferred && !offered.contains(JSONString($0.tool.name))
    }
  }

  private static func names(_ tools: [InstalledTool]) -> [JSONString] {
    tools.map { JSONString($0.tool.name) }
  }

  private static func pick(_ names: [JSONString], from tools: [InstalledTool]) -> [InstalledTool] {
    names.compactMap { name in tools.first { JSONString($0.tool.name) == name } }
  }

  /// Applies a stored choice: an array is taken as it is, `{add, remove}` edits the default.
  private static func edited(
    _ names: [JSONString],
    by choice: JSON?,
    filters: Bool = true
  ) -> [JSONString] {
    func strings(_ json: JSON?) -> [JSONString] { (json?.array ?? []).compactMap { $0.string } }
    var result: [JSONString]
    switch choice {
    case .array?: result = strings(choice)
    case .object?:
      let removed = Set(strings(choice?["remove"]))
      result = (names + strings(choice?["add"])).filter { !removed.contains($0) }
    default: result = names
    }
    var seen: Set<JSONString> = []
    result = result.filter { seen.insert($0).inserted }
    return filters ? result.filter(Set(names).contains) : result
  }
}
