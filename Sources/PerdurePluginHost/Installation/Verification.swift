package import PerdureModel
import PerdureValue

/// Something of an installed plugin that is not as it was installed.
package struct InstallationProblem: Sendable, Equatable {
  package var id: String
  package var version: String
  /// One sentence without its end.
  package var message: String
}

extension InstallationFolder {
  /// Looks at every installed version, or at those of one plugin, and tells what is wrong.
  package func verify(_ id: String? = nil) throws(PerdureError) -> [InstallationProblem] {
    let file = try read()
    var problems: [InstallationProblem] = []
    for record in file.plugins where id == nil || record.id == id {
      for release in [record.release, record.previous].compactMap(\.self) {
        guard let message = problem(of: record.id, release) else { continue }
        problems.append(
          InstallationProblem(id: record.id, version: release.version, message: message)
        )
      }
    }
    return problems
  }

  /// What is wrong with a version on disk, or `nil`.
  func problem(of id: String, _ release: InstalledRelease) -> String? {
    let library = library(of: id, release)
    do throws(PerdureError) {
      let examined = try PluginFiles.examine(path: library)
      let found = examined.description
      guard found.digest == release.digest else { return "its library is another file" }
      guard found.manifest.id == id, found.manifest.version == release.version else {
        return "its manifest is that of \(found.manifest.id) \(found.manifest.version)"
      }
      var sidecar: [UInt8]?
      let besideIt = Self.sidecar(in: folder(of: id, release))
      if let digest = release.sidecar {
        let bytes = try FileAccess.read(besideIt, limit: Manifest.byteLimit + 1)
        guard FileAccess.digest(bytes) == digest else {
          return "the manifest beside its library is another file"
        }
        sidecar = bytes
      }
      guard let signer = release.signer else { return nil }
      guard try isSigned(library, examined.bytes, signer) else {
        return "its signature does not fit it"
      }
      if let sidecar, try !isSigned(besideIt, sidecar, signer) {
        return "the signature of its manifest does not fit it"
      }
      return nil
    } catch {
      return error.message
    }
  }

  private func isSigned(
    _ path: String,
    _ bytes: [UInt8],
    _ signer: SignerKey
  ) throws(PerdureError) -> Bool {
    let path = Self.signature(of: path)
    let text = try FileAccess.read(path, limit: SignatureFile.limit)
    return try SignatureFile(text, path: path).isGood(for: bytes, by: signer)
  }
}

extension PluginFiles {
  /// Throws `plugin_refused` for what `--plugin` lets pass, and an installation does not.
  static func checkInstallable(_ description: PluginDescription) throws(PerdureError) {
    let path = description.path
    guard description.manifest.id != LockFile.name else {
      throw refused(path, "has the id \(LockFile.name), which is taken", "give it another id")
    }
    try checkServed(description.manifest, path)
    try checkSchemas(description.manifest, path) { _ = try JSONSchema(compiling: $0) }
    let searches = description.objections.contains { $0.hasPrefix("it searches libraries in") }
    if searches, description.needed.contains(where: { $0.hasPrefix("libswift") }) {
      throw refused(
        path,
        "is a development build of SwiftPM, which works on the machine that built it only",
        "build it with swiftc or cc for installing, as the page 'Installing plugins' shows;"
          + " --plugin runs it as it is"
      )
    }
    if let first = description.objections.first {
      let (what, hint) = split(first)
      throw refused(path, "must not be installed: \(what)", hint)
    }
  }

  private static func split(_ objection: String) -> (String, String) {
    let parts = objection.split(separator: "; ", maxSplits: 1)
    return (String(parts[0]), parts.count == 2 ? String(parts[1]) : "ask the plugin's author")
  }

  /// Throws `plugin_refused` if two plugins register the same, unless one says that it overrides.
  package static func checkConflicts(
    of manifest: Manifest,
    with others: [Manifest],
    _ path: String
  ) throws(PerdureError) {
    for other in others where other.id != manifest.id {
      for tool in manifest.tools where !tool.overrides {
        guard let clash = other.tools.first(where: { $0.name == tool.name }), !clash.overrides
        else { continue }
        throw refused(
          path,
          "has a tool \(tool.name), and so has the plugin \(other.id)",
          "rename one, or set \"overrides\" in the tool that is to replace the other"
        )
      }
      if let task = manifest.tasks.first(where: { task in
        other.tasks.contains { $0.type == task.type }
      }) {
        throw refused(
          path,
          "has a task type \(task.type), and so has the plugin \(other.id)",
          "uninstall \(other.id) first, or rename one of them"
        )
      }
      if let document = manifest.documents.first(where: { document in
        other.documents.contains { $0.kind == document.kind }
      }) {
        throw refused(
          path,
          "has a kind of documents \(document.kind), and so has the plugin \(other.id)",
          "uninstall \(other.id) first, or rename one of them"
        )
      }
    }
  }
}
