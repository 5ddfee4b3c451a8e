internal import PerdureModel
package import PerdureValue

/// One version of a plugin as it lies in the installation folder.
package struct InstalledRelease: Sendable, Equatable {
  package var version: String
  /// SHA-256 of the library, in hexadecimal.
  package var digest: String
  /// SHA-256 of the manifest beside it; absent if it is inside.
  package var sidecar: String?
  /// Who signed it; absent if it was accepted without a signature.
  package var signer: SignerKey?

  /// The folder of the version below that of the plugin.
  package var folder: String { "\(version)-\(digest.prefix(16))" }

  fileprivate var json: JSONObject {
    var object: JSONObject = ["version": .string(version), "digest": .string(digest)]
    if let sidecar { object["sidecar"] = .string(sidecar) }
    object["signer"] = signer.map { .string($0.text) } ?? .null
    return object
  }
}

/// An installed plugin as the lock file has it.
package struct InstalledRecord: Sendable, Equatable {
  /// Whether hosts load it.
  package enum State: String, Sendable, CaseIterable { case enabled, disabled }

  package var id: String
  package var release: InstalledRelease
  package var state = State.enabled
  /// Whether it counts in every conversation, first of all.
  package var isPinned = false
  /// Whether nothing may go on without it.
  package var isRequired = false
  /// `auto`, `in-process` or `runner`.
  package var isolation = "auto"
  /// What a rollback leads back to.
  package var previous: InstalledRelease?
  /// Why nobody runs it until an operator says so, or `nil`.
  package var quarantine: String?

  static let isolations = ["auto", "in-process", "runner"]

  /// Makes a record with the defaults.
  package init(id: String, release: InstalledRelease) {
    self.id = id
    self.release = release
  }

  /// The form in the lock file.
  package var json: JSON {
    var object: JSONObject = ["id": .string(id)]
    for (key, value) in release.json { object[key] = value }
    object["state"] = .string(state.rawValue)
    object["pinned"] = .bool(isPinned)
    object["required"] = .bool(isRequired)
    object["isolation"] = .string(isolation)
    if let previous { object["previous"] = .object(previous.json) }
    object["quarantine"] = quarantine.map { .string($0) }
    return .object(object)
  }
}

/// What a lock file says: the plugins that are installed, and whom their ids were trusted to.
package struct LockFile: Sendable, Equatable {
  /// By id.
  package var plugins: [InstalledRecord] = []
  /// The signers that the ids are pinned to, also of plugins that are gone.
  package var signers: [String: SignerKey] = [:]

  static let name = "plugins.lock.json"
  private static let version: Int64 = 1
  static let limit = 16 << 20

  /// Makes the lock file of an empty folder.
  package init() {}

  /// The record of this id.
  package subscript(id: String) -> InstalledRecord? {
    get { plugins.first { $0.id == id } }
    set {
      plugins.removeAll { $0.id == id }
      if let newValue { plugins.append(newValue) }
      plugins.sort { $0.id < $1.id }
    }
  }

  // MARK: Reading

  /// Reads the file; `path` is named in the sentence for one that is damaged.
  init(_ bytes: [UInt8], path: String) throws(PerdureError) {
    let json: JSON
    do { json = try JSON(parsing: bytes) } catch {
      throw Self.damaged(path, "it is no JSON: \(error)")
    }
    guard let version = json["version"]?.int, version >= 1 else {
      throw Self.damaged(path, "it has no version")
    }
    guard version == Self.version else {
      throw PerdureError(
        .invalidConfiguration,
        "the lock file \(path) is of version \(version), which this perdure does not know",
        hint: "use a newer perdure, or load no installed plugins with --no-plugins"
      )
    }
    guard let list = json["plugins"]?.array, let pins = json["signers"]?.object else {
      throw Self.damaged(path, "'plugins' or 'signers' is missing")
    }
    for (number, item) in list.enumerated() {
      guard let record = Self.record(item), self[record.id] == nil else {
        throw Self.damaged(path, "plugin \(number + 1) of it makes no sense or is there twice")
      }
      self[record.id] = record
    }
    for (id, key) in pins {
      guard Names.isPluginID(id.string), let text = key.text, let key = try? SignerKey(text) else {
        throw Self.damaged(path, "the signer of '\(id.string)' makes no sense")
      }
      signers[id.string] = key
    }
  }

  private static func record(_ json: JSON) -> InstalledRecord? {
    guard let id = json["id"]?.text, Names.isPluginID(id), let release = release(json),
      let state = json["state"]?.text.flatMap(InstalledRecord.State.init(rawValue:)),
      let isPinned = json["pinned"]?.bool, let isRequired = json["required"]?.bool,
      let isolation = json["isolation"]?.text, InstalledRecord.isolations.contains(isolation)
    else { return nil }
    var record = InstalledRecord(id: id, release: release)
    record.state = state
    record.isPinned = isPinned
    record.isRequired = isRequired
    record.isolation = isolation
    if let previous = json["previous"] {
      guard let release = Self.release(previous) else { return nil }
      record.previous = release
    }
    if let quarantine = json["quarantine"] {
      guard let reason = quarantine.text else { return nil }
      record.quarantine = reason
    }
    return record
  }

  // What is read here names folders, so nothing but the forms of versions and digests is taken.
  private static func release(_ json: JSON) -> InstalledRelease? {
    guard let version = json["version"]?.text, Names.isVersion(version),
      let digest = json["digest"]?.text, isDigest(digest), let signer = json["signer"]
    else { return nil }
    var release = InstalledRelease(version: version, digest: digest)
    if let sidecar = json["sidecar"] {
      guard let text = sidecar.text, isDigest(text) else { return nil }
      release.sidecar = text
    }
    if signer != .null {
      guard let text = signer.text, let key = try? SignerKey(text) else { return nil }
      release.signer = key
    }
    return release
  }

  private static func isDigest(_ text: String) -> Bool {
    text.utf8.count == 64
      && text.utf8.allSatisfy {
        (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0)
          || (UInt8(ascii: "a")...UInt8(ascii: "f")).contains($0)
      }
  }

  private static func damaged(_ path: String, _ why: String) -> PerdureError {
    PerdureError(
      .invalidConfiguration,
      "the lock file \(path) is damaged",
      hint: "put a copy of it back, or move it away and install the plugins again;"
        + " --no-plugins runs without them",
      cause: why
    )
  }

  // MARK: Writing

  /// The file, a line for each plugin, so that people can read and compare it.
  var bytes: [UInt8] {
    let plugins = plugins.map { "    " + $0.json.compactText }.joined(separator: ",\n")
    let signers = signers.sorted { $0.key < $1.key }
      .map { "    \"\($0.key)\": \"\($0.value.text)\"" }.joined(separator: ",\n")
    func block(_ text: String, _ open: String, _ close: String) -> String {
      text.isEmpty ? open + close : "\(open)\n\(text)\n  \(close)"
    }
    return Array(
      """
      {
        "version": \(Self.version),
        "plugins": \(block(plugins, "[", "]")),
        "signers": \(block(signers, "{", "}"))
      }

      """.utf8
    )
  }
}
