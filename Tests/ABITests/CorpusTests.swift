import Foundation
import Perdure
import PerdurePluginHost
import TestPrograms
import Testing

/// Plugins that were built from released versions, which this one must serve as they are.
///
/// See Tests/abi/README.md; they are made for x86-64.
@Suite(.timeLimit(.minutes(5))) struct CorpusTests {
  private static let corpus = TestPaths.package.appending(path: "Tests/abi/corpus")
  private static let languages = ["c", "cpp", "rust"]

  private static let versions: [String] = {
    let names = try? FileManager.default.contentsOfDirectory(atPath: corpus.path)
    return (names ?? []).sorted()
  }()

  @Test func `this version has its plugins in the corpus`() {
    #expect(Self.versions.contains(PerdureVersion.perdure), "run Tests/abi/add")
  }

  @Test(arguments: versions) func `nothing of a version has changed`(version: String) throws {
    let folder = Self.corpus.appending(path: version)
    let sums = try String(contentsOf: folder.appending(path: "SHA256SUMS"), encoding: .utf8)
    let lines = sums.split(separator: "\n").map { $0.split(separator: " ").map(String.init) }
    #expect(lines.count == Self.languages.count + 1)
    for words in lines {
      let bytes = Array(try Data(contentsOf: folder.appending(path: words[1])))
      #expect(PluginFiles.digest(of: bytes) == words[0], "\(words[1])")
    }
  }

  #if arch(x86_64)
  @Test(arguments: versions, languages)
  func `a plugin of a released version is described without a warning`(
    version: String,
    language: String
  ) throws {
    let path = Self.corpus.appending(path: "\(version)/\(language)/notes.so").path
    #expect(try PluginFiles.inspect(path: path).warnings == [])
  }

  @Test(
    arguments: versions.flatMap { version in languages.map { "\(version)/\($0)" } },
    Place.allCases
  )
  func `a plugin of a released version says what it said then`(
    plugin: String,
    place: Place
  ) throws {
    let folder = Self.corpus.appending(path: plugin)
    let work = try TestPaths.folder()
    defer { try? FileManager.default.removeItem(at: work) }
    let answer = work.appending(path: "answer.txt").path
    let end = try Program.run(
      [
        "env", "XDG_CACHE_HOME=\(work.path)/cache", "sh", "-c", "\"$@\" 2> /dev/null", "sh",
        TestPaths.product("perdure"), "run", "--store", work.appending(path: "notes.sqlite").path,
        "--plugin", folder.appending(path: "notes.so").path, "--approvals", "deny",
        "--isolation", place == .runner ? "runner" : "in-process",
        "--faux", folder.appending(path: "notes.faux.json").path, "Note what matters.",
      ],
      output: answer
    )
    let expected = try String(
      contentsOf: folder.appending(path: "notes.expected.txt"),
      encoding: .utf8
    )
    #expect(end.output == expected)
    // The third note needs an approval that nobody gives.
    #expect(end.status == 7)
  }
  #endif
}
