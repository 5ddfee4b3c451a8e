import PerdureEngine
import PerdureModel
import PerdurePluginHost
import Synchronization

/// Changes that reach the harness at once.
extension InstalledPlugins {
  /// Installs the plugin at `path`, a library or a folder with one, and loads it.
  ///
  /// Throws `pluginRefused` if it must not be installed here, if its id is, or if it does not start.
  @discardableResult
  public func install(
    _ path: String,
    _ choices: PluginChoices = PluginChoices()
  ) async throws -> PluginChange {
    try await inTurn { [self] in
      try await carryOut(try installation.planInstall(path, choices), .install)
    }
  }

  /// Lets another version take the place of a plugin.
  ///
  /// It is loaded beside the old one, gets its settings and the state that the old one hands over,
  /// tests itself, and takes over in one step. Calls that are under way end on the old version, which
  /// is closed then.
  @discardableResult
  public func upgrade(
    _ path: String,
    _ choices: PluginChoices = PluginChoices()
  ) async throws -> PluginChange {
    try await inTurn { [self] in
      let plan = try installation.planUpgrade(path, choices)
      return try await carryOut(plan, .upgrade, discardsState: choices.discardsState)
    }
  }

  /// Goes back to the version before, in the way of an upgrade; once more leads forward again.
  ///
  /// It starts without the state if it does not know the form of it.
  @discardableResult
  public func rollback(_ id: String) async throws -> PluginChange {
    try await inTurn { [self] in
      let plan = try installation.base.planRollback(id)
      return try await carryOut(plan, .upgrade, discardsState: true)
    }
  }

  /// Removes a plugin.
  ///
  /// Throws `pluginInUse` with what needs it, unless `removal` says otherwise. Its code stays mapped
  /// until the host ends.
  @discardableResult
  public func uninstall(
    _ id: String,
    _ removal: PluginRemoval = .refuse
  ) async throws -> PluginChange {
    try await inTurn { [self] in
      try await remove(try ending(id) { try installation.base.planUninstall(id) }, removal)
    }
  }

  /// Loads a plugin that is installed, with these choices.
  @discardableResult
  public func enable(
    _ id: String,
    _ choices: PluginChoices = PluginChoices()
  ) async throws -> PluginChange {
    try await inTurn { [self] in
      try await carryOut(try installation.planEnable(id, choices), .install)
    }
  }

  /// Takes a plugin out of use and leaves it installed; calls that are under way end first.
  ///
  /// Its tasks are blocked until it is enabled again.
  @discardableResult
  public func disable(_ id: String) async throws -> PluginChange {
    try await inTurn { [self] in
      let plan = try ending(id) { try installation.planDisable(id) }
      let blocked = try await users(of: id).tasks
      var change = try await remove(plan, .drain, keepsTasks: false)
      change.blockedTasks = blocked.map { $0.id }
      return change
    }
  }

  /// Runs changes one after another, to their ends whoever waits for them.
  private func inTurn<Value: Sendable>(
    _ body: @escaping @Sendable () async throws -> Value
  ) async throws -> Value {
    guard let task = queue(body) else {
      throw PerdureError(.closed, "the plugins of this host are closed")
    }
    return try await task.value
  }

  /// Begins a change when those before it have ended; `nil` once all is closed, which waits for it.
  @discardableResult
  private func queue<Value: Sendable>(
    _ body: @escaping @Sendable () async throws -> Value
  ) -> Task<Value, any Error>? {
    state.withLock { state in
      if state.isClosed { return nil }
      let last = state.lastChange
      let task = Task {
        await last?.value
        return try await body()
      }
      state.lastChange = Task { _ = await task.result }
      return task
    }
  }

  // MARK: Quarantine

  /// Notes in the folder that nobody is to run a version, for hosts that come after this one.
  func keepQuarantine(_ record: InstalledRecord, _ reason: String) {
    queue { [self] in
      do {
        let base = installation.base
        guard let plan = try base.planQuarantine(record.id, record.release, reason) else { return }
        try await base.commit(plan)
      } catch {
        options.onReport(
          Report(
            type: "extension_error",
            message: "the quarantine of plugin \(record.id) could not be noted: \(error)",
            extensionName: record.id
          )
        )
      }
    }
  }

  /// Loads what a version brings without running it.
  func quarantined(
    _ path: String,
    _ record: InstalledRecord,
    _ reason: String
  ) throws -> PluginGeneration {
    let plugin = try Plugin.quarantined(path: path, reason, try environment(of: record))
    try check(plugin, record)
    try checkNames(of: plugin)
    if record.quarantine == nil { keepQuarantine(record, reason) }
    options.onReport(
      Report(
        type: "plugin_quarantined",
        message: "plugin \(record.id) is quarantined: \(reason);"
          + " `perdure plugin enable \(record.id)` lets it run again",
        extensionName: record.id
      )
    )
    return PluginGeneration(plugin, record, adapting: options.adapting)
  }

