package import PerdureModel

/// The files of a plugin that is to be installed.
package struct PluginSource: Sendable {
  /// The library.
  package var library: String
  /// The signature of the library; absent if there is none.
  var signature: String?

  /// Finds the plugin at `path`: the file itself, or a folder with one such file in it.
  ///
  /// Its signature is `signature`, or else the file beside it whose name ends with `.so.minisig`.
  package init(path: String, signature: String? = nil) throws(PerdureError) {
    library = path
    if InstallationAccess.isFolder(path) {
      let libraries = InstallationAccess.names(in: path).filter {
        $0.hasSuffix(".so") || $0.hasSuffix(".ffi.json")
      }
      guard let name = libraries.first, libraries.count == 1 else {
        throw PerdureError(
          .pluginRefused,
          "the folder \(path) has \(libraries.isEmpty ? "no file" : "\(libraries.count) files")"
            + " with a name ending with .so or .ffi.json",
          hint: "name the file of the plugin itself"
        )
      }
      library = path.hasSuffix("/") ? path + name : "\(path)/\(name)"
    }
    if let signature {
      guard InstallationAccess.exists(signature) else {
        throw PerdureError(
          .pluginRefused,
          "the signature \(signature) does not exist",
          hint: "check the path given with --sig"
        )
      }
      self.signature = signature
    } else if InstallationAccess.exists(library + ".minisig") {
      self.signature = library + ".minisig"
    }
  }

  var sidecar: String {
    (library.hasSuffix(".so") ? String(library.dropLast(3)) : library) + ".perdure.json"
  }

  /// The key that came with it: `NAME.so.pub` or `minisign.pub` beside the library.
  var keyBeside: SignerKey? {
    let folder = library.lastIndex(of: "/").map { library[...$0] } ?? ""
    for path in [library + ".pub", folder + "minisign.pub"] {
      if let bytes = try? FileAccess.readIfPresent(path, limit: SignatureFile.limit),
        let text = String(validating: bytes, as: UTF8.self), let key = try? SignerKey(text)
      {
        return key
      }
    }
    return nil
  }
}

/// A plugin whose files were checked and lie in the installation folder without being installed.
///
/// They are gone when nobody refers to this any more, unless they were installed.
package final class StagedPlugin: Sendable {
  /// What its file says; the path is that it came from.
  package let description: PluginDescription
  /// What is to be installed.
  package let release: InstalledRelease
  /// Whether its signer is one that nobody had trusted for this id before.
  package let isFirstUse: Bool
  /// The folder with its files.
  let folder: String
  private let lock: Int32

  init(
    _ description: PluginDescription,
    _ release: InstalledRelease,
    isFirstUse: Bool,
    folder: String,
    lock: Int32
  ) {
    self.description = description
    self.release = release
    self.isFirstUse = isFirstUse
    self.folder = folder
    self.lock = lock
  }

  deinit {
    InstallationAccess.remove(folder: folder)
    InstallationAccess.unlock(lock)
  }

  /// The copy of the library that was checked.
  package var library: String { InstallationFolder.library(in: folder) }
}
