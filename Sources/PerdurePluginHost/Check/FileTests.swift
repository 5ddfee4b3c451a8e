internal import PerdureModel
import PerdureValue

/// The group file: what can be said of a plugin without running any of its code.
final class FileTests {
  private var findings: [TestFinding] = []
  private let path: String

  /// Asks all of it; what one answer needs of another is skipped.
  static func run(path: String) throws(PerdureError) -> [TestFinding] {
    let bytes = try FileAccess.read(path, limit: FileAccess.pluginLimit)
    let tests = FileTests(path: path)
    if PluginFiles.isForeign(bytes) { tests.askForeign(bytes) } else { tests.ask(bytes) }
    return tests.findings
  }

  private init(path: String) { self.path = path }

  private func ask(_ bytes: [UInt8]) {
    var elf: ELFFile?
    test("format", "it is a shared library for this machine that has the entry function") {
      do throws(ELFProblem) { elf = try ELFFile(bytes) } catch {
        throw CheckFailure("it \(error.message)", remedy: error.hint)
      }
      if let elf {
        try refused { () throws(PerdureError) in try PluginFiles.checkSafety(elf, path) }
      }
    }
    guard let elf else { return }
    test("exports", "it exports its entry function and nothing else") { try exports(elf) }
    test("libraries", "it needs no library that other machines may lack") { try libraries(elf) }
    var note: PluginNote?
    var manifest: Manifest?
    test("note", "it has a note that this version understands") {
      try refused { () throws(PerdureError) in note = try PluginFiles.note(of: elf, path) }
    }
    test("manifest", "it has a manifest") {
      try refused { () throws(PerdureError) in
        manifest = try PluginFiles.manifest(of: elf, path)
      }
    }
    guard let note, let manifest else { return }
    test("agreement", "note and manifest say the same") {
      try refused { () throws(PerdureError) in
        try PluginFiles.checkAgreement(manifest, note, path)
      }
    }
    ask(manifest)
  }

  /// The same for a file that describes functions and has no code.
  private func askForeign(_ bytes: [UInt8]) {
    var manifest: Manifest?
    test("manifest", "it describes functions that this version can call") {
      try refused { () throws(PerdureError) in
        manifest = try PluginFiles.foreignManifest(bytes, path)
      }
    }
    guard let manifest else { return }
    test("functions", "the libraries that it names are here and export the functions") {
      try refused { () throws(PerdureError) in
        try PluginFiles.checkFunctions(manifest, path)
      }
    }
    ask(manifest)
  }

  private func ask(_ manifest: Manifest) {
    test("served", "this version has all that the manifest requires") {
      try refused { () throws(PerdureError) in try PluginFiles.checkServed(manifest, path) }
    }
    test("schemas", "the JSON Schemas of the manifest can be checked") {
      try refused { () throws(PerdureError) in
        try PluginFiles.checkSchemas(manifest, path) { _ = try JSONSchema(compiling: $0) }
      }
    }
    test("members", "the manifest has only members that this version knows") {
      guard let first = manifest.unknownMembers.first else { return }
      throw CheckFailure(
        "the manifest has a member that this version does not know: \(first)",
        remedy: "correct its name; a member of your own begins with x- and your name"
      )
    }
  }

  private func exports(_ elf: ELFFile) throws {
    if let symbol = elf.exports.first(where: \.isUnique) {
      throw CheckFailure(
        "it exports the unique symbol \(symbol.name), which two versions of it would share",
        remedy: "link it with a version script, or compile it with -fno-gnu-unique"
      )
    }
    let extra = elf.exports.map(\.name).filter {
      $0 != PluginFiles.entry && !PluginFiles.linkerSymbols.contains($0)
    }
    guard let first = extra.first else { return }
    throw CheckFailure(
      "it exports \(extra.count) symbols besides \(PluginFiles.entry), such as \(first)",
      remedy: "compile it with -fvisibility=hidden, and link C++ with a version script"
    )
  }

  /// What the runtime of Swift brings, which such a plugin shares with its host.
  private static let swiftLibraries = [
    "libswift", "lib_Foundation", "libFoundation", "libdispatch.so", "libBlocksRuntime.so",
    "lib_Concurrency", "lib_StringProcessing",
  ]

  private func libraries(_ elf: ELFFile) throws {
    for path in elf.runPaths
    where !path.split(separator: ":").allSatisfy({ $0.hasPrefix("$ORIGIN") }) {
      throw CheckFailure(
        "it searches libraries in \(path), a folder of the machine it was built on",
        remedy: "link it without a run path"
      )
    }
    let isSwift = (try? PluginFiles.note(of: elf, path))?.runtime.hasPrefix("swift-dynamic") == true
    let allowed = PluginFiles.allowedLibraries + (isSwift ? Self.swiftLibraries : [])
    for library in elf.needed where !allowed.contains(where: library.hasPrefix) {
      throw CheckFailure(
        "it needs \(library), which other machines may lack",
        remedy: "link it statically"
      )
    }
  }

  /// Turns the refusal of a load into a failure.
  private func refused(_ body: () throws(PerdureError) -> Void) throws {
    do throws(PerdureError) { try body() } catch {
      let prefix = "plugin file \(path) "
      let message =
        error.message.hasPrefix(prefix)
        ? "it " + error.message.dropFirst(prefix.count)
        : error.message
      throw CheckFailure(message, remedy: error.hint)
    }
  }

  private func test(_ word: String, _ question: String, _ body: () throws -> Void) {
    var finding = TestFinding(name: "file/\(word)", question: question, outcome: .passed)
    let begin = CheckRest.now
    do { try body() } catch {
      let failure = error as? CheckFailure ?? CheckFailure("\(error)")
      finding.outcome = .failed
      finding.reason = failure.reason
      finding.remedy = failure.remedy
    }
    finding.milliseconds = CheckRest.now - begin
    findings.append(finding)
  }
}
