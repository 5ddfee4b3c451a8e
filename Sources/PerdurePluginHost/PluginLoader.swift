internal import PerdureModel
package import PerdureValue

extension PluginFiles {
  /// Time for one call of the plugin's life cycle.
  private static let controlNanoseconds: Int64 = 10_000_000_000

  /// Loads the plugin at `path` and makes it ready for calls.
  ///
  /// The file is checked, copied, mapped for ever, entered, activated and given its settings; the
  /// caller owns what it gets and closes it. Throws `plugin_refused` with one sentence.
  package static func load(
    path: String,
    settings: JSONObject? = nil,
    place: PluginPlace = .auto,
    environment: PluginEnvironment
  ) async throws -> LoadedPlugin {
    let examined = try examine(path: path)
    let manifest = examined.description.manifest
    let isIsolated = try place.isIsolated(manifest, path)
    if !isIsolated { try checkRoom(path, environment) }
    try checkServed(manifest, path)
    try checkSchemas(manifest, path, environment.checkSchema)
    let program = isIsolated ? try RunnerLaunch.program(environment.runner, path) : nil
    _ = PrivateCopies.sweep(environment.copies)
    let copy = try PrivateCopies.make(
      of: examined.bytes,
      id: manifest.id,
      digest: examined.description.digest,
      in: environment.copies
    )
    let core = PluginCore(
      manifest: manifest,
      generation: copy.number,
      environment: environment,
      settings: settings ?? manifest.settings?.defaults ?? [:],
      isIsolated: isIsolated
    )
    do {
      return if let program {
        try await isolated(examined.description, core, program, copy: copy.path)
      } else {
        try await mapped(examined.description, core, copy: copy.path)
      }
    } catch {
      core.threads.stop()
      PrivateCopies.remove(copy.path)
      throw error
    }
  }

  private static func mapped(
    _ description: PluginDescription,
    _ core: PluginCore,
    copy: String
  ) async throws -> LoadedPlugin {
    let tables = HostTables(core: core)
    Immortals.keep(tables)
    let code: MappedCode
    do { code = try await enter(copy, core, tables, description) } catch {
      tables.retire()
      throw error
    }
    let plugin = LoadedPlugin(
      description: description,
      core: core,
      code: .mapped(code),
      tables: tables,
      copy: copy
    )
    return try await activated(plugin, description.path)
  }

  private static func isolated(
    _ description: PluginDescription,
    _ core: PluginCore,
    _ program: String,
    copy: String
  ) async throws -> LoadedPlugin {
    let launch = RunnerLaunch(
      program: program,
      path: copy,
      digest: description.digest,
      manifest: description.manifestJSON.encoded,
      limits: RunnerLaunch.limits(description.manifest.execution)
    )
    let body = RunnerBody(core: core, launch: launch)
    let plugin = LoadedPlugin(
      description: description,
      core: core,
      code: .runner(body),
      tables: nil,
      copy: copy
    )
    body.onRestart { [weak plugin] in
      guard let plugin, plugin.description.manifest.settings != nil else { return }
      try await plugin.tellSettings()
    }
    return try await activated(plugin, description.path)
  }

  /// Makes a plugin that takes no calls: what it contributes is there, and nobody runs its code.
  ///
  /// So its guards deny and its tasks wait, as they would if it had been quarantined here.
  package static func loadQuarantined(
    path: String,
    reason: String,
    environment: PluginEnvironment
  ) throws -> LoadedPlugin {
    let examined = try examine(path: path)
    let manifest = examined.description.manifest
    try checkServed(manifest, path)
    try checkSchemas(manifest, path, environment.checkSchema)
    var environment = environment
    // Whoever decided that knows it.
    environment.quarantined = { _ in }
    let core = PluginCore(
      manifest: manifest,
      generation: 0,
      environment: environment,
      settings: manifest.settings?.defaults ?? [:],
      isIsolated: true
    )
    core.become(.quarantined(reason))
    return LoadedPlugin(
      description: examined.description,
      core: core,
      code: .runner(AbsentPlugin(core: core)),
      tables: nil,
      copy: nil
    )
  }

  private static func activated(
    _ plugin: LoadedPlugin,
    _ path: String
  ) async throws -> LoadedPlugin {
    do {
      try await activate(plugin, path)
      return plugin
    } catch {
      _ = await plugin.close()
      throw error
    }
  }

