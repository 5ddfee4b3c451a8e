import PerdureEngine
public import PerdureModel
package import PerdurePluginHost
import Synchronization

/// The installed plugins that a harness runs with, which may change while it runs.
///
///     let plugins = try await InstalledPlugins.load(from: PluginInstallation(folder: folder))
///     let harness = try await Harness.open(
///       store, models: models, extensions: plugins.extensions, pinned: plugins.pinned)
///     try plugins.attach(to: harness)
///     …
///     try await plugins.upgrade("crawl-1.5.so")
///     …
///     try await harness.close()
///     await plugins.close()
///
/// Changes are made one after another. A version takes the place of another one in one step: what
/// runs ends with the code with which it began, what begins later gets the new code. Whatever fails
/// leaves the old version where it was. Changes are recorded in the folder, for the next host.
public final class InstalledPlugins: Sendable {
  /// How plugins are loaded.
  public struct Options: Sendable {
    /// Where all of them run; absent: where each was installed to.
    public var isolation: Isolation?
    /// Other plugins that the same harness gets, with whose names those of these must not clash.
    public var others: [Plugin] = []
    /// The ids that are not loaded, because something else has their place.
    public var excluded: Set<String> = []
    /// How long the last calls of an old version may take before they are cancelled.
    public var drainLimit: Duration = .seconds(600)
    /// Plugins that are not run, with the reasons; what they bring is there, so their guards deny.
    ///
    /// They are quarantined in the folder, too.
    public var suspects: [String: String] = [:]
    /// Gives the value that is bound to a secret of a plugin, or `nil`.
    public var secret: @Sendable (_ plugin: String, _ name: String) -> String? = { _, _ in nil }
    /// Takes what plugins measure.
    public var onMetric: @Sendable (PluginMeasurement) -> Void = { _ in }
    /// Changes what each version brings before the harness gets it.
    public var adapting: @Sendable (Extension) -> Extension = { $0 }
    public var clock: any HostClock = SystemClock()
    /// Gets what plugins log, report and do wrong.
    public var onReport: @Sendable (Report) -> Void = { _ in }
    package var configure: @Sendable (inout PluginEnvironment) -> Void = { _ in }

    /// Makes the default options.
    public init() {}
  }

  struct State {
    var generations: [String: PluginGeneration] = [:]
    /// In the order in which they were loaded.
    var order: [String] = []
    var draining: [ObjectIdentifier: (generation: PluginGeneration, work: Task<Void, Never>)] = [:]
    var harness: Harness?
    var isClosed = false
    var lastChange: Task<Void, Never>?
  }

  /// The folder.
  public let installation: PluginInstallation
  let options: Options
  let state = Mutex(State())

  private init(_ installation: PluginInstallation, _ options: Options) {
    self.installation = installation
    self.options = options
  }

  /// Loads the plugins that are installed and enabled; the caller closes them after the harness.
  ///
  /// Throws `pluginRefused` if one of them cannot be loaded; then none is. Nothing is wrong with a
  /// folder that does not exist.
  public static func load(
    from installation: PluginInstallation,
    _ options: Options = Options()
  ) async throws -> InstalledPlugins {
    let plugins = InstalledPlugins(installation, options)
    do {
      for record in try installation.base.read().plugins
      where record.state == .enabled && !options.excluded.contains(record.id) {
        let path = installation.base.library(of: record.id, record.release)
        let generation: PluginGeneration
        do {
          if let reason = options.suspects[record.id] ?? record.quarantine {
            generation = try plugins.quarantined(path, record, reason)
          } else {
            generation = try await plugins.activate(path, record)
          }
        } catch {
          throw Self.startError(error, record)
        }
        plugins.state.withLock { state in
          state.generations[record.id] = generation
          state.order.append(record.id)
        }
      }
      // What replaces the tools of others comes behind them.
      plugins.state.withLock { state in
        let replacing = state.order.filter { state.generations[$0]?.replacesTools == true }
        state.order.removeAll { replacing.contains($0) }
        state.order += replacing
      }
      return plugins
    } catch {
      await plugins.close()
      throw error
    }
  }

