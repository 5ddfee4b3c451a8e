package import PerdureModel
internal import PerdureValue
import Synchronization

/// A plugin that runs, in this process or in one of its own.
///
/// The file of one that runs in this process stays mapped after it is closed.
package final class LoadedPlugin: Sendable {
  /// What its file says.
  package let description: PluginDescription
  /// What the engine registers.
  package var extensionValue: Extension { publishing.current }
  let core: PluginCore
  let code: PluginCode
  private let publishing: Publishing
  private let tables: HostTables?
  private let copy: String?

  /// The name of the extension.
  package var id: String { core.id }
  /// SHA-256 of the file, in hexadecimal.
  package var digest: String { description.digest }
  /// What an installed plugin would be refused for, and what this version does not serve yet.
  package var warnings: [String] { description.warnings }
  /// How often it broke its promises.
  package var strikes: Int { core.strikes.withLock { $0.total } }
  /// Whether it did so often lately.
  package var isDegraded: Bool { core.strikes.withLock { $0.isDegraded } }

  /// Whether it runs in a process of its own.
  package var isIsolated: Bool { core.isIsolated }
  /// The id of its own process, while there is one.
  package var processID: Int32? {
    if case .runner(let body) = code { body.processID } else { nil }
  }
  /// Why it takes no calls any more, or `nil`.
  package var quarantine: String? { core.quarantine }

  /// Whether it takes no calls, now or ever.
  package var isDown: Bool { core.isDown }

  /// Starts the process of a quarantined plugin again.
  package func clearQuarantine() {
    if case .runner(let body) = code { body.clearQuarantine() }
  }

  private static let stopNanoseconds: Int64 = 5_000_000_000
  private static let idleNanoseconds: Int64 = 1_000_000_000

  init(
    description: PluginDescription,
    core: PluginCore,
    code: PluginCode,
    tables: HostTables?,
    copy: String?
  ) {
    self.description = description
    self.core = core
    self.code = code
    self.tables = tables
    self.copy = copy
    let publishing = Publishing(description.manifest, of: core) { manifest, core in
      Self.contribution(manifest, core, code)
    }
    self.publishing = publishing
    core.publishing.withLock { $0.target = publishing }
  }

  /// What the engine registers of a manifest.
  private static func contribution(
    _ manifest: Manifest,
    _ core: PluginCore,
    _ code: PluginCode
  ) -> Extension {
    var value = Extension(
      name: manifest.id,
      version: manifest.version,
      tools: manifest.tools.map { tool($0, manifest, core, code) }
    )
    PluginContributions(manifest: manifest, core: core, code: code).add(to: &value)
    return value
  }

  /// Calls `follower` with the whole contribution whenever the plugin registers something.
  package func follow(_ follower: @escaping @Sendable (Extension) -> Void) {
    publishing.follow(follower)
  }

  private static func tool(
    _ tool: ManifestTool,
    _ manifest: Manifest,
    _ core: PluginCore,
    _ code: PluginCode
  ) -> Tool {
    let deadlineMs = tool.options.deadlineMs ?? manifest.execution.deadlineMs ?? 600_000
    let graceMs = tool.options.graceMs ?? manifest.execution.graceMs
    let execution = ToolExecution(
      core: core,
      code: code,
      tool: tool,
      target: Immortals.name("tool:\(tool.name)"),
      grace: Int64(graceMs) * 1_000_000,
      own: tool.options.maxConcurrency.map { CallSlots($0, keepsOne: false) },
      pace: StartPace(
        isBlocking: tool.options.blocking ?? manifest.execution.blocking,
        tool: tool.name,
        core: core
      ),
      isClosing: { core.isDown }
    )
    var made = Tool(
      name: tool.name,
      description: tool.description,
      parameters: tool.parameters,
      replay: tool.replay == .safe ? .safe : .unsafe,
      executionMode: tool.executionMode.map { $0 == .parallel ? .parallel : .sequential },
      outputLimits: outputLimits(tool.outputLimits),
      deadline: .milliseconds(deadlineMs),
      grace: .milliseconds(graceMs),
      structuredOutputSchema: tool.structuredOutputSchema,
      callers: tool.callers,
      isDeferred: tool.deferred,
      constrainedSampling: tool.constrainedSampling,
      maxConcurrency: tool.options.maxConcurrency,
      execute: { try await execution.run($0) }
    )
    if tool.prepare {
      let contributions = PluginContributions(manifest: manifest, core: core, code: code)
      made.prepareLater = contributions.preparation(of: tool)
    }
    return made
  }

  private static func outputLimits(_ members: JSONObject?) -> OutputLimits {
    var limits = OutputLimits()
    if let bytes = members?["maxBytes"]?.int { limits.maxBytes = Int(bytes) }
    if let lines = members?["maxLines"]?.int { limits.maxLines = Int(lines) }
    if members?["retain"]?.text == "tail" { limits.retain = .tail }
    return limits
  }

  // MARK: Closing

  /// Ends the plugin and removes its private copy; returns what did not go as it should.
  ///
  /// Calls are cancelled and get their grace. What still runs then is left alone, but muted: every
  /// function of the host answers `gone`. The second call does nothing.
  @discardableResult package func close() async -> [String] {
    guard core.closing.set() else { return [] }
    var problems: [String] = []
    if await !drain() { problems.append("plugin \(id) left calls unanswered") }
    if await !stop() { problems.append("plugin \(id) did not stop in time") }
    core.cancelLooseRequests()
    if await core.threads.isIdle(within: Self.idleNanoseconds, on: core.environment.clock) {
      let code = code
      if await !code.destroy(core) { problems.append("plugin \(id) did not return from destroy") }
    } else {
      // Its state may still be in use, so it is not destroyed.
      problems.append("plugin \(id) still runs code; it was muted and stays until the host ends")
    }
    if let tables {
      tables.retire()
      Immortals.retire(
        RetiredCopy(id: id, version: core.version, digest: digest, path: copy ?? "")
      )
    }
    core.threads.stop()
    core.letGo()
    publishing.withdraw()
    if let copy { PrivateCopies.remove(copy) }
    return problems
  }

  private func drain() async -> Bool {
    let calls = core.liveCalls
    for call in calls { core.cancel(call, .drain) }
    let clock = core.environment.clock
    let grace = Int64(description.manifest.execution.graceMs) * 1_000_000
    let drained = await core.whenDrained(within: grace, on: clock)
    for call in core.liveCalls { core.abandon(call) }
    core.releaseAllGivenUp()
    return drained
  }

  private func stop() async -> Bool {
    guard code.hasDeactivate else { return true }
    let clock = core.environment.clock
    let stopped = OneShot<Bool>()
    let ticket = UInt64.random(in: 1...UInt64(Int64.max))
    core.stop.withLock { $0 = (ticket, stopped) }
    let deadline = UInt64(max(0, clock.monotonic() + Self.stopNanoseconds))
    guard await code.deactivate(core, ticket: ticket, deadline: deadline) == 0 else { return false }
    return await stopped.value(within: Self.stopNanoseconds, on: clock, else: false)
  }
}

/// Whether a plugin takes no more calls.
final class ClosingFlag: Sendable {
  private let flag = Atomic(false)

  /// Sets the flag; `false` if it was set.
  func set() -> Bool { !flag.exchange(true, ordering: .acquiringAndReleasing) }

  var isSet: Bool { flag.load(ordering: .acquiring) }
}
