package import PerdureModel
package import PerdureValue

/// A tool with its compiled schemas.
package struct InstalledTool: Sendable {
  package var tool: Tool
  package var schema: JSONSchema
  /// What results carry for programs has to fit; absent if they carry nothing.
  package var structuredOutput: JSONSchema?
  /// The extension that brought it, or the last one that put something around it.
  package var extensionName: String

  /// Compiles the schemas of a tool; throws `invalidConfiguration` if one makes no sense.
  init(_ tool: Tool, by extensionName: String) throws(PerdureError) {
    self.tool = tool
    self.extensionName = extensionName
    schema = try Self.compile(tool.parameters, "the parameters", tool)
    structuredOutput = try tool.structuredOutputSchema.map { document throws(PerdureError) in
      try Self.compile(document, "the structured output", tool)
    }
  }

  private static func compile(
    _ document: JSON,
    _ part: String,
    _ tool: Tool
  ) throws(PerdureError) -> JSONSchema {
    do {
      return try JSONSchema(compiling: document)
    } catch {
      throw PerdureError(.invalidConfiguration, "\(part) of tool '\(tool.name)': \(error)")
    }
  }

  /// Returns the tool as a wrap made it; throws if the wrap or what it made breaks a rule.
  func wrapped(
    by wrap: @Sendable (Tool) throws -> Tool,
    of extensionName: String
  ) throws -> InstalledTool {
    var target = tool
    target.owner = self.extensionName
    let made = try wrap(target)
    guard JSONString(made.name) == JSONString(tool.name) else {
      throw PerdureError(
        .invalidConfiguration,
        "the wrap renamed the tool '\(tool.name)' to '\(made.name)'"
      )
    }
    // Compiling costs more than all the rest of a resolution.
    if made.parameters == tool.parameters,
      made.structuredOutputSchema == tool.structuredOutputSchema
    {
      var same = self
      same.tool = made
      same.extensionName = extensionName
      return same
    }
    return try InstalledTool(made, by: extensionName)
  }
}

/// A section and the extension that brought it, or the last one that put something around it.
package struct InstalledSection: Sendable {
  package var section: PromptSection
  package var extensionName: String

  func wrapped(
    by wrap: @Sendable (PromptSection) throws -> PromptSection,
    of extensionName: String
  ) throws -> InstalledSection {
    let made = try wrap(section)
    guard JSONString(made.key) == JSONString(section.key) else {
      throw PerdureError(
        .invalidConfiguration,
        "the wrap renamed the section '\(section.key)' to '\(made.key)'"
      )
    }
    return InstalledSection(section: made, extensionName: extensionName)
  }
}

/// A hook and the extension that brought it.
package struct InstalledHook: Sendable {
  package var hook: Hook
  package var extensionName: String
}