  private func environment(of record: InstalledRecord) throws -> PluginEnvironment {
    var environment = try Plugin.environment(clock: options.clock, onReport: options.onReport)
    environment.isRequired = record.isRequired
    environment.secret = options.secret
    environment.metric = { [onMetric = options.onMetric] in onMetric(PluginMeasurement($0)) }
    environment.quarantined = { [weak self] in self?.keepQuarantine(record, $0) }
    options.configure(&environment)
    return environment
  }

  private func check(_ plugin: Plugin, _ record: InstalledRecord) throws {
    guard plugin.digest != record.release.digest else { return }
    throw PerdureError(
      .pluginRefused,
      "the installed file of the plugin \(record.id) is not the one that was installed",
      hint: "run `perdure plugin verify \(record.id)` and install it again"
    )
  }

  // MARK: Taking over

  private func carryOut(
    _ plan: InstallPlan,
    _ reason: SelfTestReason,
    discardsState: Bool = false
  ) async throws -> PluginChange {
    guard let after = plan.after, after.state == .enabled, let harness = state.withLock(\.harness)
    else {
      try await installation.base.commit(plan)
      return PluginChange(plan)
    }
    let old = state.withLock { $0.generations[plan.id] }
    if let old, old.record.release == after.release, old.record.isolation == after.isolation,
      old.record.isRequired == after.isRequired, old.plugin.quarantine == nil
    {
      try await installation.base.commit(plan)
      if let contribution = old.contribution, plan.before?.isPinned != after.isPinned {
        try harness.engine.registry.install(contribution, isPinned: after.isPinned)
      }
      return PluginChange(plan)
    }
    var change = PluginChange(plan)
    var calls: [String] = []
    do {
      let new = try await activate(path(of: plan, after), after)
      do {
        change.hasLostState = try await handOver(from: old, to: new, discardsState: discardsState)
        try await test(new, reason)
        try await swap(old, new, plan, harness)
        calls = old?.plugin.loaded.liveCalls ?? []
      } catch {
        new.withdraw()
        retire(new, limit: .zero)
        throw error
      }
      if let old { retire(old, limit: options.drainLimit) }
      change.lastCalls = calls
      return change
    } catch {
      throw Self.kept(error, old, plan)
    }
  }

  private func path(of plan: InstallPlan, _ after: InstalledRecord) -> String {
    plan.staged?.library ?? installation.base.library(of: plan.id, after.release)
  }

  /// Loads a version and gives it its settings; it takes no calls by that.
  func activate(_ path: String, _ record: InstalledRecord) async throws -> PluginGeneration {
    let plugin = try await Plugin.load(
      path: path,
      isolation: isolation(of: record),
      environment(of: record)
    )
    do {
      try check(plugin, record)
      try checkNames(of: plugin)
    } catch {
      await plugin.close()
      throw error
    }
    let generation = PluginGeneration(plugin, record, adapting: options.adapting)
    generation.follow(adapting: options.adapting) { [weak self, weak generation] contribution in
      guard let self, let generation else { return }
      self.publish(contribution, of: generation)
    }
    return generation
  }

  /// Gives the harness what a plugin has registered while it runs.
  private func publish(_ contribution: Extension, of generation: PluginGeneration) {
    let id = generation.record.id
    let harness = state.withLock { $0.generations[id] === generation ? $0.harness : nil }
    // Before it is published, its first publication has all that it registered.
    guard let harness else { return }
    do {
      try harness.engine.registry.install(contribution, isPinned: generation.record.isPinned)
    } catch {
      options.onReport(
        Report(type: "extension_error", message: "\(error)", extensionName: id)
      )
    }
  }

  /// Where a plugin runs: what nobody has signed gets a process of its own, unless somebody decides.
  private func isolation(of record: InstalledRecord) -> Isolation {
    let chosen = options.isolation ?? Isolation(rawValue: record.isolation) ?? .auto
    return chosen == .auto && record.release.signer == nil ? .runner : chosen
  }

  private func checkNames(of plugin: Plugin) throws {
    try PluginFiles.checkConflicts(
      of: plugin.loaded.description.manifest,
      with: options.others.map { $0.loaded.description.manifest },
      plugin.loaded.description.path
    )
  }

  /// Hands the state of the old version to the new one; returns whether it was lost.
  private func handOver(
    from old: PluginGeneration?,
    to new: PluginGeneration,
    discardsState: Bool
  ) async throws -> Bool {
    guard let old else { return false }
    // Nobody can ask it any more.
    if old.plugin.loaded.isDown { return old.plugin.loaded.description.manifest.state != nil }
    guard let snapshot = try await old.plugin.loaded.snapshot() else { return false }
    let restores = new.plugin.loaded.description.manifest.state?.restores ?? []
    if discardsState, !restores.contains(snapshot.version) { return true }
    try await new.plugin.loaded.restore(snapshot, from: old.record.release.version)
    return false
  }

