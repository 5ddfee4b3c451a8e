package import PerdureModel
package import PerdureValue

/// The points of the task `pi.compaction`.
struct CompactionHooks {
  let phase: PhaseAgent

  /// Asks the hooks `beforeCompact`; the first decision wins.
  func beforeCompact(_ compaction: PendingCompaction) async throws -> CompactionDecision {
    let chain = try await HookChain(phase, .beforeCompact)
    for installed in chain.hooks {
      guard case .beforeCompact(let body) = installed.hook.handler else { continue }
      let verdict = try await chain.call(installed) {
        try await body(compaction, $0)
      } misuse: {
        switch $0 {
        case .proceed: nil
        case .decline, .summary: HookChain.misuse(installed.hook, changes: true)
        case .deny: HookChain.misuse(installed.hook, denies: true)
        }
      }
      switch verdict {
      case .nothing, .answer(.proceed): break
      case .answer(let decision): return decision
      case .deny(let reason): return .deny(reason)
      }
    }
    return .proceed
  }
}

/// What one hook at a point of a task type answered.
package struct HookReply: Sendable, Equatable {
  package var extensionName: String
  package var answer: HookAnswer
}

extension TaskRuntime {
  /// Calls `limit` of the hooks that extensions have for a point of this type of task, from a
  /// position on; returns what they said, and whether there are more.
  func callHooks(
    _ name: String,
    arguments: JSON,
    from: Int,
    limit: Int?
  ) async throws -> (replies: [HookListing], more: Bool) {
    guard let kind = scheduler.session.liveTask(taskId)?.kind else { return ([], false) }
    let point = Hook.Point.named(task: kind.string, name: name)
    let chain = try await HookChain(PhaseAgent(self), point)
    let end = limit.map { min(chain.hooks.count, from + $0) } ?? chain.hooks.count
    var replies: [HookListing] = []
    for index in from..<max(from, end) {
      guard let reply = try await reply(of: chain.hooks[index], in: chain, arguments) else {
        continue
      }
      var listing = HookListing(
        index: index,
        extensionName: reply.extensionName,
        value: nil,
        denied: nil
      )
      switch reply.answer {
      case .proceed: break
      case .value(let value): listing.value = value
      case .deny(let reason): listing.denied = reason
      }
      replies.append(listing)
    }
    return (replies, end < chain.hooks.count)
  }

  private func reply(
    of installed: InstalledHook,
    in chain: HookChain,
    _ arguments: JSON
  ) async throws -> HookReply? {
    guard case .named(_, _, let body) = installed.hook.handler else { return nil }
    let verdict = try await chain.call(installed) {
      try await body(arguments, $0)
    } misuse: {
      switch $0 {
      case .proceed: nil
      case .value: HookChain.misuse(installed.hook, changes: true)
      case .deny: HookChain.misuse(installed.hook, denies: true)
      }
    }
    let name = installed.extensionName
    return switch verdict {
    case .nothing: nil
    case .answer(let answer): HookReply(extensionName: name, answer: answer)
    case .deny(let reason): HookReply(extensionName: name, answer: .deny(reason))
    }
  }

  /// Calls the hooks that extensions have for a point of this type of task, all of them in order.
  ///
  /// An observer that fails is reported and left out; a guard that fails denies.
  package func callHooks(_ name: String, arguments: JSON) async throws -> [HookReply] {
    guard let kind = scheduler.session.liveTask(taskId)?.kind else { return [] }
    let point = Hook.Point.named(task: kind.string, name: name)
    let chain = try await HookChain(PhaseAgent(self), point)
    var replies: [HookReply] = []
    for installed in chain.hooks {
      if let reply = try await reply(of: installed, in: chain, arguments) { replies.append(reply) }
    }
    return replies
  }
}
