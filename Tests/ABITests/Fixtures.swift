import Foundation
import PerdurePluginHost
import Synchronization

/// Builds the plugins of the tests with the plain compilers, once per content of their sources.
enum Fixtures {
  static let root = URL(filePath: #filePath).deletingLastPathComponent()
    .deletingLastPathComponent().deletingLastPathComponent()
  static let plugins = root.appending(path: "Tests/Fixtures/Plugins")
  static let headers = root.appending(path: "Sources/CPerdureABI/include")
  private static let built = root.appending(path: ".build/abi-fixtures")

  private static let building = Mutex(())

  /// Gives the path of the plugin made of a C source of the fixtures.
  static func plugin(_ name: String, flags: [String] = []) throws -> String {
    try plugin(source: plugins.appending(path: "\(name).c"), flags: flags)
  }

  /// Gives the path of a plugin with this manifest whose life cycle goes wrong in one way.
  static func lifecycle(
    manifest: String,
    wrong: Int = 0,
    flags: [String] = []
  ) throws -> String {
    let name = PluginFiles.digest(of: Array(manifest.utf8)).prefix(16)
    let path = built.appending(path: "manifest-\(name).json")
    try FileManager.default.createDirectory(at: built, withIntermediateDirectories: true)
    if !FileManager.default.fileExists(atPath: path.path) {
      try Data(manifest.utf8).write(to: path, options: .atomic)
    }
    return try plugin(
      "lifecycle",
      flags: ["-DMANIFEST=\"\(path.path)\"", "-DWRONG=\(wrong)"] + flags
    )
  }

  /// Gives the path of the plugin made of a C++ source of the fixtures.
  static func cppPlugin(_ name: String) throws -> String {
    let source = plugins.appending(path: "\(name).cpp")
    let command =
      ["c++", "-std=c++17", "-shared", "-fPIC", "-O1", "-g", "-fvisibility=hidden", "-pthread"]
      + ["-I", headers.path]
    return try make(name: name, command, [source] + headerFiles) { path in
      try Command.run(command + ["-o", path, source.path])
    }
  }

  /// Gives the path of the plugin made of a C source.
  static func plugin(source: URL, flags: [String]) throws -> String {
    let command =
      ["cc", "-std=c11", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-O1", "-g"]
      + ["-fvisibility=hidden", "-pthread", "-I", headers.path] + flags
    let inputs = [source] + headerFiles
    return try make(name: source.deletingPathExtension().lastPathComponent, command, inputs) {
      path in
      try Command.run(command + ["-o", path, source.path])
    }
  }

  /// Gives the path of the plugin made of Swift.
  static func swiftPlugin() throws -> String {
    let folder = plugins.appending(path: "SwiftPlugin")
    let source = folder.appending(path: "Plugin.swift")
    let manifest = folder.appending(path: "manifest.json")
    let command = [
      "swiftc", "-O", "-parse-as-library", "-emit-library", "-module-name", "SwiftPlugin",
      "-I", folder.path, "-no-toolchain-stdlib-rpath",
      "-Xlinker", "--version-script=\(folder.appending(path: "exports.map").path)",
    ]
    return try make(name: "swift", command, [source, manifest] + headerFiles) { path in
      try Command.run(command + ["-o", path, source.path])
      try Command.run(["objcopy", "--add-section", ".perdure.manifest=\(manifest.path)", path])
    }
  }

  /// Gives the path of a version of the plugin that is written with the kit for Swift.
  static func kitPlugin(_ version: String = "1.0.0") throws -> String {
    let folder = plugins.appending(path: "SwiftKit")
    let source = folder.appending(path: "Plugin.swift")
    let manifest = try String(contentsOf: folder.appending(path: "manifest.json"), encoding: .utf8)
      .replacing("VERSION", with: version)
    let kits = ["sdk/swift", "Sources/PerdurePluginKit", "Sources/PerdureValue"].flatMap { name in
      let folder = root.appending(path: name)
      let paths = FileManager.default.enumerator(atPath: folder.path)?.compactMap { $0 as? String }
      return (paths ?? []).sorted().map { folder.appending(path: $0) }
        .filter { (try? $0.resourceValues(forKeys: [.isRegularFileKey]))?.isRegularFile == true }
    }
    return try make(name: "kit", [manifest], [source] + kits + headerFiles) { path in
      let file = path + ".json"
      try Data(manifest.utf8).write(to: URL(filePath: file))
      try Command.run([
        "env", "XDG_CACHE_HOME=\(built.path)/cache", root.appending(path: "sdk/swift/build").path,
        path, file, source.path,
      ])
    }
  }

  static var headerFiles: [URL] {
    ["perdure.h", "perdure_easy.h"].map { headers.appending(path: $0) }
  }

  private static func make(
    name: String,
    _ command: [String],
    _ inputs: [URL],
    _ build: (String) throws -> Void
  ) throws -> String {
    var key = Array(command.joined(separator: "\0").utf8)
    for input in inputs { key += Array(try Data(contentsOf: input)) }
    let path = built.appending(path: "\(name)-\(PluginFiles.digest(of: key).prefix(16)).so").path
    return try building.withLock { _ in
      if FileManager.default.fileExists(atPath: path) { return path }
      try FileManager.default.createDirectory(at: built, withIntermediateDirectories: true)
      try build(path + ".new")
      try FileManager.default.moveItem(atPath: path + ".new", toPath: path)
      return path
    }
  }

  /// Makes an empty folder of its own.
  static func folder() throws -> String {
    let path = FileManager.default.temporaryDirectory.appending(path: "abi-\(UUID().uuidString)")
    try FileManager.default.createDirectory(at: path, withIntermediateDirectories: true)
    return path.path
  }

  /// Copies a plugin to a folder of its own, with some bytes changed.
  static func copy(_ path: String, _ change: (inout [UInt8]) -> Void = { _ in }) throws -> String {
    var bytes = Array(try Data(contentsOf: URL(filePath: path)))
    change(&bytes)
    let copy = try folder() + "/copy.so"
    try Data(bytes).write(to: URL(filePath: copy))
    return copy
  }
}
