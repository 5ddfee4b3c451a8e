import Foundation
import PerdurePluginHost
import Testing

/// The reference of the manifest and the code that reads manifests.
@Suite struct ManifestReferenceTests {
  private static let page = text("docs/plugin-manifest.md")

  private static func text(_ path: String) -> String {
    (try? String(contentsOf: Fixtures.root.appending(path: path), encoding: .utf8)) ?? ""
  }

  /// The members that the parser asks for.
  static let read: [String] = {
    var names: Set<String> = []
    for file in ["Manifest+Reading", "Manifest+Contributions"] {
      let source = text("Sources/PerdurePluginHost/Manifest/\(file).swift")
      for match in source.matches(of: /(?:reader\.|try )\w+\(\s*"(\w+)"/) {
        names.insert(String(match.1))
      }
      for list in source.matches(of: /for name in \[([^\]]+)\]/) {
        for match in list.1.matches(of: /"(\w+)"/) { names.insert(String(match.1)) }
      }
    }
    return names.sorted()
  }()

  /// The members that the tables list.
  static let documented: [String] = {
    var names: Set<String> = []
    for line in page.split(separator: "\n") where line.hasPrefix("| `") {
      let cell = line.dropFirst(2).prefix { $0 != "|" }
      for match in cell.matches(of: /`(\w+)`/) { names.insert(String(match.1)) }
    }
    return names.sorted()
  }()

  private static let example =
    page.components(separatedBy: "```json\n").last?.components(separatedBy: "```").first ?? ""

  @Test func `there is something to compare`() {
    #expect(Self.read.count > 60)
    #expect(Self.documented.count > 60)
  }

  @Test(arguments: read)
  func `the reference has a member that is read`(name: String) {
    #expect(Self.page.contains("`\(name)`"))
  }

  @Test(arguments: documented.filter { $0 != "ffi" })
  func `the example has a member of the reference`(name: String) {
    #expect(Self.example.contains("\"\(name)\":"))
  }

  @Test func `the example is read and no member of it is ignored`() throws {
    let path = try Fixtures.lifecycle(manifest: Self.example)
    #expect(try PluginFiles.inspect(path: path).manifest.unknownMembers == [])
  }
}
