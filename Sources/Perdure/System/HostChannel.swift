internal import CPerdureLinux
package import PerdureModel
import Synchronization

/// Local connections of this process that carry frames of bytes.
///
/// Only processes of the same user, or of root, are talked to. A process has one handler for all its
/// channels, which is called on a thread of the channel and must not suspend.
package enum HostChannel {
  /// Gets each frame of a channel in order, and `nil` once at its end.
  package typealias Handler = @Sendable (_ channel: Int64, _ frame: [UInt8]?) -> Void

  private static let handler = Mutex<Handler?>(nil)

  /// The longest frame, in bytes.
  package static var longestFrame: Int { Int(perdure_channel_longest) }

  /// Takes connections at a path from now on, in place of a socket that is there.
  package static func listen(at path: String, _ body: @escaping Handler) throws(PerdureError) {
    handler.withLock { $0 = body }
    HostText.put(Array(path.utf8))
    let code = perdure_channel_listen { HostChannel.tell($0, $1) }
    guard code < 0 else { return }
    let isTaken = HostText.kind(ofPath: path) != .nothing
    throw PerdureError(
      .invalidConfiguration,
      "no control socket can be made at \(path)",
      hint: isTaken
        ? "something else is there: remove it, or move the store"
        : "the store must be in a folder whose file system has sockets",
      cause: HostText.reason(Int64(code))
    )
  }

  /// Takes no more connections and removes the socket.
  package static func stopListening() { perdure_channel_stop() }

  /// Connects to the socket at a path; `nil` if nobody listens there.
  ///
  /// Throws if a process of somebody else does.
  package static func connect(
    to path: String,
    _ body: @escaping Handler
  ) throws(PerdureError) -> Int64? {
    handler.withLock { $0 = body }
    HostText.put(Array(path.utf8))
    let channel = perdure_channel_connect { HostChannel.tell($0, $1) }
    if channel == -notPermitted {
      throw PerdureError(
        .storeInUse,
        "the control socket \(path) belongs to another user",
        hint: "let that user ask, or remove the socket if nothing should be there"
      )
    }
    return channel < 0 ? nil : channel
  }

  /// Queues a frame; `false` if nobody can get it.
  @discardableResult package static func send(_ bytes: [UInt8], on channel: Int64) -> Bool {
    HostText.put(bytes)
    return perdure_channel_send(channel) == 0
  }

  /// Ends a channel once the other side has what was queued.
  package static func finish(_ channel: Int64) { perdure_channel_finish(channel) }

  private static let notPermitted: Int64 = 1

  private static func tell(_ channel: Int64, _ event: Int64) {
    let body = handler.withLock { $0 }
    body?(channel, event < 0 ? nil : HostText.take(event))
  }
}
