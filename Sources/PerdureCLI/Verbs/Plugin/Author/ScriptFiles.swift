import Perdure
import PerdureModel

/// The environment of a script: a copy of the folder `NAME.files` beside it, which tools may change.
struct ScriptFiles: Sendable {
  /// Absent for a script without such a folder.
  let environment: EnvironmentChoice?
  private let copy: String?

  private static let most = 10_000

  /// Makes the copy.
  init(_ script: PluginScript) async throws {
    guard HostText.kind(ofPath: script.filesPath) == .folder else {
      (environment, copy) = (nil, nil)
      return
    }
    let folder = try HostText.makeTemporaryFolder()
    do {
      try await Self.fill(folder, from: script.filesPath)
      (environment, copy) = (.directory(at: folder), folder)
    } catch {
      HostText.removeFolder(folder)
      throw error
    }
  }

  /// Removes the copy.
  func remove() {
    if let copy { HostText.removeFolder(copy) }
  }

  private static func fill(_ folder: String, from source: String) async throws {
    let (from, to) = (
      try Environments.directory(at: source), try Environments.directory(at: folder)
    )
    let bounds = ListingBounds(maxEntries: most, maxBytes: 8 << 20, gitignore: false)
    let listing = try await from.listFiles("/", bounds)
    guard !listing.truncated else {
      throw PerdureError(
        .invalidInput,
        "the folder \(source) has too many files",
        hint: "keep it below \(most)"
      )
    }
    for entry in listing.entries {
      switch entry.kind {
      case .directory: try await to.createFolder(entry.path)
      case .file: try await to.writeFile(entry.path, try await from.readBinaryFile(entry.path))
      case .symlink: break
      }
    }
  }
}
