import PerdureModel
import PerdureValue
import Synchronization

/// Makes what the engine registers out of a manifest's sections, hooks and wraps.
struct PluginContributions: Sendable {
  let manifest: Manifest
  let core: PluginCore
  let code: PluginCode

  private enum Defaults {
    static let guardMs = 10_000
    static let observerMs = 5_000
    static let sectionMs = 2_000
    static let sectionWholeMs = 30_000
    static let wholeMs = 60_000
    static let toolMs = 600_000
    static let toolWholeMs = 86_400_000
    static let taskMs = 3_600_000
    static let taskWholeMs = 604_800_000
    static let abortMs = 60_000
    static let abortWholeMs = 600_000
    static let pureMs = 1_000
    static let pureWholeMs = 5_000
  }

  /// Whether what this plugin cannot do must not be done at all.
  private var failsClosed: @Sendable () -> Bool {
    { [core] in core.isRequired && core.isAway }
  }

  /// Adds everything to the extension.
  func add(to value: inout Extension) {
    value.sections = manifest.sections.map(section)
    value.hooks = manifest.hooks.compactMap(hook)
    value.wraps = manifest.wraps.compactMap(wrap)
    value.tasks = manifest.tasks.map(task)
    value.documents = manifest.documents.map(document)
    for declaration in value.documents {
      core.declarations.withLock { $0[declaration.kind.string] = declaration }
    }
    value.replacing = Set(manifest.tools.filter(\.overrides).map(\.name))
  }

  private func caller(
    _ kind: PluginCall.Kind,
    _ target: String,
    _ label: String,
    _ options: CallOptions,
    _ deadlineMs: Int,
    _ wholeMs: Int,
    sharing own: CallSlots? = nil
  ) -> ContributionCaller {
    ContributionCaller(
      core: core,
      code: code,
      kind: kind,
      target: Immortals.name(target),
      label: label,
      times: CallTimes(
        options,
        manifest.execution,
        deadlineMs: deadlineMs,
        wholeMs: wholeMs
      ),
      own: own ?? options.maxConcurrency.map { CallSlots($0, keepsOne: false) },
      inline: options.inline && !core.isIsolated ? InlineWatch() : nil
    )
  }

  /// Makes a caller of something that computes and does nothing else.
  func pure(_ target: String, _ label: String) -> ContributionCaller {
    caller(.pure, target, label, CallOptions(), Defaults.pureMs, Defaults.pureWholeMs)
  }

  /// What repairs the arguments of a tool before they are checked.
  func preparation(of tool: ManifestTool) -> @Sendable (JSON) async throws -> JSON {
    let caller = pure("tool.prepare:\(tool.name)", "preparation of tool \(tool.name)")
    return { [core] arguments in
      let message = ContributionMessage.encoded(core, now: core.environment.clock.now()) {
        $0.member(.arguments, arguments)
      }
      return try await caller.call(message, CallPlace()) {
        (object) throws(BorderProblem) in
        var reader = FieldReader(object)
        let arguments = try reader.required("arguments", reader.any("arguments"))
        try reader.finish()
        return arguments
      }
    }
  }

  private func task(_ task: ManifestTask) -> ExternalTask {
    let own = task.options.maxConcurrency.map { CallSlots($0, keepsOne: false) }
    var abortOptions = task.options
    abortOptions.deadlineMs = nil
    abortOptions.wallMs = nil
    let aborting = abortOptions
    return PluginTask(
      task: task,
      core: core,
      caller: { [self] kind, target, label in
        kind == .abort
          ? caller(
            kind,
            target,
            label,
            aborting,
            Defaults.abortMs,
            Defaults.abortWholeMs,
            sharing: own
          )
          : caller(
            kind,
            target,
            label,
            task.options,
            Defaults.taskMs,
            Defaults.taskWholeMs,
            sharing: own
          )
      },
      pure: { [self] in pure($0, $1) }
    ).registered
  }

  private func document(_ document: ManifestDocument) -> DocumentDeclaration {
    PluginDocument(
      document: document,
      core: core,
      migration: pure(
        "document.migrate:\(document.kind)",
        "migration of document \(document.kind)"
      )
    ).declaration
  }

  private func section(_ section: ManifestSection) -> PromptSection {
    PluginSection.registered(
      section,
      caller(
        .section,
        "section:\(section.key)",
        "section \(section.key)",
        section.options,
        Defaults.sectionMs,
        Defaults.sectionWholeMs
      ),
      failsClosed: failsClosed
    )
  }

  private func hook(_ hook: ManifestHook) -> Hook? {
    let caller = caller(
      hook.point == "conversationCreated" ? .created : .hook,
      "hook:\(hook.point)",
      "hook \(hook.point)",
      hook.options,
      hook.role == .guard ? Defaults.guardMs : Defaults.observerMs,
      Defaults.wholeMs
    )
    return PluginHook(hook, caller, mayAsk: manifest.permissions.approvals)
      .registered(failsClosed: failsClosed)
  }

  private func wrap(_ wrap: ManifestWrap) -> Wrap? {
    var made: Wrap
    if let name = wrap.tool {
      let caller = caller(
        .wrap,
        "wrap:tool:\(name)",
        "wrap of tool \(name)",
        wrap.options,
        Defaults.toolMs,
        Defaults.toolWholeMs
      )
      let plugin = PluginWrap(wrap, caller, failsClosed: failsClosed)
      made = .tool(name) { plugin.wrapping($0) }
    } else if let key = wrap.section {
      let caller = caller(
        .sectionWrap,
        "wrap:section:\(key)",
        "wrap of section \(key)",
        wrap.options,
        Defaults.sectionMs,
        Defaults.sectionWholeMs
      )
      let (isObserver, failsClosed) = (wrap.role == .observer, failsClosed)
      made = .section(key) {
        PluginSection(caller: caller)
          .wrapping($0, isObserver: isObserver, failsClosed: failsClosed)
      }
    } else {
      return nil
    }
    made.order = wrap.order
    return made
  }
}
