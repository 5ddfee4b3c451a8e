public import PerdureModel
import PerdureValue

extension Extension {
  /// The extension `tool-search`, which lets a model find and load deferred tools.
  ///
  /// Its tool `tool_search` ranks the deferred tools of the conversation by a query and adds the
  /// best to those that the model is offered from the next request on.
  public static var toolSearch: Extension {
    Extension(name: "tool-search", tools: [.search])
  }
}

extension Tool {
  fileprivate static let search = Tool(
    name: "tool_search",
    description: """
      Finds tools that are not offered yet and makes them available from the next request on. \
      Search with words for what a tool should do whenever none of the offered tools fits.
      """,
    parameters: [
      "type": "object",
      "properties": [
        "query": ["type": "string", "description": "Words that say what the tool should do."],
        "limit": ["type": "number", "description": "How many tools to load at most; 8 if absent."],
      ],
      "required": ["query"],
    ],
    replay: .safe,
    callers: [.model]
  ) { call in
    let query = call.arguments["query"]?.text ?? ""
    guard !ToolRanking.terms(of: query).isEmpty else {
      throw PerdureError(.invalidInput, "the query has no word to search for")
    }
    let wanted = call.arguments["limit"] ?? 8
    guard let limit = wanted.double, limit >= 1, limit.rounded() == limit else {
      throw PerdureError(.invalidInput, "the limit \(wanted) is no positive integer")
    }
    let candidates = try await call.agent().deferred
    let ranking = ToolRanking(candidates.map { $0.searchText })
    let found = ranking.best(Int(min(limit, 1_000)), for: query).map { candidates[$0] }
    var result = ToolResult.text(report(found))
    result.details = ["loaded": .array(found.map { .string($0.name) })]
    return found.isEmpty ? result : result.addingTools(found.map { $0.name })
  }

  private static func report(_ found: [Tool]) -> String {
    guard !found.isEmpty else { return "No deferred tool fits." }
    let lines = found.map { tool in
      let line = tool.description.split(whereSeparator: \.isNewline).first.map(String.init)
      return "- \(tool.name): \(line ?? "")"
    }
    return "Available from the next request on:\n" + lines.joined(separator: "\n")
  }

  /// All the text by which a tool is found.
  private var searchText: String {
    var parts = [name, name.split(separator: "_").joined(separator: " "), description]
    Self.collectText(of: parameters, depth: 0, &parts)
    return parts.joined(separator: " ")
  }

  private static func collectText(of schema: JSON, depth: Int, _ parts: inout [String]) {
    // Deep enough for any schema that somebody wrote.
    guard schema.object != nil, depth < 32 else { return }
    if let description = schema["description"]?.text { parts.append(description) }
    for (name, property) in schema["properties"]?.object ?? [:] {
      parts.append(name.string)
      collectText(of: property, depth: depth + 1, &parts)
    }
    if let items = schema["items"] { collectText(of: items, depth: depth + 1, &parts) }
    for key in ["anyOf", "oneOf", "allOf"] as [JSONString] {
      for variant in schema[key]?.array ?? [] {
        collectText(of: variant, depth: depth + 1, &parts)
      }
    }
  }
}
