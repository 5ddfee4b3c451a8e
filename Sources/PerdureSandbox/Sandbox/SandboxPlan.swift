import Glibc
import PerdureModel
import PerdureValue

/// A policy with what it names looked up on this machine.
struct SandboxPlan: Sendable {
  /// As whom commands run.
  enum Identity: Sendable, Equatable {
    /// As this process.
    case own
    /// As root of a range of ids that nobody has.
    case foreign
    /// As the owner of the workspace, because this process is root and the owner is not.
    case owner(FileUser)
  }

  /// Something of the host that is shown.
  struct Place: Sendable {
    var inside: VirtualPath
    var outside: String
    var file: Descriptor
    var identity: FileIdentity
    var isFolder: Bool
    var isWritable: Bool

    /// Whether another place is this one or lies in it.
    func contains(_ other: Place) -> Bool {
      identity == other.identity || outside == other.outside
        || other.outside.hasPrefix(outside + "/")
    }
  }

  let policy: SandboxPolicy
  let identity: Identity
  let workspace: Place
  /// What the policy chose to show, the workspace first.
  let chosen: [Place]
  /// All that is shown.
  let places: [Place]
  let temporaryFolder: VirtualPath
  let protected: [VirtualPath]
  let hidden: [VirtualPath]
  let outputs: KeptOutputs
  let variables: [String: String]
  /// Absent but for a network by names.
  let networkRules: NetworkRules?

  var isNamespaces: Bool { policy.tier == .namespaces }
  var home: VirtualPath { temporaryFolder.appending("home") }

  /// Looks everything up; throws a sentence about what is missing or cannot be.
  init(_ policy: SandboxPolicy) throws(PerdureError) {
    try policy.check()
    self.policy = policy
    networkRules = try policy.networkRules()
    let isNamespaces = policy.tier == .namespaces
    let workspace = try Self.place(
      policy.workspace,
      isNamespaces ? VirtualPath(names: ["workspace"]) : nil,
      isWritable: policy.preset != .readOnly,
      "workspace"
    )
    guard workspace.isFolder else {
      throw Self.refused("the workspace \(policy.workspace.quotedForMessage) is no folder")
    }
    self.workspace = workspace
    identity = try Self.identity(workspace, policy)
    let owner: FileUser? = if case .owner(let user) = identity { user } else { nil }
    let scratch: HostScratch
    do {
      scratch = try HostScratch(for: owner)
    } catch {
      throw Self.refused(
        "the host has no place for what the sandbox puts out: \(error.text)",
        hint: "let TMPDIR name a folder that can be written"
      )
    }
    let own = try Self.own(scratch, isNamespaces)
    outputs = KeptOutputs(scratch: scratch, inside: own.outputs.inside)
    temporaryFolder = own.temporary?.inside ?? VirtualPath(names: ["tmp"])
    chosen = [workspace] + (try Self.further(policy))
    let cache = try Self.cache(policy)
    places = chosen + [cache, own.outputs, own.temporary].compactMap { $0 }
    try Self.requireApart(chosen + [cache].compactMap { $0 }, policy)
    protected = policy.preset == .full ? [] : try Self.protected(policy, chosen)
    hidden = try policy.hidden.map { (path) throws(PerdureError) in
      let inside = try Self.inside(workspace.inside, path, "hidden")
      let below = inside.names.dropFirst(workspace.inside.names.count)
      try Self.requireThere(path, VirtualPath(names: Array(below)), in: workspace)
      return inside
    }
    variables = Self.variables(policy, temporaryFolder)
  }

  static func refused(_ message: String, hint: String? = nil) -> PerdureError {
    PerdureError(.sandboxPolicy, message, hint: hint)
  }

  /// Root must not be in the sandbox, and cannot write what others own without its powers.
  private static func identity(
    _ workspace: Place,
    _ policy: SandboxPolicy
  ) throws(PerdureError) -> Identity {
    guard FileUser.isRoot else { return .own }
    guard let owner = try? workspace.file.owner() else {
      throw refused("nobody knows who owns the workspace \(policy.workspace.quotedForMessage)")
    }
    if owner.user != 0 {
      // Root's group must not be in it either.
      return .owner(
        FileUser(user: owner.user, group: owner.group == 0 ? owner.user : owner.group)
      )
    }
    return policy.tier == .namespaces ? .foreign : .own
  }

  private static func own(
    _ scratch: HostScratch,
    _ isNamespaces: Bool
  ) throws(PerdureError) -> (outputs: Place, temporary: Place?) {
    let outputs = try place(
      "\(scratch.path)/\(HostScratch.outputs)",
      isNamespaces ? VirtualPath(names: ["run", "output"]) : nil,
      isWritable: false,
      "folder of outputs"
    )
    if isNamespaces { return (outputs, nil) }
    let path = "\(scratch.path)/\(HostScratch.temporary)"
    return (outputs, try place(path, nil, isWritable: true, "folder for temporary files"))
  }

