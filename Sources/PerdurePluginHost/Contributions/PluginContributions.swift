import PerdureModel
import PerdureValue

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
  }

  /// Whether what this plugin cannot do must not be done at all.
  private var failsClosed: @Sendable () -> Bool {
    { [core] in core.isRequired && core.isDown }
  }

  /// Adds everything to the extension.
  func add(to value: inout Extension) {
    value.sections = manifest.sections.map(section)
    value.hooks = manifest.hooks.compactMap(hook)
    value.wraps = manifest.wraps.compactMap(wrap)
    value.replacing = Set(manifest.tools.filter(\.overrides).map(\.name))
  }

  private func caller(
    _ kind: PluginCall.Kind,
    _ target: String,
    _ label: String,
    _ options: CallOptions,
    _ deadlineMs: Int,
    _ wholeMs: Int
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
      own: options.maxConcurrency.map { CallSlots($0, keepsOne: false) },
      inline: options.inline ? InlineWatch() : nil
    )
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
      )
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
      let isObserver = wrap.role == .observer
      made = .section(key) {
        PluginSection(caller: caller).wrapping($0, isObserver: isObserver)
      }
    } else {
      return nil
    }
    made.order = wrap.order
    return made
  }
}
