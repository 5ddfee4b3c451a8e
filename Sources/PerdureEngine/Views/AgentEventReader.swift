package import PerdureModel
import Synchronization

/// The events of one commit.
package struct AgentEventBatch: Sendable {
  package var events: [AgentEvent]
  package var sequence: Int64
}

/// The events of a conversation for one reader, who may be slow.
///
/// What it has not read yet waits in at most 100 batches; one more, and all become one snapshot.
package final class AgentEventReader: Observing {
  private struct Start {
    var state: AgentState?
    var sequence: Int64
  }

  private let mailbox: Mailbox<AgentEventBatch>
  /// What is read first.
  private let start: Mutex<Start>
  private let leave: @Sendable () -> Void

  private init(
    _ start: Start,
    _ mailbox: Mailbox<AgentEventBatch>,
    leave: @escaping @Sendable () -> Void
  ) {
    self.start = Mutex(start)
    self.mailbox = mailbox
    self.leave = leave
  }

  deinit { leave() }

  /// Joins a mount through `join`, which adds the reader it is given.
  static func make(
    _ join: (@escaping Mount<AgentEventFold>.Joining) async throws -> Attachment<AgentEventFold>?
  ) async throws -> AgentEventReader? {
    let mailbox = Mailbox<AgentEventBatch>()
    let first = Mailbox<Start>()
    let attachment = try await join { fold, sequence in
      first.change { $0 = [Start(state: fold.value, sequence: sequence)] }
      return { receive($0, mailbox) }
    }
    guard let attachment, let start = await first.next() else { return nil }
    return AgentEventReader(start, mailbox, leave: attachment.leave)
  }

  private static func receive(
    _ signal: MountSignal<AgentEventFold>,
    _ mailbox: Mailbox<AgentEventBatch>
  ) {
    switch signal {
    case .changed(let events, let sequence, let fold):
      mailbox.change { waiting in
        if waiting.count < Mailbox<AgentEventBatch>.capacity {
          waiting.append(AgentEventBatch(events: events, sequence: sequence))
        } else {
          waiting = [AgentEventBatch(events: [.snapshot(fold.value)], sequence: sequence)]
        }
      }
    case .ended(let end): mailbox.end(end)
    }
  }

  /// Returns the snapshot and then the events of each commit that has some, waiting for them; `nil`
  /// after the end.
  ///
  /// Cancelling the calling task ends it.
  package func next() async -> AgentEventBatch? {
    if !mailbox.isDiscarded, !Task.isCancelled {
      let first = start.withLock { start -> AgentEventBatch? in
        defer { start.state = nil }
        return start.state.map {
          AgentEventBatch(events: [.snapshot($0)], sequence: start.sequence)
        }
      }
      if let first { return first }
    }
    return await mailbox.next()
  }

  package func end(_ end: WatchEnd) {
    mailbox.end(end, discarding: true)
    leave()
  }

  /// Why it ended, or `nil` as long as it has not.
  package var ending: WatchEnd? { mailbox.ending }

  /// Returns why it ended once it has.
  package func waitForEnd() async -> WatchEnd { await mailbox.waitForEnd() }
}
