public import PerdureModel
package import PerdurePluginHost

/// A folder in which plugins are installed.
///
/// Whatever is changed here counts for the next host that loads the plugins of the folder. A harness
/// that runs is changed by its `InstalledPlugins`. Any number of processes may use one folder.
public struct PluginInstallation: Sendable {
  package var base: InstallationFolder

  /// Makes a value for a folder, which is created when something is installed.
  public init(folder: String, clock: any HostClock = SystemClock()) {
    base = InstallationFolder(path: folder, clock: clock)
  }

  /// The path of the folder.
  public var folder: String { base.path }

  /// Returns the folder of the user's plugins: `perdure/plugins` in `$XDG_DATA_HOME`, or else in
  /// `~/.local/share`.
  public static func userFolder() throws(PerdureError) -> String {
    if let data = HostText.folderVariable("XDG_DATA_HOME") { return data + "/perdure/plugins" }
    if let home = HostText.folderVariable("HOME") { return home + "/.local/share/perdure/plugins" }
    throw PerdureError(
      .invalidConfiguration,
      "there is no folder for your plugins",
      hint: "set HOME or XDG_DATA_HOME to an absolute path"
    )
  }

  // MARK: Looking

  /// Returns what is installed, by id.
  ///
  /// Throws `invalidConfiguration` if the lock file is damaged.
  public func list() throws -> [InstalledPlugin] {
    try base.read().plugins.map { InstalledPlugin($0, in: base) }
  }

  /// Returns an installed plugin; throws `notFound` for another id.
  public func plugin(_ id: String) throws -> InstalledPlugin {
    InstalledPlugin(try base.installed(id), in: base)
  }

  /// Looks at the files of all plugins, or of one, and returns what is not as it was installed.
  public func verify(_ id: String? = nil) throws -> [PluginProblem] {
    if let id { _ = try base.installed(id) }
    return try base.verify(id).map(PluginProblem.init)
  }

  // MARK: Changing

  /// Installs the plugin at `path`, a library or a folder with one.
  ///
  /// Throws `pluginRefused` if it must not be installed here, or if its id is.
  @discardableResult
  public func install(
    _ path: String,
    _ choices: PluginChoices = PluginChoices()
  ) async throws -> PluginChange {
    try await carryOut(planInstall(path, choices))
  }

  /// Installs another version of an installed plugin, and keeps the present one for a rollback.
  @discardableResult
  public func upgrade(
    _ path: String,
    _ choices: PluginChoices = PluginChoices()
  ) async throws -> PluginChange {
    try await carryOut(planUpgrade(path, choices))
  }

  /// Goes back to the version before; once more leads forward again.
  @discardableResult
  public func rollback(_ id: String) async throws -> PluginChange {
    try await carryOut(base.planRollback(id))
  }

  /// Removes a plugin with its files; whom its id belongs to is remembered.
  @discardableResult
  public func uninstall(_ id: String) async throws -> PluginChange {
    try await carryOut(base.planUninstall(id))
  }

  /// Lets hosts load a plugin, with these choices.
  @discardableResult
  public func enable(
    _ id: String,
    _ choices: PluginChoices = PluginChoices()
  ) async throws -> PluginChange {
    try await carryOut(planEnable(id, choices))
  }

  /// Lets hosts pass a plugin over.
  @discardableResult
  public func disable(_ id: String) async throws -> PluginChange {
    try await carryOut(planDisable(id))
  }

  private func carryOut(_ plan: InstallPlan) async throws -> PluginChange {
    try await base.commit(plan)
    return PluginChange(plan)
  }

  // MARK: Plans

  func planInstall(_ path: String, _ choices: PluginChoices) throws -> InstallPlan {
    try base.planInstall(stage(path, choices), choices.options)
  }

  func planUpgrade(_ path: String, _ choices: PluginChoices) throws -> InstallPlan {
    try base.planUpgrade(stage(path, choices), choices.options)
  }

  func planEnable(_ id: String, _ choices: PluginChoices) throws -> InstallPlan {
    var options = choices.options
    options.state = .enabled
    return try base.planChange(id, options)
  }

  func planDisable(_ id: String) throws -> InstallPlan {
    var options = InstallOptions()
    options.state = .disabled
    return try base.planChange(id, options)
  }

  private func stage(_ path: String, _ choices: PluginChoices) throws -> StagedPlugin {
    let source = try PluginSource(path: path, signature: choices.signaturePath)
    return try base.stage(source, choices.trust)
  }
}
