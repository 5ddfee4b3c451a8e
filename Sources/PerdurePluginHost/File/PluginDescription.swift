internal import PerdureModel
package import PerdureValue

/// What a plugin's file says about itself, read without running any of its code.
package struct PluginDescription: Sendable {
  package var path: String
  /// SHA-256 of the file, in hexadecimal.
  package var digest: String
  package var bytes: Int
  package var note: PluginNote
  package var manifest: Manifest
  /// As it stands in the file.
  package var manifestJSON: JSON
  /// Whether the manifest stood beside the file.
  package var isSidecar: Bool
  package var exports: [String]
  package var needed: [String]
  /// What an installed plugin would be refused for.
  package var objections: [String]
  /// What an installed plugin would be refused for, and what this version does not serve yet.
  package var warnings: [String]

  /// The same for programs.
  package var json: JSON {
    [
      "path": .string(path), "digest": .string(digest), "bytes": .int(bytes),
      "note": [
        "abiMajor": .int(note.abiMajor), "hostMinor": .int(note.hostMinor),
        "messageLevel": .int(note.messageLevel), "runtime": .string(note.runtime),
      ],
      "manifest": manifestJSON, "sidecar": .bool(isSidecar),
      "exports": .array(exports.map { .string($0) }), "needed": .array(needed.map { .string($0) }),
      "warnings": .array(warnings.map { .string($0) }),
    ]
  }
}

