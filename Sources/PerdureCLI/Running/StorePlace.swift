import Perdure
import PerdureModel

extension RunRecord {
  /// Throws if the model could write what this host trusts: the store, which says how a run goes on,
  /// the plugins, or the programs of this host.
  func requireOutside(_ address: StoreAddress) throws(PerdureError) {
    guard let workingDirectory, sandbox.mode != .none else { return }
    let written = (sandbox.mode == .readonly ? [] : [workingDirectory]) + sandbox.writable
    var trusted: [(what: String, path: String)] = []
    switch address {
    case .memory: break
    case .file(let path), .folder(let path): trusted.append(("store", Self.place(path)))
    }
    if let pluginFolder { trusted.append(("folder of plugins", Self.place(pluginFolder))) }
    trusted += plugins.map { ("plugin", Self.place($0.path)) }
    // The runner and the launcher lie beside this program, or where a variable says.
    let programs = ["PERDURE_RUNNER", "PERDURE_SANDBOX"].compactMap { HostText.variable($0) }
    trusted += (["/proc/self/exe"] + programs).map { ("program", Self.place($0)) }
    for folder in written {
      for (what, path) in trusted where Self.overlap(folder, path) {
        throw PerdureError(
          .invalidConfiguration,
          "the \(what) \(path) lies where the model may write, in \(folder)",
          hint: Self.hint(for: what)
        )
      }
    }
  }

  private static func hint(for what: String) -> String {
    switch what {
    case "store": "keep it elsewhere with --store, or use --sandbox readonly"
    case "folder of plugins": "give --plugins another folder, or --no-plugins"
    default: "keep it elsewhere, or use --sandbox readonly"
    }
  }

  /// Where something is or will be, without links as far as it exists.
  private static func place(_ path: String) -> String {
    if let full = HostText.fullPath(path) { return full }
    let absolute = HostText.absolutePath(path)
    guard let slash = absolute.lastIndex(of: "/"), slash != absolute.startIndex else {
      return absolute
    }
    return place(String(absolute[..<slash])) + absolute[slash...]
  }

  /// Whether one of two paths is the other one or lies in it.
  private static func overlap(_ first: String, _ second: String) -> Bool {
    first == second || first.hasPrefix(second + "/") || second.hasPrefix(first + "/")
      || first == "/"
  }
}
