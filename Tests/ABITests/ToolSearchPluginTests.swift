import Foundation
import Perdure
import PerdureModel
import PerdureTestKit
import PerdureValue
import Testing

/// The plugin that finds deferred tools does what the extension of the same name does.
@Suite(.timeLimit(.minutes(5))) struct ToolSearchPluginTests {
  private static let root = Fixtures.root.appending(path: "Plugins/tool-search")

  private static let tools: [Tool] = {
    let schema: JSON = [
      "type": "object",
      "properties": [
        "city": ["type": "string", "description": "Where, for instance Oslo."],
        "days": ["type": "array", "items": ["type": "string", "description": "A forecast date."]],
        "how": ["anyOf": [["description": "Celsius"], ["properties": ["kelvins": [:]]]]],
      ],
    ]
    let plain: JSON = ["type": "object"]
    return [
      ("send_mail", "Sends a letter to somebody.", plain),
      ("listIssues", "\r\nShows what is open\u{2028}in a repository.", plain),
      ("weather", "Tells how it is outside.", schema), ("HTTPServer2Go", "Boxes, wishes.", plain),
      ("send_fax", "Sends a letter to somebody.", plain), ("caf\u{e9}s", "Été\u{85}glasses", plain),
    ].map { name, description, parameters in
      let word = name.filter { $0.isASCII }
      return Tool(name: word, description: description, parameters: parameters, isDeferred: true) {
        _ in .text("ran")
      }
    }
  }()

  private static let queries: [JSON] =
    [
      "mail", "LETTERS", "issue", "list", "oslo", "city", "forecasts", "fax letter", "nothing",
      "kelvin", "celsius", "http", "server2go", "box wish", "glass", "send letter city", "",
      "the of",
      "somebody somebody", "caf\u{e9}",
    ].map { ["query": .string($0)] }
    + [
      ["query": "letter", "limit": 1], ["query": "mail", "limit": 0],
      ["query": "letter", "limit": 3],
      ["query": "mail", "limit": .double(2.5)], ["query": "letter", "limit": 1_000_000_000],
    ]

  /// Asks all queries in one conversation and returns the results.
  private func results(_ search: Extension) async throws -> [JSON] {
    let results = try await ToolResults(
      of: Self.queries.map { (tool: "tool_search", arguments: $0) },
      by: [search, Extension(name: "app", tools: Self.tools)]
    )
    return results.messages + [results.modelTools]
  }

  @Test func `the plugin answers every query as the extension does`() async throws {
    let folder = try Fixtures.folder()
    try Command.run([Self.root.appending(path: "build").path, folder])
    let plugin = try await Plugin.load(path: folder + "/tool-search.so")
    let expected = try await results(.toolSearch)
    let found = try await results(plugin.contribution)
    await plugin.close()
    #expect(expected.count == Self.queries.count + 1)
    for (index, pair) in zip(expected, found).enumerated() {
      #expect(pair.0 == pair.1, "query \(index)")
    }
  }
}
