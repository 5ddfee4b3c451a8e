import Perdure

/// Which plugins crashed an earlier process: those are not run until somebody wants them again.
///
/// Only plugins in the process of the host leave a mark; the others cannot crash it.
enum PluginCrashes {
  /// Where the marks are: a file for each plugin, which says what it was doing.
  private static var folder: String? {
    if let state = HostText.folderVariable("XDG_STATE_HOME") { return state + "/perdure/crashes" }
    return HostText.folderVariable("HOME").map { $0 + "/.local/state/perdure/crashes" }
  }

  private static func mark(_ id: String) -> String? {
    // Ids of plugins are names of files; a record of another version may hold anything.
    guard !id.isEmpty, !id.contains("/"), !id.hasPrefix(".") else { return nil }
    return folder.map { "\($0)/\(id)" }
  }

  /// Lets crashes from here on leave marks; without a folder for them there are none.
  static func keep() {
    guard let folder, (try? HostText.makeFolders(folder)) != nil else { return }
    HostText.keepCrashes(in: folder)
  }

  /// What the plugin was doing when it crashed an earlier process, or `nil` if it did not.
  static func culprit(_ id: String) -> String? {
    guard let mark = mark(id), HostText.kind(ofPath: mark) == .file,
      let bytes = try? HostText.file(at: mark, called: "the mark", limit: 4_096)
    else { return nil }
    return String(decoding: bytes, as: UTF8.self)
  }

  /// Takes the mark of a plugin away.
  static func forget(_ id: String) {
    if let mark = mark(id), HostText.kind(ofPath: mark) == .file { HostText.removeFile(mark) }
  }

  /// Why a plugin is not run.
  static func reason(_ target: String) -> String {
    "it crashed an earlier process in \(target)"
  }

  /// Says that a plugin is not run.
  static func sentence(_ file: RunRecord.PluginFile, _ target: String) -> String {
    "safe mode: plugin \(file.id) is not run, because \(reason(target));"
      + " give --plugin \(ShellWord.quoted(file.path)) to use it again,"
      + " or with --isolation runner in a process of its own"
  }

  /// The installed plugins that crashed an earlier process and would run in this one, with the reasons.
  static func suspects(
    in installation: PluginInstallation,
    _ isolation: Isolation
  ) throws -> [String: String] {
    var suspects: [String: String] = [:]
    for plugin in try installation.list() where plugin.state == .enabled {
      guard let target = culprit(plugin.id) else { continue }
      let isIsolated = isolation == .runner || plugin.isolation == .runner
      // From there it can do no harm.
      if !isIsolated { suspects[plugin.id] = reason(target) }
    }
    return suspects
  }
}