  private static func further(_ policy: SandboxPolicy) throws(PerdureError) -> [Place] {
    var places: [Place] = []
    for path in policy.readable {
      places.append(try place(path, nil, isWritable: false, "readable path"))
    }
    for path in policy.writable {
      places.append(try place(path, nil, isWritable: true, "writable path"))
    }
    return places
  }

  /// Refuses what would be shown a second time, where nothing hides or protects its parts.
  private static func requireApart(
    _ places: [Place],
    _ policy: SandboxPolicy
  ) throws(PerdureError) {
    let workspace = places[0]
    for (index, place) in places.enumerated().dropFirst() {
      let others = places[..<index].filter { other in
        let isWritten = place.isWritable && other.isWritable
        // What hides parts of the workspace hides them there alone.
        let isWorkspace = other.outside == workspace.outside
        return isWritten || isWorkspace && (place.isWritable || !policy.hidden.isEmpty)
      }
      for other in others where place.contains(other) || other.contains(place) {
        let (outer, inner) = place.contains(other) ? (place, other) : (other, place)
        throw refused(
          "the sandbox would show \(inner.outside) twice, because \(outer.outside) holds it",
          hint: "show one of them, or choose a workspace and paths that lie apart"
        )
      }
    }
  }

  /// Refuses to hide what is not there: a name that was mistyped would hide nothing.
  private static func requireThere(
    _ path: String,
    _ below: VirtualPath,
    in workspace: Place
  ) throws(PerdureError) {
    let entry: TreeEntry
    do throws(SystemFailure) {
      entry = try workspace.file.open(below.below, link: true, reach: .noLinks).entry()
    } catch {
      throw PerdureError(
        .sandboxPolicy,
        "the path \(path.quotedForMessage) cannot be hidden, because it cannot be found",
        hint: "name what is in the workspace \(workspace.outside), by a path without links",
        cause: error.text
      )
    }
    guard entry.kind == .file || entry.kind == .folder else {
      throw refused(
        "the path \(path.quotedForMessage) cannot be hidden, because it is no file or folder",
        hint: "hide what a link leads to, by its own path"
      )
    }
  }

  private static func cache(_ policy: SandboxPolicy) throws(PerdureError) -> Place? {
    guard let cache = policy.cache else { return nil }
    let inside = policy.tier == .namespaces ? VirtualPath(names: ["cache"]) : nil
    return try place(cache, inside, isWritable: true, "cache")
  }

  /// Opens something of the host; without a path inside it is shown where it is.
  private static func place(
    _ path: String,
    _ inside: VirtualPath?,
    isWritable: Bool,
    _ what: String
  ) throws(PerdureError) -> Place {
    do throws(SystemFailure) {
      guard path.hasPrefix("/") || what == "workspace", !path.utf8.contains(0) else {
        throw SystemFailure(Int32(EINVAL))
      }
      let file = try Descriptor.anything(at: path)
      let entry = try file.entry()
      let outside = try file.systemPath()
      guard entry.kind == .file || entry.kind == .folder, outside != "/" else {
        throw SystemFailure(Int32(EINVAL))
      }
      let shown = try? VirtualPath(outside, from: .root)
      return Place(
        inside: inside ?? shown ?? .root,
        outside: outside,
        file: file,
        identity: entry.identity,
        isFolder: entry.kind == .folder,
        isWritable: isWritable
      )
    } catch {
      throw PerdureError(
        .sandboxPolicy,
        "the \(what) \(path.quotedForMessage) cannot be shown to a sandbox",
        hint:
          "name an existing folder or file by an absolute path, and not the root of the machine",
        cause: error.text
      )
    }
  }

  private static func inside(
    _ base: VirtualPath,
    _ path: String,
    _ what: String
  ) throws(PerdureError) -> VirtualPath {
    guard !path.hasPrefix("/"), let below = try? VirtualPath(path, from: .root),
      !below.names.isEmpty,
      !path.split(separator: "/").contains("..")
    else {
      throw refused(
        "the \(what) path \(path.quotedForMessage) is none in the workspace",
        hint: "give a path that begins in the workspace"
      )
    }
    return VirtualPath(names: base.names + below.names)
  }

  /// The protected paths of every folder that is written; one that is itself a `.git` is no exception.
  private static func protected(
    _ policy: SandboxPolicy,
    _ places: [Place]
  ) throws(PerdureError) -> [VirtualPath] {
    var paths: [VirtualPath] = []
    for place in places
    where place.isFolder && (place.isWritable || place.inside == places[0].inside) {
      for path in policy.protected {
        paths.append(try inside(place.inside, path, "protected"))
        let parts = path.split(separator: "/").map { String($0) }
        if parts.count > 1, parts.first == place.inside.name {
          paths.append(VirtualPath(names: place.inside.names + parts.dropFirst()))
        }
      }
    }
    return paths
  }

