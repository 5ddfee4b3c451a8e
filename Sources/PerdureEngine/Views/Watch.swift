package import PerdureModel
package import PerdureValue
import Synchronization

/// One change of a view, as a reader is told of it.
package struct Frame: Sendable {
  /// The whole view after the change.
  package var value: JSON
  /// What leads there from the value of the frame before; one replacement if frames were joined.
  package var operations: [Operation]
  /// The number of the commit.
  package var sequence: Int64
}

/// Somebody who observes something until it ends.
package protocol Observing: Sendable {
  /// Why it ended, or `nil` as long as it has not.
  var ending: WatchEnd? { get }
  /// Returns why it ended once it has.
  func waitForEnd() async -> WatchEnd
  /// Ends it and drops what was not read; the first reason counts.
  func end(_ end: WatchEnd)
}

/// A view with every change of it, for one reader, who may be slow.
///
/// What it has not read yet waits in at most 100 frames; one more, and all become one replacement
/// by the newest value. The values are built when they are read, so a reader who never comes back
/// costs what the operations hold and no more.
package final class Watch<Value: Fold>: Observing where Value.Step == Operation {
  private enum Pending: Sendable {
    case operations([Operation], sequence: Int64)
    case replacement(Value, sequence: Int64)
  }

  /// The view when the watch was made; the frames follow it.
  package let initial: Value
  /// The last commit that is in the initial view.
  package let initialSequence: Int64
  private let mailbox: Mailbox<Pending>
  private let current: Mutex<JSON>
  private let leave: @Sendable () -> Void

  private init(
    _ initial: Value,
    _ sequence: Int64,
    _ mailbox: Mailbox<Pending>,
    leave: @escaping @Sendable () -> Void
  ) {
    self.initial = initial
    initialSequence = sequence
    self.mailbox = mailbox
    self.leave = leave
    current = Mutex(initial.json)
  }

  deinit { leave() }

  /// Joins a mount through `join`, which adds the reader it is given.
  static func make(
    _ join: (@escaping Mount<Value>.Joining) async throws -> Attachment<Value>?
  ) async throws -> Watch? {
    let mailbox = Mailbox<Pending>()
    let start = Start()
    let attachment = try await join(joining(mailbox, start))
    guard let attachment, let (value, sequence) = start.revision else { return nil }
    return Watch(value, sequence, mailbox, leave: attachment.leave)
  }

  /// Joins a mount that is held by somebody else.
  static func make(
    on mount: Mount<Value>,
    leave: @escaping @Sendable (_ reader: Int) -> Void
  ) -> (watch: Watch, reader: Int) {
    let mailbox = Mailbox<Pending>()
    let start = Start()
    let reader = mount.add(joining(mailbox, start))
    let (value, sequence) = start.revision ?? mount.revision
    return (Watch(value, sequence, mailbox, leave: { leave(reader) }), reader)
  }

  /// The view that a reader joins.
  private final class Start: Sendable {
    private let state = Mutex<(Value, Int64)?>(nil)

    var revision: (Value, Int64)? { state.withLock { $0 } }

    func set(_ value: Value, _ sequence: Int64) { state.withLock { $0 = (value, sequence) } }
  }

  private static func joining(
    _ mailbox: Mailbox<Pending>,
    _ start: Start
  ) -> Mount<Value>.Joining {
    { value, sequence in
      start.set(value, sequence)
      return { receive($0, mailbox) }
    }
  }

  private static func receive(_ signal: MountSignal<Value>, _ mailbox: Mailbox<Pending>) {
    switch signal {
    case .changed(let operations, let sequence, let value):
      mailbox.change { waiting in
        if waiting.count < Mailbox<Pending>.capacity {
          waiting.append(.operations(operations, sequence: sequence))
        } else {
          waiting = [.replacement(value, sequence: sequence)]
        }
      }
    case .ended(let end): mailbox.end(end)
    }
  }

  /// The view as of the frame that was read last.
  package var value: JSON { current.withLock { $0 } }

  /// Returns the next frame, waiting for it; `nil` once the watch has ended.
  ///
  /// Cancelling the calling task ends the watch.
  package func next() async -> Frame? {
    guard let pending = await mailbox.next() else { return nil }
    switch pending {
    case .replacement(let value, let sequence):
      let json = value.json
      current.withLock { $0 = json }
      return Frame(value: json, operations: [.replace(json)], sequence: sequence)
    case .operations(let operations, let sequence):
      do {
        let json = try current.withLock { current in
          for operation in operations { try current.apply(operation) }
          return current
        }
        return Frame(value: json, operations: operations, sequence: sequence)
      } catch {
        let failure = PerdureError(
          .storeCorrupt,
          "commit \(sequence) does not fit the view that is observed",
          cause: "\(error)"
        )
        mailbox.end(.listenerFailed(failure), discarding: true)
        return nil
      }
    }
  }

  /// Hands every frame to `listener`, one at a time, and returns why that ended.
  ///
  /// A listener that throws ends only this watch; `report` is told of it.
  package func deliver(
    reportingTo report: @Sendable (Report) -> Void,
    to listener: (Frame) async throws -> Void
  ) async -> WatchEnd {
    while let frame = await next() {
      do {
        try await listener(frame)
      } catch {
        let failure = Report.listenerFailed(error)
        report(failure)
        let end = PerdureError("listener_error", failure.message)
        mailbox.end(.listenerFailed(end), discarding: true)
      }
    }
    return await mailbox.waitForEnd()
  }

  /// Ends the watch and drops what was not read; the first reason for an end counts.
  package func stop() { end(.stopped) }

  package func end(_ end: WatchEnd) {
    mailbox.end(end, discarding: true)
    leave()
  }

  /// Whether it has ended without anything to read.
  package var isDiscarded: Bool { mailbox.isDiscarded }

  /// Ends the watch after what was not read yet.
  package func stopAfterPending() { mailbox.end(.stopped) }

  /// Why it ended, or `nil` as long as it has not.
  package var ending: WatchEnd? { mailbox.ending }

  /// Returns why it ended once it has.
  package func waitForEnd() async -> WatchEnd { await mailbox.waitForEnd() }
}

