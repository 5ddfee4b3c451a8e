public import PerdureModel
import PerdurePluginHost
public import PerdureValue

/// Where the code of a plugin runs.
public enum Isolation: String, Sendable, CaseIterable {
  /// Where the plugin asks for. One that does not mind runs in this process, as a build that is
  /// being developed does.
  case auto
  /// In this process.
  case inProcess = "in-process"
  /// In a process of its own.
  case runner
}

/// What a plugin's file says about itself, read without running any of its code.
public struct PluginInspection: Sendable {
  private let description: PluginDescription

  /// Reads a file; throws `pluginRefused` if it is no plugin that this version could load.
  public init(path: String) throws { description = try PluginFiles.inspect(path: path) }

  /// Whether a plugin may have this id.
  package static func isID(_ text: String) -> Bool {
    Names.isPluginID(text) && !Names.isReserved(text)
  }

  /// The name under which its extension is selected.
  public var id: String { description.manifest.id }
  public var version: String { description.manifest.version }
  /// SHA-256 of the file, in hexadecimal.
  public var digest: String { description.digest }
  /// The names of its tools, each with whether it may replace another plugin's tool.
  public var tools: [(name: String, overrides: Bool)] {
    description.manifest.tools.map { ($0.name, $0.overrides) }
  }
  /// What an installed plugin would be refused for, and what this version does not serve yet.
  public var warnings: [String] { description.warnings }
  /// `path`, `digest`, `bytes`, `note`, `manifest`, `sidecar`, `exports`, `needed`, `warnings`.
  public var json: JSON { description.json }
}

/// A plugin that is loaded; its tools are those of `contribution`.
public final class Plugin: Sendable {
  let loaded: LoadedPlugin

  private init(_ loaded: LoadedPlugin) { self.loaded = loaded }

  /// Loads a plugin; the caller closes it after the harness that uses it.
  ///
  /// Throws `pluginRefused` with one sentence if it cannot be loaded, or not in that way. What it
  /// logs and does wrong goes to `onReport`, what it measures to `onMetric`; `secret` gives the value
  /// that is bound to one of the secrets that its manifest asks for, or `nil`.
  public static func load(
    path: String,
    isolation: Isolation = .auto,
    clock: any HostClock = SystemClock(),
    secret: @escaping @Sendable (_ plugin: String, _ name: String) -> String? = { _, _ in nil },
    onMetric: @escaping @Sendable (PluginMeasurement) -> Void = { _ in },
    onReport: @escaping @Sendable (Report) -> Void = { _ in }
  ) async throws -> Plugin {
    var environment = try environment(clock: clock, onReport: onReport)
    environment.secret = secret
    environment.metric = { onMetric(PluginMeasurement($0)) }
    return try await load(path: path, isolation: isolation, environment)
  }

  /// Loads a plugin with all that it is given.
  static func load(
    path: String,
    isolation: Isolation,
    _ environment: PluginEnvironment
  ) async throws -> Plugin {
    let place: PluginPlace =
      switch isolation {
      case .auto: .auto
      case .inProcess: .inProcess
      case .runner: .runner
      }
    return Plugin(
      try await PluginFiles.load(path: path, place: place, environment: environment)
    )
  }

  /// Makes what a plugin brings without running any of its code, because it did harm before.
  ///
  /// Its guards deny, its tools are unavailable, and its tasks wait until it is loaded. Throws
  /// `pluginRefused` if the file is no plugin that could be loaded.
  public static func quarantined(
    path: String,
    _ reason: String,
    onReport: @escaping @Sendable (Report) -> Void = { _ in }
  ) throws -> Plugin {
    try quarantined(path: path, reason, try environment(clock: SystemClock(), onReport: onReport))
  }

  /// The same with all that it is given.
  static func quarantined(
    path: String,
    _ reason: String,
    _ environment: PluginEnvironment
  ) throws -> Plugin {
    Plugin(
      try PluginFiles.loadQuarantined(path: path, reason: reason, environment: environment)
    )
  }

  /// What every plugin of this process is given.
  static func environment(
    clock: any HostClock,
    onReport: @escaping @Sendable (Report) -> Void
  ) throws(PerdureError) -> PluginEnvironment {
    PluginEnvironment(
      clock: clock,
      copies: try copies(),
      hostVersion: PerdureVersion.perdure,
      report: onReport,
      checkSchema: { _ = try JSONSchema(compiling: $0) }
    )
  }

  static func copies() throws(PerdureError) -> String {
    if let cache = HostText.folderVariable("XDG_CACHE_HOME") { return cache + "/perdure/loaded" }
    if let home = HostText.folderVariable("HOME") { return home + "/.cache/perdure/loaded" }
    throw PerdureError(
      .invalidConfiguration,
      "there is no folder for the private copies of plugins",
      hint: "set HOME or XDG_CACHE_HOME to an absolute path"
    )
  }

  /// What the engine is given.
  public var contribution: Extension { loaded.extensionValue }
  /// Calls `follower` with the whole contribution whenever the plugin registers or takes back
  /// something while it runs; a host installs it anew.
  public func onRegistration(_ follower: @escaping @Sendable (Extension) -> Void) {
    loaded.follow(follower)
  }
  /// SHA-256 of the file, in hexadecimal.
  public var digest: String { loaded.digest }
  /// What an installed plugin would be refused for, and what this version does not serve yet.
  public var warnings: [String] { loaded.warnings }
  /// Where it runs.
  public var isolation: Isolation { loaded.isIsolated ? .runner : .inProcess }
  /// Why nobody runs it, or `nil`: its process died too often, or it was not to be run at all.
  public var quarantine: String? { loaded.quarantine }

  /// Starts a plugin again that was given up because its process died too often.
  public func clearQuarantine() { loaded.clearQuarantine() }

  /// Ends the plugin; returns what did not go as it should, in sentences.
  @discardableResult
  public func close() async -> [String] { await loaded.close() }
}