  /// Returns where a launcher is without a link on the way; refuses one that commands could put another
  /// one in the place of.
  func outside(_ launcher: String) throws(PerdureError) -> String {
    guard let path = try? Descriptor.anything(at: launcher).systemPath() else {
      throw PerdureError(
        .sandboxUnavailable,
        "the launcher of sandboxes \(launcher.quotedForMessage) cannot be opened",
        hint: "install it where this program can read it"
      )
    }
    var names = [path]
    // A link to it could be led elsewhere before the sandbox is built again.
    let parts = launcher.split(separator: "/")
    let folder = "/" + parts.dropLast().joined(separator: "/")
    if let name = parts.last, let above = try? Descriptor.anything(at: folder).systemPath() {
      names.append("\(above)/\(name)")
    }
    for name in names {
      for place in places where place.isWritable {
        guard name == place.outside || name.hasPrefix(place.outside + "/") else { continue }
        throw Self.refused(
          "the launcher of sandboxes \(name) lies where the sandbox may write, in \(place.outside)",
          hint: "install it elsewhere"
        )
      }
    }
    return path
  }

  /// Refuses a plan of the same policy that found something else than this one did.
  func requireSame(_ other: SandboxPlan) throws(PerdureError) {
    for (first, second) in zip(shown, other.shown)
    where first.outside != second.outside || first.identity != second.identity {
      throw Self.refused(
        "\(second.outside) is not what the sandbox showed before as \(first.inside.text)",
        hint: "put \(first.outside) back, or begin anew with the other one"
      )
    }
  }

  /// What the policy names, the cache last.
  private var shown: [Place] { Array(places[..<(chosen.count + (policy.cache == nil ? 0 : 1))]) }

  private static func variables(
    _ policy: SandboxPolicy,
    _ temporaryFolder: VirtualPath
  ) -> [String: String] {
    let home = temporaryFolder.appending("home").text
    var variables = [
      "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME": home,
      "TMPDIR": temporaryFolder.text, "LANG": "C.UTF-8", "TERM": "dumb",
    ]
    // What may not be looked at is an error to git, where what is missing is none.
    if policy.tier == .landlock { variables["GIT_CONFIG_NOSYSTEM"] = "1" }
    if case .allow = policy.network {
      let proxy = "http://127.0.0.1:\(NetworkGate.port)"
      for name in ["http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"] {
        variables[name] = proxy
      }
      // Nothing of the network is reached without it.
      for name in ["no_proxy", "NO_PROXY"] { variables[name] = "" }
    }
    if let cache = policy.cache.map({ policy.tier == .namespaces ? "/cache" : $0 }) {
      for (name, part) in [
        ("XDG_CACHE_HOME", "xdg"), ("npm_config_cache", "npm"), ("CARGO_HOME", "cargo"),
        ("GOCACHE", "go"), ("PIP_CACHE_DIR", "pip"),
      ] { variables[name] = "\(cache)/\(part)" }
    }
    return variables.merging(policy.variables) { $1 }
  }
}

extension SandboxPolicy {
  /// Refuses what no machine could give.
  fileprivate func check() throws(PerdureError) {
    if tier == .landlock, case .allow = network {
      throw PerdureError(
        .sandboxPolicy,
        "the tier landlock cannot tell one host of a network from another",
        hint: "use the network off or host, or the tier namespaces"
      )
    }
    if tier == .landlock, network == .loopback {
      throw PerdureError(
        .sandboxPolicy,
        "the tier landlock has no loopback of its own",
        hint: "use the network off or host, or the tier namespaces"
      )
    }
    if tier == .landlock, !hidden.isEmpty {
      throw PerdureError(
        .sandboxPolicy,
        "the tier landlock cannot hide a path",
        hint: "hide nothing, or use the tier namespaces"
      )
    }
    for seconds in [limits.seconds, limits.mostSeconds, limits.grace] {
      guard seconds.isFinite, seconds >= 0, seconds <= ExecutionOptions.maxTimeout else {
        throw PerdureError(
          .sandboxPolicy,
          "\(seconds) is no number of seconds for a limit",
          hint: "give 0 or more, up to \(ExecutionOptions.maxTimeout)"
        )
      }
    }
  }

  fileprivate func networkRules() throws(PerdureError) -> NetworkRules? {
    guard case .allow(let texts) = network else { return nil }
    return try NetworkRules(texts)
  }

  /// What is required where the policy does not say it: all that the tier can give.
  var guarantees: Set<Guarantee> {
    if let requires { return requires }
    var all: Set<Guarantee> =
      tier == .namespaces
      ? Set(Guarantee.allCases) : [.fsRead, .fsWrite, .network, .signals, .killTree, .memoryLimit]
    if network == .host { all.remove(.network) }
    if limits.memory == 0 { all.remove(.memoryLimit) }
    if limits.processes == 0 { all.remove(.processLimit) }
    return all
  }
}
