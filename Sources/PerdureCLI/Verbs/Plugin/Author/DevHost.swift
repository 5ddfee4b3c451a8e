import Perdure
import PerdureModel
import PerdureValue

/// A host that runs with the newest build of one plugin, as a host that serves does with an installed
/// one.
final class DevHost: Sendable {
  let host: RunningHost
  let shelf: ScriptShelf
  private let installed: InstalledPlugins

  private init(_ host: RunningHost, _ shelf: ScriptShelf, _ installed: InstalledPlugins) {
    self.host = host
    self.shelf = shelf
    self.installed = installed
  }

  /// Played where nobody has written a script.
  private static let silence =
    #"{"turns": [{"steps": [{"text": "There is no script beside the plugin."}]}]}"#

  /// Opens a host without a plugin; its files are in `folder`.
  static func open(
    _ address: StoreAddress,
    folder: String,
    scripts: [PluginScript],
    isolation: Isolation,
    reporter: Reporter
  ) async throws -> DevHost {
    var record = RunRecord(model: Models.fauxModel)
    record.pluginFolder = folder + "/plugins"
    record.isolation = isolation
    record.durability = .normal
    let silent = folder + "/silence.json"
    try HostText.write(Array(silence.utf8), to: silent)
    // The first script answers whoever gives this host a prompt from elsewhere.
    let first = scripts.first { (try? Models.play(scriptAt: $0.path)) != nil }?.path ?? silent
    record.faux = first
    let shelf = ScriptShelf(first: try Models.faux(scriptAt: first))
    let store = try await address.open(durability: .normal, isOwn: false)
    let host = try await RunningHost.open(
      store,
      record,
      models: shelf,
      approvals: .deny,
      reporter: reporter
    )
    do {
      if let refusal = host.harness.refusal { throw refusal }
      guard let installed = host.installed else {
        throw PerdureError("internal", "the host of plugin dev has no folder for plugins")
      }
      try host.takeRequests(address, record)
      return DevHost(host, shelf, installed)
    } catch { throw await host.close(after: error) }
  }

  /// Lets a build take the place of the one before; whatever fails leaves that where it was.
  func load(_ library: String, _ plugin: PluginInspection) async throws -> PluginChange {
    let id = plugin.id
    var choices = PluginChoices()
    choices.allowsUnsigned = true
    choices.allowsDowngrade = true
    choices.discardsState = true
    choices.isolation = PluginTestVerb.isolation(of: plugin)
    let known = try installed.list()
    if known.contains(where: { $0.id == id }) {
      return try await installed.upgrade(library, choices)
    }
    let change = try await installed.install(library, choices)
    // It had another id before.
    for other in known { try await installed.uninstall(other.id, .force) }
    return change
  }
}
