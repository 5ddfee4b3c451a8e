import Perdure
import PerdureModel
import PerdureValue

/// What a plugin can be written in; a further row needs its templates in `sdk/templates`, which
/// `CPerdureSDK` takes in, and nothing else.
struct ScaffoldLanguage: Sendable {
  /// A file of the folder: which template it is made of, and what it is called there.
  struct File: Sendable {
    var template: String
    var name: String
    var isProgram = false
  }

  var name: String
  /// As it stands in note and manifest.
  var runtime: String
  /// What builds it, for people.
  var compiler: String
  var source: File
  /// What else is written of it.
  var files: [File]
  /// What is copied as it is; a name that ends in `/` stands for all that is below it.
  var kit: [String]

  static let all: [ScaffoldLanguage] = [
    ScaffoldLanguage(
      name: "c",
      runtime: "c",
      compiler: "a C compiler",
      source: File(template: "c/plugin.c", name: "@NAME@.c"),
      files: [manifest, build("c")],
      kit: ["perdure.h", "perdure_easy.h"]
    ),
    ScaffoldLanguage(
      name: "cpp",
      runtime: "c++",
      compiler: "a C++17 compiler, g++ or clang++,",
      source: File(template: "cpp/plugin.cpp", name: "@NAME@.cpp"),
      files: [build("cpp")],
      kit: ["perdure.h", "perdure.hpp", "perdure.map"]
    ),
    ScaffoldLanguage(
      name: "rust",
      runtime: "rust",
      compiler: "`rustc` 1.63 or later",
      source: File(template: "rust/plugin.rs", name: "@NAME@.rs"),
      files: [manifest, build("rust")],
      kit: ["perdure.rs"]
    ),
    ScaffoldLanguage(
      name: "swift",
      runtime: "swift-static",
      compiler: "Swift 6.3 or later for Linux",
      source: File(template: "swift/plugin.swift", name: "@NAME@.swift"),
      files: [manifest, build("swift")],
      kit: ["perdure.h", "perdure.map", "swift-kit/"]
    ),
    ScaffoldLanguage(
      name: "zig",
      runtime: "zig",
      compiler: "Zig 0.17, as `zig` or as `ZIG` says,",
      source: File(template: "zig/plugin.zig", name: "@NAME@.zig"),
      files: [manifest, build("zig"), File(template: "zig/perdure.zig", name: "perdure.zig")],
      kit: ["perdure.h"]
    ),
  ]

  private static let manifest = File(template: "manifest.json", name: "@NAME@.json")

  private static func build(_ language: String) -> File {
    File(template: "\(language)/build", name: "build", isProgram: true)
  }
}

/// The folder of a new plugin, before it is written.
struct Scaffold {
  /// What a plugin has besides its tool.
  enum Kind: String, CaseIterable, Sendable {
    case section
    case guardHook = "guard"
    case wrap, task
  }

  /// A file with its path below the folder.
  struct File {
    var path: String
    var bytes: [UInt8]
    var isProgram = false
  }

  var name: String
  var id: String
  var language: ScaffoldLanguage
  var kinds: Set<Kind>

  static let kitFolder = "perdure"

  /// Returns all files, in the order in which people read them.
  func files() throws(PerdureError) -> [File] {
    let common = [
      ScaffoldLanguage.File(template: "plugin.faux.json", name: "@NAME@.faux.json"),
      ScaffoldLanguage.File(template: "expected.txt", name: "@NAME@.expected.txt"),
      ScaffoldLanguage.File(template: "README.md", name: "README.md"),
      ScaffoldLanguage.File(template: "gitignore", name: ".gitignore"),
    ]
    var files: [File] = []
    for file in [language.source] + language.files + common {
      let text = try filled(lines(ofTemplate: file.template).joined(separator: "\n"))
      let path = try filled(file.name)
      files.append(File(path: path, bytes: Array(text.utf8), isProgram: file.isProgram))
    }
    for name in language.kit {
      for (path, bytes) in try SDKFiles.files(name) {
        let isProgram = bytes.starts(with: "#!".utf8)
        files.append(File(path: "\(Self.kitFolder)/\(path)", bytes: bytes, isProgram: isProgram))
      }
    }
    return files
  }

  /// Writes all files into a folder, which must not exist; returns their paths in it.
  func write(to folder: String) throws(PerdureError) -> [String] {
    let files = try files()
    try HostText.makeFolder(folder)
    var made: Set<Substring> = [""]
    for file in files {
      // Each folder comes before those in it.
      for end in file.path.indices where file.path[end] == "/" {
        let parent = file.path[..<end]
        if made.insert(parent).inserted { try HostText.makeFolder("\(folder)/\(parent)") }
      }
      let kind: HostText.NewFile = file.isProgram ? .program : .plain
      try HostText.write(file.bytes, to: "\(folder)/\(file.path)", kind)
    }
    return files.map { $0.path }
  }

  // MARK: Templates

  /// Returns the lines of a template that count for these kinds.
  ///
  /// A line `//@if A,B` begins lines for plugins that have one of these kinds, `//@unless A,B` for
  /// those that have none, and `//@end` ends them; `//@include FILE` stands for another template.
  private func lines(ofTemplate name: String) throws(PerdureError) -> [Substring] {
    var lines: [Substring] = []
    var counts = true
    for line in try SDKFiles.text(name).split(separator: "\n", omittingEmptySubsequences: false) {
      guard line.hasPrefix("//@") else {
        if counts { lines.append(line) }
        continue
      }
      let words = line.dropFirst(3).split(separator: " ")
      let names = (words.last ?? "").split(separator: ",").map(String.init)
      let has = kinds.contains { names.contains($0.rawValue) }
      switch words.first {
      case "if": counts = has
      case "unless": counts = !has
      case "include" where counts:
        var included = try self.lines(ofTemplate: names.joined())
        // The line end of its last line is that of this line.
        if included.last == "" { included.removeLast() }
        lines += included
      default: counts = true
      }
    }
    return lines
  }

  private func filled(_ text: String) throws(PerdureError) -> String {
    let source = language.source.name.replacing("@NAME@", with: name)
    let hasManifest = language.files.contains { $0.name == "@NAME@.json" }
    let values = [
      "SOURCE": source,
      "MANIFEST_ROW": hasManifest
        ? "| `\(name).json` | its manifest: what it registers; the source takes it in |\n" : "",
      "NAME": name, "ID": id, "RUNTIME": language.runtime, "COMPILER": language.compiler,
      "LANGUAGE": language.name, "SDK_FOLDER": Self.kitFolder,
      "VERSION": PerdureVersion.perdure,
    ]
    return values.reduce(text) { $0.replacing("@\($1.key)@", with: $1.value) }
  }
}