/// Finds plugins in files and turns files into plugins.
package enum PluginFiles {
  /// Tables of the ABI that this version has.
  package static let interfaces: Set<String> = ["perdure.calls/1", "perdure.invoke/1"]

  /// Gives the SHA-256 of `bytes` in hexadecimal, as records and private copies name a plugin.
  package static func digest(of bytes: [UInt8]) -> String { FileAccess.digest(bytes) }

  static let entry = "perdure_plugin_1"
  static let manifestSection = ".perdure.manifest"

  /// Gives what the file at `path` says about itself; runs none of its code.
  ///
  /// Throws `plugin_refused` with one sentence if it is no plugin that this version could load.
  package static func inspect(
    path: String,
    checkSchema: (JSON) throws -> Void = { _ = try JSONSchema(compiling: $0) }
  ) throws -> PluginDescription {
    let description = try describe(path: path)
    try checkServed(description.manifest, path)
    try checkSchemas(description.manifest, path, checkSchema)
    return description
  }

  /// Gives what the file at `path` says about itself, also if this version cannot serve it.
  package static func describe(path: String) throws -> PluginDescription {
    try examine(path: path).description
  }

  /// A file that was read and found to be a plugin.
  struct Examined {
    var description: PluginDescription
    var bytes: [UInt8]
  }

  /// Reads and checks a file.
  static func examine(path: String) throws(PerdureError) -> Examined {
    let bytes = try FileAccess.read(path, limit: FileAccess.pluginLimit)
    if isForeign(bytes) { return try examineForeign(bytes, path) }
    let file: ELFFile
    do { file = try ELFFile(bytes) } catch { throw refused(path, error.message, error.hint) }
    try checkSafety(file, path)
    let note = try note(of: file, path)
    let (manifestBytes, isSidecar) = try manifestBytes(of: file, path)
    let manifest = try parsed(manifestBytes, path)
    try checkAgreement(manifest, note, path)
    let json = (try? JSON(parsing: manifestBytes)) ?? .null
    let description = PluginDescription(
      path: path,
      digest: FileAccess.digest(bytes),
      bytes: bytes.count,
      note: note,
      manifest: manifest,
      manifestJSON: json,
      isSidecar: isSidecar,
      exports: file.exports.map(\.name).filter { !linkerSymbols.contains($0) },
      needed: file.needed,
      objections: objections(file),
      warnings: objections(file) + notKnown(manifest)
    )
    return Examined(description: description, bytes: bytes)
  }

  /// Makes the error of a refused plugin.
  static func refused(
    _ path: String,
    _ what: String,
    _ hint: String?,
    cause: String? = nil
  ) -> PerdureError {
    PerdureError(.pluginRefused, "plugin file \(path) \(what)", hint: hint, cause: cause)
  }

  static let linkerSymbols: Set<String> = [
    "_init", "_fini", "_end", "_edata", "__bss_start", "__end__", "_etext", "edata", "end",
  ]

  static func checkSafety(_ file: ELFFile, _ path: String) throws(PerdureError) {
    guard file.exports.contains(where: { $0.name == entry }) else {
      let other = file.exports.first { $0.name.hasPrefix("perdure_plugin_") }?.name
      throw refused(
        path,
        "does not export \(entry)" + (other.map { " but \($0)" } ?? ""),
        other == nil
          ? "mark the entry function with PDR_EXPORT"
          : "build it with the perdure.h of this version"
      )
    }
    if file.hasTextRelocations {
      throw refused(path, "has relocations in its code", "compile it with -fPIC")
    }
    if file.hasExecutableStack {
      throw refused(path, "asks for an executable stack", "link it with -Wl,-z,noexecstack")
    }
    if let symbol = file.exports.first(where: \.isUnique) {
      throw refused(
        path,
        "exports the unique symbol \(symbol.name), which two versions would share",
        "link it with a version script, as docs/plugins.md shows, or compile it with -fno-gnu-unique"
      )
    }
  }

  static func note(of file: ELFFile, _ path: String) throws(PerdureError) -> PluginNote {
    guard
      let bytes = file.note(
        owner: PluginNote.owner,
        type: PluginNote.type,
        section: PluginNote.section
      )
    else {
      throw refused(path, "has no note \(PluginNote.section)", "add PDR_PLUGIN_NOTE of perdure.h")
    }
    guard let note = PluginNote(descriptor: bytes) else {
      throw refused(
        path,
        "has a note \(PluginNote.section) that this version cannot read",
        "build it with the perdure.h of this version"
      )
    }
    try checkVersion(note, path)
    return note
  }

  static func checkVersion(_ note: PluginNote, _ path: String) throws(PerdureError) {
    guard note.abiMajor == 1 else {
      throw refused(
        path,
        "asks for ABI major \(note.abiMajor) and this host has 1",
        "build it for ABI major 1 or use a newer host"
      )
    }
    guard note.hostMinor <= 0, note.messageLevel <= 1 else {
      throw refused(
        path,
        "asks for ABI 1.\(note.hostMinor) with message level \(note.messageLevel)"
          + " and this host has 1.0 with level 1",
        "use a newer host or lower what the plugin asks for"
      )
    }
  }

  private static func manifestBytes(
    of file: ELFFile,
    _ path: String
  ) throws(PerdureError) -> ([UInt8], Bool) {
    var section = file.section(manifestSection)
    if section?.last == 0 { section?.removeLast() }
    let stem = path.hasSuffix(".so") ? String(path.dropLast(3)) : path
    let sidecar = try FileAccess.readIfPresent(
      stem + ".perdure.json",
      limit: Manifest.byteLimit + 1
    )
    switch (section, sidecar) {
    case (let inside?, let beside?):
      guard inside == beside else {
        throw refused(
          path,
          "has a manifest inside and another one in \(stem).perdure.json",
          "remove one of them or make them equal"
        )
      }
      return (inside, false)
    case (let inside?, nil): return (inside, false)
    case (nil, let beside?): return (beside, true)
    case (nil, nil):
      throw refused(
        path,
        "has no manifest, neither in a section \(manifestSection) nor beside it",
        "add PDR_MANIFEST of perdure.h"
      )
    }
  }

  /// Gives the manifest of a library, from inside it or from beside it.
  static func manifest(of file: ELFFile, _ path: String) throws(PerdureError) -> Manifest {
    try parsed(try manifestBytes(of: file, path).0, path)
  }

  static func parsed(
    _ bytes: [UInt8],
    _ path: String,
    _ hint: String = "correct the manifest and build it again"
  ) throws(PerdureError) -> Manifest {
    do { return try Manifest(parsing: bytes) } catch {
      throw refused(path, manifestSentence(error), hint)
    }
  }

  private static func manifestSentence(_ problem: BorderProblem) -> String {
    switch problem {
    case .shape(let what, let at):
      "has a manifest with \(what)" + (at.isEmpty ? "" : " at \(at)")
    case .notJSON(let error): "has a manifest that is not JSON (\(error))"
    case .notUTF8: "has a manifest that is not UTF-8"
    default: "has a manifest with \(problem.phrase)"
    }
  }

  static func checkAgreement(
    _ manifest: Manifest,
    _ note: PluginNote,
    _ path: String
  ) throws(PerdureError) {
    let pairs = [
      ("runtime", note.runtime, manifest.runtime),
      ("ABI major", "\(note.abiMajor)", "\(manifest.abi.major)"),
      ("ABI minor", "\(note.hostMinor)", "\(manifest.abi.minor)"),
      ("message level", "\(note.messageLevel)", "\(manifest.abi.messages)"),
    ]
    for (what, inNote, inManifest) in pairs where inNote != inManifest {
      throw refused(
        path,
        "says \(what) \(inNote) in its note and \(inManifest) in its manifest",
        "make them agree"
      )
    }
  }

  /// What an installation refuses, and `--plugin` only tells.
  private static func objections(_ file: ELFFile) -> [String] {
    var warnings: [String] = []
    let extra = file.exports.map(\.name).filter { $0 != entry && !linkerSymbols.contains($0) }
    if let first = extra.first {
      warnings.append(
        "it exports \(extra.count) symbols besides \(entry), such as \(first); "
          + "compile it with -fvisibility=hidden, and link C++ with a version script, "
          + "as docs/plugins.md shows"
      )
    }
    for path in file.runPaths
    where !path.split(separator: ":").allSatisfy({ $0.hasPrefix("$ORIGIN") }) {
      warnings.append("it searches libraries in \(path); link it without a run path")
    }
    for library in file.needed where !allowedLibraries.contains(where: library.hasPrefix) {
      warnings.append("it needs \(library), which other machines may lack; link it statically")
    }
    return warnings
  }

  /// The pointers that are told; a manifest of a later version may have many.
  private static let toldMembers = 20

  static func notKnown(_ manifest: Manifest) -> [String] {
    let pointers = manifest.unknownMembers
    let told = pointers.prefix(toldMembers).map {
      "the manifest has a member this version does not know: \($0)"
    }
    let more = pointers.count - told.count
    return more > 0 ? told + ["the manifest has \(more) more members of that kind"] : told
  }

  static let allowedLibraries = [
    "libc.so.", "libm.so.", "libpthread.so.", "libdl.so.", "librt.so.", "ld-linux", "libgcc_s.so.",
    "libstdc++.so.",
  ]
}
