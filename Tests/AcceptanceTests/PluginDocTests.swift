import PerdureValue
import Testing

/// What the documentation for authors shows is what is compiled elsewhere.
@Suite struct PluginDocTests {
  /// A block of code of a page.
  struct Block: Sendable, CustomTestStringConvertible {
    var language: String
    var text: String
    var testDescription: String {
      "\(language): \(text.split(separator: "\n").first ?? "")"
    }
  }

  private static func text(of path: String) -> String {
    String(decoding: Folder.bytes(at: "\(Fixtures.root)/\(path)"), as: UTF8.self)
  }

  private static func blocks(of page: String) -> [Block] {
    var blocks: [Block] = []
    var isInside = false
    for line in text(of: page).split(separator: "\n", omittingEmptySubsequences: false) {
      if line.hasPrefix("```") {
        isInside.toggle()
        if isInside { blocks.append(Block(language: String(line.dropFirst(3)), text: "")) }
      } else if isInside, !blocks.isEmpty {
        blocks[blocks.count - 1].text += line + "\n"
      }
    }
    return blocks.filter { !$0.language.isEmpty }
  }

  static let cookbook = blocks(of: "docs/plugin-cookbook.md")

  /// What is compiled and run, by language.
  private static let compiled: [String: String] = {
    let folder = Folder()
    var all: [String: String] = [:]
    let languages = [
      ("c", "c", "notes"), ("cpp", "cpp", "notes"), ("rust", "rs", "notes"),
      ("swift", "swift", "Notes"), ("zig", "zig", "notes"),
    ]
    for (language, ending, example) in languages {
      let name = "hello"
      let result = Program.runTool(
        [
          "sh", "-c",
          #"cd "$1" && rm -rf hello && exec "$2" plugin new hello --lang "$3" --kinds all"#,
          "sh", folder.path, Program.products + "/perdure", language,
        ],
        in: folder
      )
      precondition(result.status == 0, result.error)
      all[language] =
        folder.read("\(name)/hello.\(ending)")
        + text(of: "examples/plugin-\(language)/\(example).\(ending)")
      all["json", default: ""] +=
        folder.read("hello/hello.json") + folder.read("hello/hello.faux.json")
    }
    return all
  }()

  @Test func `the cookbook has code of every language`() {
    #expect(Set(Self.cookbook.map(\.language)) == ["c", "cpp", "rust", "swift", "zig", "json"])
  }

  @Test(arguments: cookbook)
  func `a block of the cookbook stands in what is compiled`(block: Block) throws {
    let source = try #require(Self.compiled[block.language])
    #expect(source.contains(block.text), "\(block.text)")
  }

  @Test(arguments: [
    "docs/plugins.md", "docs/plugin-manifest.md", "docs/plugin-cookbook.md",
    "docs/porting-plugins.md", "README.md",
  ])
  func `a page names only verbs that there are`(page: String) {
    let folder = Folder()
    let overview = Program.run(["--help"], in: folder).output
    for line in Self.text(of: page).split(separator: "`") where line.hasPrefix("perdure plugin ") {
      let words = line.split(whereSeparator: \.isWhitespace)
      guard words.count > 2, words[2].utf8.allSatisfy({ $0 >= UInt8(ascii: "a") }) else { continue }
      #expect(overview.contains("  plugin \(words[2]) "), "\(line)")
    }
  }
}