  private func test(_ new: PluginGeneration, _ reason: SelfTestReason) async throws {
    let checks = try await new.plugin.loaded.selfTest(reason)
    guard let failed = checks.first(where: { !$0.isGood }) else { return }
    throw PerdureError(
      .pluginRefused,
      "plugin \(new.record.id) \(new.record.release.version) failed its own test '\(failed.name)'",
      hint: "ask the plugin's author",
      cause: failed.message
    )
  }

  /// Lets the new version take the place of the old one, in memory and on disk, or neither.
  private func swap(
    _ old: PluginGeneration?,
    _ new: PluginGeneration,
    _ plan: InstallPlan,
    _ harness: Harness
  ) async throws {
    guard let contribution = new.contribution else { return }
    let registry = harness.engine.registry
    try registry.install(contribution, isPinned: new.record.isPinned)
    do { try await installation.base.commit(plan) } catch {
      if let old, let before = old.contribution {
        try registry.install(before, isPinned: plan.before?.isPinned ?? false)
      } else {
        registry.uninstall(plan.id)
      }
      throw error
    }
    state.withLock { state in
      state.generations[plan.id] = new
      if !state.order.contains(plan.id) { state.order.append(plan.id) }
    }
  }

  /// Closes a version once nobody can call it, and counts it as draining until then.
  private func retire(_ generation: PluginGeneration, limit: Duration) {
    let key = ObjectIdentifier(generation)
    state.withLock { current in
      let work = Task { [self] in
        generation.withdraw()
        _ = await generation.whenUnused(within: limit, on: options.clock)
        let problems = await generation.plugin.close()
        state.withLock { _ = $0.draining.removeValue(forKey: key) }
        for problem in problems {
          options.onReport(
            Report(type: "plugin_closed", message: problem, extensionName: generation.record.id)
          )
        }
      }
      current.draining[key] = (generation, work)
    }
  }

  private static func kept(
    _ error: any Error,
    _ old: PluginGeneration?,
    _ plan: InstallPlan
  ) -> any Error {
    guard var error = error as? PerdureError else { return error }
    if let staged = plan.staged {
      error.message = error.message.replacing(staged.library, with: staged.description.path)
    }
    if let old { error.message += "; version \(old.record.release.version) goes on" }
    return error
  }

  // MARK: Going

  /// Plans the end of a plugin here; one that somebody else has removed from the folder still runs.
  private func ending(_ id: String, _ plan: () throws -> InstallPlan) throws -> InstallPlan {
    do { return try plan() } catch let error as PerdureError where error.code == .notFound {
      guard state.withLock({ $0.generations[id] != nil }) else { throw error }
      return .unchanged(id)
    }
  }

  private func remove(
    _ plan: InstallPlan,
    _ removal: PluginRemoval,
    keepsTasks: Bool = true
  ) async throws -> PluginChange {
    let users = try await users(of: plan.id)
    let isNeeded =
      switch removal {
      case .refuse: !users.calls.isEmpty || !users.tasks.isEmpty
      case .drain: keepsTasks && !users.tasks.isEmpty
      case .force: false
      }
    if isNeeded { throw users.error(plan.id, isDraining: removal == .drain) }
    let old = state.withLock { $0.generations[plan.id] }
    guard let old, let harness = state.withLock(\.harness) else {
      try await installation.base.commit(plan)
      return PluginChange(plan)
    }
    guard harness.engine.registry.uninstall(plan.id) else {
      throw PerdureError(
        .pluginRefused,
        "the plugin \(plan.id) was pinned when this host began, and stays until it ends",
        hint: "restart the host"
      )
    }
    do { try await installation.base.commit(plan) } catch {
      if let contribution = old.contribution {
        try harness.engine.registry.install(contribution, isPinned: plan.before?.isPinned ?? false)
      }
      throw error
    }
    state.withLock { state in
      state.generations[plan.id] = nil
      state.order.removeAll { $0 == plan.id }
    }
    retire(old, limit: removal == .force ? .zero : options.drainLimit)
    var change = PluginChange(plan)
    change.from = old.record.release.version
    change.hasChanged = true
    change.lastCalls = users.calls
    if removal == .force { change.blockedTasks = users.tasks.map { $0.id } }
    return change
  }

  private func users(of id: String) async throws -> PluginUsers {
    let (generation, harness) = state.withLock { ($0.generations[id], $0.harness) }
    guard let generation else { return PluginUsers() }
    var users = PluginUsers(calls: generation.plugin.loaded.liveCalls)
    let manifest = generation.plugin.loaded.description.manifest
    users.tasks = try await harness?.tasks(of: manifest) ?? []
    users.tasks += try await harness?.questions(about: manifest) ?? []
    return users
  }
}
