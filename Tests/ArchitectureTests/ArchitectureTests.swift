import Foundation
import PerdureValue
import Testing

/// What each target may import of this package, word for word the map of the README.
private let mayImport: [String: Set<String>] = {
  let base: Set = ["PerdureValue", "PerdureModel"]
  let adapters: Set = [
    "PerdureCodingTools", "PerdureEngine", "PerdureStorage", "PerdureSandbox", "PerdureProviders",
    "PerdurePluginHost",
  ]
  let below = base.union(adapters).union(["Perdure", "CPerdureABI", "CPerdureLinux"])
  return [
    "CPerdureABI": [],
    "CPerdureCheck": ["CPerdureABI"],
    "CPerdureCurl": ["CCurl"],
    "CPerdureLinux": [],
    "CPerdureSQLite": ["CSQLite"],
    "CPerdureSDK": [],
    "PerdureValue": [],
    "PerdureModel": ["PerdureValue"],
    "PerdureCodingTools": base,
    "PerdureEngine": base,
    "PerdureStorage": base.union(["CSQLite", "CPerdureLinux", "CPerdureSQLite"]),
    "PerdureSandbox": base.union(["CPerdureLinux"]),
    "PerdureSandboxLauncher": [],
    "PerdureProviders": base.union(["CCurl", "CPerdureCurl", "CPerdureLinux"]),
    "PerdurePluginHost": base.union([
      "CPerdureABI", "CPerdureCheck", "CPerdureLinux", "CFFI", "CSodium",
    ]),
    "Perdure": below.subtracting(["Perdure"]),
    "PerdureBench": below.union(["CSQLite"]),
    "PerdureCLI": base.union(["Perdure", "CPerdureLinux", "CPerdureSDK"]),
    "PerdureRunner": ["PerdurePluginHost", "PerdureValue", "CPerdureABI", "CPerdureLinux", "CFFI"],
    "PerdurePluginKit": ["PerdureValue", "CPerdureABI"],
    "PerdureTestKit": below,
  ]
}()

/// Modules of the system that are only bound, never written.
private let systemLibraries: Set = ["CCurl", "CFFI", "CSodium", "CSQLite"]

/// Where unsafe code may be.
private let unsafeFolders = [
  "PerdureStorage/SQLite/", "PerdureSandbox/Linux/", "PerdureProviders/HTTP/",
  "PerdurePluginHost/ABI/", "PerdureRunner/", "PerdurePluginKit/ABI/", "PerdureBench/",
]

@Suite struct ArchitectureTests {
  private static func isOurs(_ module: String) -> Bool {
    mayImport[module] != nil || systemLibraries.contains(module)
  }

  @Test func `every target has a place on the map`() throws {
    let unknown = try SourceTree.targets().filter { !Self.isOurs($0) }
    #expect(unknown == [])
  }

  @Test(arguments: try SourceTree.files.get())
  func `a file imports only what its target may`(file: SourceTree.File) throws {
    let allowed = try #require(mayImport[file.target])
    let wrong = imports(of: file).filter { Self.isOurs($0) && !allowed.contains($0) }
    #expect(wrong == [])
  }

  @Test func `the manifest gives no target more than it may import`() throws {
    let start = /\.(target|executableTarget|testTarget|systemLibrary)\(\s*name: "(\w+)"/
    let manifest = try SourceTree.manifest()
    let matches = manifest.matches(of: start)
    var seen = 0
    for (position, match) in matches.enumerated() {
      guard match.1 != "testTarget", let allowed = mayImport[String(match.2)] else { continue }
      seen += 1
      let end =
        position + 1 < matches.count
        ? matches[position + 1].range.lowerBound : manifest.endIndex
      let block = manifest[match.range.upperBound..<end]
      guard let list = block.firstMatch(of: /dependencies: \[([^\]]*)\]/) else { continue }
      let dependencies = Set(list.1.matches(of: /"(\w+)"/).map { String($0.1) })
      #expect(dependencies.subtracting(allowed) == [], "\(match.2)")
    }
    #expect(seen >= 10)
  }

  @Test(arguments: try SourceTree.files.get())
  func `the core needs no Foundation`(file: SourceTree.File) {
    guard ["PerdureValue", "PerdureModel", "PerdureEngine"].contains(file.target) else { return }
    let others = imports(of: file).filter { !Self.isOurs($0) && $0 != "Synchronization" }
    #expect(others == [])
  }

  @Test(arguments: try SourceTree.files.get())
  func `unsafe code stays in its folders`(file: SourceTree.File) {
    guard !unsafeFolders.contains(where: file.path.hasPrefix) else { return }
    // The word is also a replay policy: only what is followed by an expression is the keyword.
    let keyword = /(?:^|[^.\w`])unsafe\s+[\w(&\[.]|\(unsafe\)|@unsafe|@safe\b|@unchecked/
    let suspects = file.code.filter { $0.contains("safe") || $0.contains("unchecked") }
    let found = suspects.filter { $0.contains(keyword) && !$0.contains(/case unsafe\b/) }
    #expect(found == [])
  }

  @Test(arguments: try SourceTree.files.get())
  func `no file leaves a task to libdispatch`(file: SourceTree.File) {
    // Its threads would wake every second from then on. The clock does it if it has no thread, and a
    // runner, which has no clock of its own, only while it is told to stop.
    let clocks = ["Perdure/SystemClock.swift", "PerdurePluginHost/Runner/RunnerSide.swift"]
    guard !clocks.contains(file.path) else { return }
    let found = file.code.filter { line in
      ["Task.", "MainActor", "Dispatch"].contains { line.contains($0) }
        && line.contains(/\bTask\.(?:sleep|yield)\b|@MainActor|\bMainActor\.|import Dispatch/)
    }
    #expect(found == [])
  }

  @Test(arguments: try SourceTree.files.get())
  func `there is one platform`(file: SourceTree.File) {
    // Processors may differ: a plugin must be built for the one it runs on.
    let found = file.code.filter {
      $0.contains("#") && $0.contains(/#(?:if|elseif)\b.*\b(?:os|canImport)\(/)
    }
    #expect(found == [])
  }

  @Test func `the compiler knows every upcoming feature of the manifest`() throws {
    let asked = try SourceTree.manifest().matches(of: /enableUpcomingFeature\("(\w+)"\)/)
      .map { String($0.1) }
    #expect(asked.count >= 4)
    let features = try JSON(parsing: supportedFeatures())
    let known = features["features"]?["upcoming"]?.array ?? []
    let names = Set(known.compactMap { $0["name"]?.text })
    #expect(Set(asked).subtracting(names) == [])
  }

  private func imports(of file: SourceTree.File) -> [String] {
    file.code.filter { $0.contains("import ") }.compactMap { line in
      line.firstMatch(
        of:
          /^\s*(?:[@\w]+(?:\(\w+\))?\s+)*import\s+(?:(?:struct|enum|class|func|protocol|typealias|var|let)\s+)?(\w+)/
      )
      .map { String($0.1) }
    }
  }

  private func supportedFeatures() throws -> String {
    let compiler = Process()
    compiler.executableURL = URL(filePath: "/usr/bin/env")
    compiler.arguments = ["swiftc", "-print-supported-features"]
    let pipe = Pipe()
    compiler.standardOutput = pipe
    try compiler.run()
    let output = pipe.fileHandleForReading.readDataToEndOfFile()
    compiler.waitUntilExit()
    return String(decoding: output, as: UTF8.self)
  }
}
