package import PerdureModel
import PerdureValue

/// The folder in which plugins are installed, with the lock file that says which.
///
///     FOLDER/plugins.lock.json
///     FOLDER/acme.crawl/1.4.0-0f3c…/plugin.so, plugin.so.minisig, plugin.perdure.json, …
///
/// What the lock file does not name does not count: a version is complete and on disk before the
/// lock file names it, and the lock file is replaced in one step. So a process may die anywhere.
package struct InstallationFolder: Sendable {
  /// Its path.
  package let path: String
  /// Time for waiting for other processes.
  let clock: any HostClock
  /// Is told of each step before it is taken; tests die there.
  package var onStep: @Sendable (String) -> Void = { _ in }

  private static let lockNanoseconds: Int64 = 10_000_000_000
  private static let pauseNanoseconds: Int64 = 20_000_000
  private static let stagingTries = 100
  private static let staging = ".staging-"
  private static let discarded = ".discarded-"

  /// Makes a value for a folder, which need not exist.
  package init(path: String, clock: any HostClock) {
    self.path = path
    self.clock = clock
  }

  /// The path of the lock file.
  package var lockPath: String { "\(path)/\(LockFile.name)" }

  static func library(in folder: String) -> String { folder + "/plugin.so" }
  static func sidecar(in folder: String) -> String { folder + "/plugin.perdure.json" }
  static func signature(of file: String) -> String { file + ".minisig" }

  /// The folder of a version.
  func folder(of id: String, _ release: InstalledRelease) -> String {
    "\(path)/\(id)/\(release.folder)"
  }

  /// The path of the library of a version.
  package func library(of id: String, _ release: InstalledRelease) -> String {
    Self.library(in: folder(of: id, release))
  }

  /// Reads what is installed; nothing is if there is no lock file.
  package func read() throws(PerdureError) -> LockFile {
    guard InstallationAccess.isFolder(path) else { return LockFile() }
    try InstallationAccess.checkOwner(path)
    guard let bytes = try FileAccess.readIfPresent(lockPath, limit: LockFile.limit) else {
      return LockFile()
    }
    return try LockFile(bytes, path: lockPath)
  }

  // MARK: Staging

  /// Checks a plugin and copies its files beside the installed ones; nothing is installed by that.
  ///
  /// Throws `plugin_refused` with one sentence for a plugin that must not be installed.
  package func stage(
    _ source: PluginSource,
    _ trust: TrustOptions
  ) throws(PerdureError) -> StagedPlugin {
    let examined = try PluginFiles.examine(path: source.library)
    let description = examined.description
    let id = description.manifest.id
    try PluginFiles.checkInstallable(description)
    let sidecar = try sidecar(of: source, description)
    let pinned = try read().signers[id]
    let judge = Trust(id: id, path: source.library, pinned: pinned, options: trust)
    let signatures = try signatures(of: source, hasSidecar: sidecar != nil)
    let signer = try judge.signer(of: examined.bytes, signatures.library, beside: source.keyBeside)
    try checkClaims(signatures, description, sidecar, signer, source)
    var release = InstalledRelease(
      version: description.manifest.version,
      digest: description.digest,
      signer: signer
    )
    release.sidecar = sidecar.map { FileAccess.digest($0) }
    let (folder, lock) = try makeStagingFolder()
    let staged = StagedPlugin(
      description,
      release,
      isFirstUse: signer != nil && pinned == nil,
      folder: folder,
      lock: lock
    )
    let library = Self.library(in: folder)
    try put(examined.bytes, library)
    if let sidecar { try put(sidecar, Self.sidecar(in: folder)) }
    if signer != nil {
      try put(signatures.libraryBytes, Self.signature(of: library))
      if sidecar != nil {
        try put(signatures.sidecarBytes, Self.signature(of: Self.sidecar(in: folder)))
      }
    }
    step("flush the staged version")
    try InstallationAccess.sync(folder: folder)
    return staged
  }

  private func put(_ bytes: [UInt8], _ path: String) throws(PerdureError) {
    step("write \(path.split(separator: "/").last ?? "")")
    try InstallationAccess.write(bytes, to: path, mode: 0o444)
  }

  private func makeStagingFolder() throws(PerdureError) -> (String, Int32) {
    try InstallationAccess.makeFolder(path)
    try InstallationAccess.checkOwner(path)
    for _ in 0..<Self.stagingTries {
      let folder = "\(path)/\(Self.staging)\(UInt64.random(in: .min ... .max))"
      step("make the staging folder")
      try InstallationAccess.makeFolder(folder)
      // Held for as long as the process needs it, so that whoever gets it finds a folder of the dead.
      // Until then somebody may take this one for such, and remove it.
      guard let lock = try? InstallationAccess.tryLock(folder, isFolder: true) else { continue }
      if InstallationAccess.exists(folder) { return (folder, lock) }
      InstallationAccess.unlock(lock)
    }
    throw busy
  }

  private func sidecar(
    of source: PluginSource,
    _ description: PluginDescription
  ) throws(PerdureError) -> [UInt8]? {
    guard description.isSidecar else { return nil }
    let bytes = try FileAccess.read(source.sidecar, limit: Manifest.byteLimit + 1)
    guard (try? JSON(parsing: bytes)) == description.manifestJSON else {
      throw PluginFiles.refused(source.library, "was changed while it was read", "try it again")
    }
    return bytes
  }

  struct Signatures {
    var library: SignatureFile?
    var libraryBytes: [UInt8] = []
    var sidecar: SignatureFile?
    var sidecarBytes: [UInt8] = []
  }

  private func signatures(
    of source: PluginSource,
    hasSidecar: Bool
  ) throws(PerdureError) -> Signatures {
    var signatures = Signatures()
    guard let path = source.signature else { return signatures }
    signatures.libraryBytes = try FileAccess.read(path, limit: SignatureFile.limit)
    signatures.library = try SignatureFile(signatures.libraryBytes, path: path)
    let beside = Self.signature(of: source.sidecar)
    if hasSidecar,
      let bytes = try FileAccess.readIfPresent(beside, limit: SignatureFile.limit)
    {
      signatures.sidecarBytes = bytes
      signatures.sidecar = try SignatureFile(bytes, path: beside)
    }
    return signatures
  }

  /// What signers say of their files has to be so, or one signed file could stand for another.
  private func checkClaims(
    _ signatures: Signatures,
    _ description: PluginDescription,
    _ sidecar: [UInt8]?,
    _ signer: SignerKey?,
    _ source: PluginSource
  ) throws(PerdureError) {
    guard let signer, let signature = signatures.library else { return }
    let facts = [
      ("plugin", description.manifest.id), ("version", description.manifest.version),
      ("sha256", description.digest),
    ]
    for (name, fact) in facts {
      guard let claim = signature.claim(name), claim != fact else { continue }
      throw PluginFiles.refused(
        source.library,
        "was signed as one with the \(name) \(claim), and has \(fact)",
        "get the plugin and its .minisig again from whoever publishes it"
      )
    }
    guard let sidecar else { return }
    guard let beside = signatures.sidecar, beside.isGood(for: sidecar, by: signer),
      beside.claim("library") == description.digest
    else {
      throw PluginFiles.refused(
        source.library,
        "is signed, and the manifest beside it is not signed for it",
        "sign it too, with the trusted comment library:\(description.digest)"
      )
    }
  }

  // MARK: Changing

  /// Puts `record` in the place of what is installed under its id, in one step that lasts.
  ///
  /// Throws `pluginsBusy` if that is not `expected` any more, and what `check` throws for the
  /// rest; then nothing is changed.
  package func replace(
    _ id: String,
    expecting expected: InstalledRecord?,
    with record: InstalledRecord?,
    staged: StagedPlugin? = nil,
    check: (LockFile) throws -> Void = { _ in }
  ) async throws {
    try await exclusively {
      var file = try read()
      guard file[id] == expected else {
        throw PerdureError(
          .pluginsBusy,
          "another process has changed the plugin \(id) meanwhile",
          hint: "look at it with 'perdure plugin info \(id)' and try it again"
        )
      }
      try check(file)
      if let staged, let record { try moveIn(staged, record) }
      file[id] = record
      // Whoever goes back to a version trusts its signer again.
      if let record, staged != nil || record.release != expected?.release {
        file.signers[id] = record.release.signer
      }
      try write(file)
      sweep(file)
    }
  }

  private func moveIn(_ staged: StagedPlugin, _ record: InstalledRecord) throws(PerdureError) {
    let target = folder(of: record.id, record.release)
    let parent = "\(path)/\(record.id)"
    step("make the folder of the plugin")
    try InstallationAccess.makeFolder(parent)
    if InstallationAccess.exists(target) {
      guard problem(of: record.id, record.release) != nil else { return }
      step("move the damaged version away")
      try InstallationAccess.rename(
        target,
        "\(path)/\(Self.discarded)\(UInt64.random(in: .min ... .max))"
      )
    }
    step("move the version in")
    try InstallationAccess.rename(staged.folder, target)
    step("flush the folder of the plugin")
    try InstallationAccess.sync(folder: parent)
  }

  private func write(_ file: LockFile) throws(PerdureError) {
    let temporary = "\(path)/.\(LockFile.name).new"
    step("write the lock file")
    try InstallationAccess.write(file.bytes, to: temporary, mode: 0o600)
    step("replace the lock file")
    try InstallationAccess.rename(temporary, lockPath)
    step("flush the installation folder")
    try InstallationAccess.sync(folder: path)
  }

  /// Removes what is not installed: versions nobody goes back to, and what dead processes left.
  private func sweep(_ file: LockFile) {
    for name in InstallationAccess.names(in: path) {
      let item = "\(path)/\(name)"
      if name.hasPrefix(Self.staging) {
        guard let lock = try? InstallationAccess.tryLock(item, isFolder: true) else { continue }
        step("remove what a dead process left")
        InstallationAccess.remove(folder: item)
        InstallationAccess.unlock(lock)
      } else if name.hasPrefix(Self.discarded) {
        InstallationAccess.remove(folder: item)
      } else if Names.isPluginID(name), InstallationAccess.isFolder(item) {
        let record = file[name]
        let wanted = [record?.release.folder, record?.previous?.folder]
        for version in InstallationAccess.names(in: item) where !wanted.contains(version) {
          step("remove an old version")
          InstallationAccess.remove(folder: "\(item)/\(version)")
        }
        if record == nil { InstallationAccess.remove(folder: item) }
      }
    }
  }

  /// Runs `body` while no other process changes the folder.
  private func exclusively<Value>(_ body: () throws -> Value) async throws -> Value {
    try InstallationAccess.makeFolder(path)
    try InstallationAccess.checkOwner(path)
    let end = clock.monotonic() + Self.lockNanoseconds
    while true {
      if let lock = try InstallationAccess.tryLock(path + "/.lock") {
        defer { InstallationAccess.unlock(lock) }
        return try body()
      }
      guard clock.monotonic() < end, !Task.isCancelled else { throw busy }
      await clock.sleep(nanoseconds: Self.pauseNanoseconds)
    }
  }

  private var busy: PerdureError {
    PerdureError(
      .pluginsBusy,
      "another process is changing the installed plugins in \(path)",
      hint: "wait until it is done, and try it again"
    )
  }

  private func step(_ name: String) { onStep(name) }
}

extension PerdureError.Code {
  /// Others change the installed plugins, or have changed them meanwhile.
  static let pluginsBusy: Self = "plugins_busy"
}
