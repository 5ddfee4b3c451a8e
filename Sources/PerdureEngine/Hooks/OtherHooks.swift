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
  /// Calls the hooks that extensions have for a point of this type of task, all of them in order.
  ///
  /// An observer that fails is reported and left out; a guard that fails denies.
  package func callHooks(_ name: String, arguments: JSON) async throws -> [HookReply] {
    guard let kind = scheduler.session.liveTask(taskId)?.kind else { return [] }
    let point = Hook.Point.named(task: kind.string, name: name)
    let chain = try await HookChain(PhaseAgent(self), point)
    var replies: [HookReply] = []
    for installed in chain.hooks {
      guard case .named(_, _, let body) = installed.hook.handler else { continue }
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
      switch verdict {
      case .nothing: break
      case .answer(let answer): replies.append(HookReply(extensionName: name, answer: answer))
      case .deny(let reason): replies.append(HookReply(extensionName: name, answer: .deny(reason)))
      }
    }
    return replies
  }
}
