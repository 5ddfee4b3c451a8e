internal import PerdureModel
import PerdureValue

/// Files that describe functions of shared libraries: a manifest and nothing else.
extension PluginFiles {
  /// Whether the file is such a description and no library.
  static func isForeign(_ bytes: [UInt8]) -> Bool {
    let blanks: Set<UInt8> = [0x20, 0x09, 0x0A, 0x0D]
    return bytes.prefix(1_024).first { !blanks.contains($0) } == UInt8(ascii: "{")
  }

  /// Reads and checks a description; the libraries that it names are looked at and not loaded.
  static func examineForeign(_ bytes: [UInt8], _ path: String) throws(PerdureError) -> Examined {
    let manifest = try foreignManifest(bytes, path)
    try checkFunctions(manifest, path)
    let libraries = Set(manifest.tools.compactMap { $0.function?.library })
    let description = PluginDescription(
      path: path,
      digest: FileAccess.digest(bytes),
      bytes: bytes.count,
      note: PluginNote(manifest),
      manifest: manifest,
      manifestJSON: (try? JSON(parsing: bytes)) ?? .null,
      isSidecar: false,
      exports: [],
      needed: libraries.sorted(),
      objections: [],
      warnings: notKnown(manifest)
    )
    return Examined(description: description, bytes: bytes)
  }

  /// Reads the manifest of a description.
  static func foreignManifest(_ bytes: [UInt8], _ path: String) throws(PerdureError) -> Manifest {
    let manifest = try parsed(bytes, path, "correct it there")
    guard manifest.isForeign else {
      throw refused(
        path,
        "is a manifest of the runtime \(manifest.runtime) without its library",
        "name the library; a file that describes functions has the runtime \"ffi\""
      )
    }
    try checkVersion(PluginNote(manifest), path)
    return manifest
  }

  /// Throws if a library or a function is not there.
  static func checkFunctions(_ manifest: Manifest, _ path: String) throws(PerdureError) {
    var libraries: [String: [ELFFile.Symbol]] = [:]
    for tool in manifest.tools {
      guard let function = tool.function else { continue }
      let name = function.library
      if libraries[name] == nil { libraries[name] = try symbols(of: name, tool, path) }
      var symbols = [function.symbol]
      if case .text(let free?) = function.returns.kind { symbols.append(free) }
      for symbol in symbols {
        guard let found = libraries[name]?.first(where: { $0.name == symbol }) else {
          throw refused(
            path,
            "takes \(symbol) for the tool \(tool.name) from \(name), which does not export it",
            "correct the symbol; `nm -D --defined-only` lists what a library exports"
          )
        }
        guard found.isFunction else {
          throw refused(
            path,
            "takes \(symbol) for the tool \(tool.name) from \(name), where it is no function",
            "name a function"
          )
        }
      }
    }
  }

  private static func symbols(
    of library: String,
    _ tool: ManifestTool,
    _ path: String
  ) throws(PerdureError) -> [ELFFile.Symbol] {
    guard let file = LibrarySearch.path(of: library) else {
      throw refused(
        path,
        "needs the library \(library) for the tool \(tool.name), which is not on this machine",
        "install the package that has it, or correct the name"
      )
    }
    do {
      return try ELFFile(try FileAccess.read(file, limit: FileAccess.pluginLimit)).exports
    } catch let problem as ELFProblem {
      throw refused(
        path,
        "needs the library \(library) for the tool \(tool.name), and \(file) \(problem.message)",
        "name the file that programs load, such as libm.so.6"
      )
    } catch let error as PerdureError {
      throw error
    } catch { throw refused(path, "needs the library \(library), which cannot be read", nil) }
  }
}

/// Where the dynamic loader would find a library.
enum LibrarySearch {
  #if arch(arm64)
  private static let machine = "aarch64-linux-gnu"
  #else
  private static let machine = "x86_64-linux-gnu"
  #endif

  /// The file of a library with this name, or `nil`.
  static func path(of name: String) -> String? {
    if name.hasPrefix("/") { return InstallationAccess.exists(name) ? name : nil }
    return folders.lazy.map { "\($0)/\(name)" }.first { InstallationAccess.exists($0) }
  }

  private static var folders: [String] {
    let given = RunnerEnd.variable("LD_LIBRARY_PATH") ?? ""
    var folders = given.split(separator: ":").map(String.init).filter { $0.hasPrefix("/") }
    let settings = "/etc/ld.so.conf.d"
    for name in InstallationAccess.names(in: settings) where name.hasSuffix(".conf") {
      let bytes = try? FileAccess.readIfPresent("\(settings)/\(name)", limit: 1 << 16)
      let lines = String(decoding: bytes ?? [], as: UTF8.self).split(whereSeparator: \.isNewline)
      folders += lines.map { $0.split(separator: " ").first.map(String.init) ?? "" }
        .filter { $0.hasPrefix("/") }
    }
    for prefix in ["", "/usr", "/usr/local"] {
      folders += ["\(prefix)/lib/\(machine)", "\(prefix)/lib64", "\(prefix)/lib"]
    }
    return folders
  }
}
