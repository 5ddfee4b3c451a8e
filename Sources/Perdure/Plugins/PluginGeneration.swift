import PerdureModel
import PerdurePluginHost
import Synchronization

/// One loaded version of an installed plugin, from its activation to its end.
final class PluginGeneration: Sendable {
  let record: InstalledRecord
  let plugin: Plugin
  private let published: Mutex<Extension?>
  private let end: LeaseEnd

  /// Makes a generation whose extension carries a lease.
  init(_ plugin: Plugin, _ record: InstalledRecord, adapting: (Extension) -> Extension) {
    self.plugin = plugin
    self.record = record
    let end = LeaseEnd()
    self.end = end
    let lease = ExtensionLease { end.fire() }
    published = Mutex(Self.leased(adapting(plugin.contribution), lease))
  }

  /// Calls `follower` with what the plugin brings whenever it registers something, as long as it
  /// takes new calls.
  func follow(
    adapting: @escaping @Sendable (Extension) -> Extension,
    _ follower: @escaping @Sendable (Extension) -> Void
  ) {
    plugin.onRegistration { [weak self] value in
      let contribution = self?.published.withLock { published -> Extension? in
        guard let lease = published?.lease else { return nil }
        published = Self.leased(adapting(value), lease)
        return published
      }
      if let contribution { follower(contribution) }
    }
  }

  /// What the engine is given; `nil` once it is not to take new calls.
  var contribution: Extension? { published.withLock { $0 } }

  /// Ends the part that this value has in its life.
  func withdraw() { published.withLock { $0 = nil } }

  /// Returns when nobody can call it any more, or `false` after this time.
  func whenUnused(within limit: Duration, on clock: any HostClock) async -> Bool {
    await end.wait(within: limit, on: clock)
  }

  /// Whether it has tools that take the place of those of others.
  var replacesTools: Bool {
    plugin.loaded.description.manifest.tools.contains { $0.overrides }
  }

  /// What a host tells of it.
  var running: InstalledPlugin.Running {
    InstalledPlugin.Running(
      version: record.release.version,
      digest: plugin.digest,
      generation: plugin.loaded.generation,
      calls: plugin.loaded.liveCalls,
      strikes: plugin.loaded.strikes,
      isDegraded: plugin.loaded.isDegraded,
      isolation: plugin.isolation
    )
  }

  // What outlives the extension itself carries the lease, too.
  private static func leased(_ value: Extension, _ lease: ExtensionLease) -> Extension {
    var value = value
    value.lease = lease
    value.tools = value.tools.map { tool in
      var tool = tool
      let execute = tool.execute
      tool.execute = { call in
        defer { withExtendedLifetime(lease) {} }
        return try await execute(call)
      }
      return tool
    }
    value.tasks = value.tasks.map { task in
      guard var task = task as? ExternalTask else { return task }
      let (run, migrate) = (task.run, task.migrate)
      task.run = { call in
        defer { withExtendedLifetime(lease) {} }
        try await run(call)
      }
      task.migrate = { record in
        defer { withExtendedLifetime(lease) {} }
        return try await migrate(record)
      }
      return task
    }
    return value
  }
}

/// Says when a lease has ended.
private final class LeaseEnd: Sendable {
  private struct State {
    var hasEnded = false
    var waiters: [CheckedContinuation<Bool, Never>] = []
  }

  private let state = Mutex(State())

  func fire() { answer(true) }

  private func answer(_ hasEnded: Bool) {
    let waiters = state.withLock { state in
      if hasEnded { state.hasEnded = true }
      defer { state.waiters = [] }
      return state.waiters
    }
    for waiter in waiters { waiter.resume(returning: hasEnded) }
  }

  func wait(within limit: Duration, on clock: any HostClock) async -> Bool {
    // Ends with this function: it is cancelled when the lease has ended.
    let timer = Task {
      await clock.sleep(
        nanoseconds: limit.milliseconds.multipliedReportingOverflow(by: 1_000_000).0
      )
      if !Task.isCancelled { self.answer(false) }
    }
    defer { timer.cancel() }
    return await withTaskCancellationHandler {
      await withCheckedContinuation { continuation in
        let hasEnded = state.withLock { state in
          if !state.hasEnded, !Task.isCancelled { state.waiters.append(continuation) }
          return state.hasEnded || Task.isCancelled ? state.hasEnded : nil
        }
        if let hasEnded { continuation.resume(returning: hasEnded) }
      }
    } onCancel: {
      answer(false)
    }
  }
}