/// A view whose newest value is all that counts, for one reader.
package final class Latest<Value: Fold>: Observing {
  private let mailbox: Mailbox<Void>
  private let mount: Mount<Value>
  private let leave: @Sendable () -> Void

  private init(
    _ mailbox: Mailbox<Void>,
    _ mount: Mount<Value>,
    _ leave: @escaping @Sendable () -> Void
  ) {
    self.mailbox = mailbox
    self.mount = mount
    self.leave = leave
  }

  deinit { leave() }

  /// Joins a mount through `join`, which adds the reader it is given.
  static func make(
    _ join: (@escaping Mount<Value>.Joining) async throws -> Attachment<Value>?
  ) async throws -> Latest? {
    let mailbox = Mailbox<Void>()
    let attachment = try await join(joining(mailbox))
    return attachment.map { Latest(mailbox, $0.mount, $0.leave) }
  }

  /// Joins a mount that is held by somebody else.
  static func make(
    on mount: Mount<Value>,
    leave: @escaping @Sendable (_ reader: Int) -> Void
  ) -> (latest: Latest, reader: Int) {
    let mailbox = Mailbox<Void>()
    let reader = mount.add(joining(mailbox))
    return (Latest(mailbox, mount, { leave(reader) }), reader)
  }

  private static func joining(_ mailbox: Mailbox<Void>) -> Mount<Value>.Joining {
    // The view as it is now is the first value.
    mailbox.change { $0 = [()] }
    return { _, _ in
      { signal in
        switch signal {
        case .changed: mailbox.change { $0 = [()] }
        case .ended(let end): mailbox.end(end)
        }
      }
    }
  }

  /// Returns the newest value, waiting until there is one that was not read; `nil` after the end.
  ///
  /// Cancelling the calling task ends it.
  package func next() async -> Value? { await nextRevision()?.value }

  /// Returns what `next` does, with the commit that changed it last.
  package func nextRevision() async -> (value: Value, sequence: Int64)? {
    guard await mailbox.next() != nil else { return nil }
    return mount.revision
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

extension Report {
  /// Says that somebody who observes threw.
  package static func listenerFailed(_ error: any Error) -> Report {
    Report(type: "listener_error", message: "a listener threw: \(error)")
  }
}