  private static func startError(_ error: any Error, _ record: InstalledRecord) -> any Error {
    guard var error = error as? PerdureError, error.code == .pluginRefused else { return error }
    let hint = "run `perdure plugin disable \(record.id)`, or load none with --no-plugins"
    error.hint = error.hint.map { "\($0); or \(hint)" } ?? hint
    return error
  }

  // MARK: The harness

  /// The ids of what is loaded, in order.
  public var names: [String] { state.withLock { $0.order } }

  /// What a harness is opened with, in order.
  ///
  /// Not to be kept: an old version is closed when nobody holds what it brought.
  public var extensions: [Extension] {
    state.withLock { state in
      state.order.compactMap { state.generations[$0]?.contribution }
    }
  }

  /// The names of those that count in every conversation.
  public var pinned: [String] {
    state.withLock { state in
      state.order.filter { state.generations[$0]?.record.isPinned == true }
    }
  }

  /// Lets changes reach a harness, which has been opened with the extensions of this.
  ///
  /// Throws `invalidConfiguration` if it was not and they do not fit it.
  public func attach(to harness: Harness) throws {
    let known = Set(harness.engine.registry.snapshot.map { $0.name })
    let generations = state.withLock { state in
      state.harness = harness
      return state.order.compactMap { state.generations[$0] }
    }
    for generation in generations where !known.contains(generation.record.id) {
      guard let contribution = generation.contribution else { continue }
      try harness.engine.registry.install(contribution, isPinned: generation.record.isPinned)
    }
  }

  // MARK: Looking

  /// Returns what is installed, by id, with what runs of it, and then what runs on without being so.
  public func list() throws -> [InstalledPlugin] {
    let (generations, draining) = state.withLock { state in
      (state.generations, state.draining.values.map { $0.generation })
    }
    let retired = RetiredCopies.all
    var plugins = try installation.list()
    let known = Set(plugins.map(\.id))
    var left: [String: InstalledRecord] = [:]
    let ending = draining.filter { !$0.running.calls.isEmpty }
    for generation in ending + Array(generations.values)
    where !known.contains(generation.record.id) {
      left[generation.record.id] = generation.record
    }
    plugins += left.values.sorted { $0.id < $1.id }.map { record in
      var plugin = InstalledPlugin(record, in: installation.base)
      plugin.state = .removed
      return plugin
    }
    return plugins.map { plugin in
      var plugin = plugin
      plugin.running = generations[plugin.id]?.running
      plugin.quarantine = generations[plugin.id]?.plugin.quarantine ?? plugin.quarantine
      plugin.draining = draining.filter { $0.record.id == plugin.id }.map { $0.running }
      plugin.retired = retired.count { $0.id == plugin.id }
      return plugin
    }
  }

  /// Returns a plugin that is installed or still runs here; throws `notFound` for another id.
  public func plugin(_ id: String) throws -> InstalledPlugin {
    try list().first { $0.id == id } ?? installation.plugin(id)
  }

  /// Returns when the last calls of all old versions have ended, and these are closed.
  public func waitUntilDrained() async {
    while true {
      let work = state.withLock { $0.draining.values.map { $0.work } }
      if work.isEmpty { return }
      for task in work { await task.value }
    }
  }

  // MARK: The end

  /// Closes all plugins; returns what did not go as it should, in sentences.
  ///
  /// Comes after the end of the harness. The second call does nothing.
  @discardableResult
  public func close() async -> [String] {
    let lastChange = state.withLock { state in
      state.isClosed = true
      return state.lastChange
    }
    await lastChange?.value
    let (generations, work) = state.withLock { state in
      defer {
        state.generations = [:]
        state.harness = nil
      }
      return (
        state.order.compactMap { state.generations[$0] } + state.draining.values.map(\.generation),
        state.draining.values.map(\.work)
      )
    }
    var problems: [String] = []
    for generation in generations {
      generation.withdraw()
      problems += await generation.plugin.close()
    }
    // Whoever keeps an extension keeps its lease, too.
    for task in work { task.cancel() }
    for task in work { await task.value }
    return problems
  }
}
