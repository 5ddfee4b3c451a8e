package import PerdureModel
import Synchronization

/// An answer whose events are sent by a task of its own.
package final class EventStream: ModelStream {
  private let mailbox = Mailbox<ModelEvent>()
  private let producer = Mutex<Task<Void, Never>?>(nil)

  /// Makes an answer that is already complete.
  package init(_ events: [ModelEvent]) {
    mailbox.send(events)
    mailbox.finish()
  }

  /// Makes an answer; `produce` sends events and is cancelled when the answer is.
  init(_ produce: @escaping @Sendable (_ send: ([ModelEvent]) -> Void) async -> Void) {
    // Owned by this object: `cancel` and the end of the object cancel it.
    let task = Task { [mailbox] in
      await produce { mailbox.send($0) }
      mailbox.finish()
    }
    producer.withLock { $0 = task }
  }

  deinit { cancel() }

  package func next() async -> [ModelEvent] {
    await withTaskCancellationHandler {
      await mailbox.next()
    } onCancel: {
      cancel()
    }
  }

  package func cancel() {
    producer.withLock { $0 }?.cancel()
    mailbox.finish(discarding: true)
  }
}