  private static func enter(
    _ copy: String,
    _ core: PluginCore,
    _ tables: HostTables,
    _ description: PluginDescription
  ) async throws -> MappedCode {
    let result = await control(core) { () throws(PluginRefusal) in
      // Loading runs the constructors of the plugin.
      let library = try withBreadcrumb(core.name, PluginCode.loadName, 0) {
        Result { () throws(PluginRefusal) in try LoadedLibrary(path: copy) }
      }.get()
      do throws(PluginRefusal) { return try MappedCode.enter(library, core.name, tables) } catch {
        // It stays mapped all the same.
        Immortals.retire(
          RetiredCopy(id: core.id, version: core.version, digest: description.digest, path: copy)
        )
        throw error
      }
    }
    return try unwrap(result, description.path, "cannot be loaded", "entry function")
  }

  private static func activate(_ plugin: LoadedPlugin, _ path: String) async throws {
    let result = await plugin.code.activate(plugin.core)
    var what = "refused to be activated"
    // A runner loads the plugin and activates it in one go.
    if case .failure(let refusal)? = result, refusal.step != "activate", plugin.isIsolated {
      what = "cannot be loaded"
    }
    try unwrap(result, path, what, "activation")
    guard plugin.description.manifest.settings != nil else { return }
    do { try await plugin.tellSettings(isFirst: true) } catch {
      throw refused(
        path,
        "refused its settings",
        "change the settings of \(plugin.id)",
        cause: (error as? PerdureError)?.message
      )
    }
  }

  /// Runs a function of the plugin's life cycle on one of its threads; `nil` when it takes too long.
  static func control<Value: Sendable>(
    _ core: PluginCore,
    _ body: @escaping @Sendable () throws(PluginRefusal) -> Value
  ) async -> Result<Value, PluginRefusal>? {
    let answer = OneShot<Result<Value, PluginRefusal>?>()
    let accepted = core.threads.run {
      do throws(PluginRefusal) { answer.fire(.success(try body())) } catch {
        answer.fire(.failure(error))
      }
    }
    guard accepted else {
      return .failure(PluginRefusal(code: 0, message: "the system gives no more threads"))
    }
    return await answer.value(
      within: controlNanoseconds,
      on: core.environment.clock,
      else: nil
    )
  }

  @discardableResult private static func unwrap<Value>(
    _ result: Result<Value, PluginRefusal>?,
    _ path: String,
    _ what: String,
    _ step: String
  ) throws(PerdureError) -> Value {
    switch result {
    case .success(let value): return value
    case .failure(let refusal):
      let word = BorderCode(rawValue: refusal.code)?.word
      let message = refusal.message.isEmpty ? word ?? "\(refusal.code)" : refusal.message
      // What the loader says of a file system that allows no programs.
      let isForbidden = refusal.message.hasSuffix("failed to map segment from shared object")
      throw refused(
        path,
        what,
        isForbidden
          ? "set XDG_CACHE_HOME to a folder whose file system allows programs"
          : "ask the plugin's author",
        cause: message
      )
    case nil:
      throw refused(
        path,
        "did not return from its \(step) within 10 seconds",
        "ask the plugin's author"
      )
    }
  }
}

/// Where the code of a plugin is to run.
package enum PluginPlace: Sendable {
  /// Where its manifest says; in this process if it does not mind.
  case auto
  case inProcess
  case runner

  /// Returns whether the plugin gets a process of its own; throws if it cannot run as it should.
  func isIsolated(_ manifest: Manifest, _ path: String) throws(PerdureError) -> Bool {
    let isForced =
      manifest.execution.mode == .runner || ["ffi", "go"].contains(manifest.runtime)
    switch self {
    case .auto: return isForced
    case .inProcess:
      guard !isForced else {
        throw PluginFiles.refused(
          path,
          "must run in a process of its own",
          "use the isolation 'runner' or 'auto'"
        )
      }
      return false
    case .runner:
      guard manifest.execution.mode != .inProcess else {
        throw PluginFiles.refused(
          path,
          "must run in the process of the host",
          "use the isolation 'in-process' or 'auto'"
        )
      }
      return true
    }
  }
}
