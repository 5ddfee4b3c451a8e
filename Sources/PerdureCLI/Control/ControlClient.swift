import Perdure
import PerdureModel
import PerdureValue
import Synchronization

/// A connection to the process that works on a store.
final class ControlClient: Sendable {
  /// Gets the events of a request in order, on a thread of the connection.
  typealias OnEvent = @Sendable (_ type: String, _ members: JSONObject) -> Void

  private struct Pending {
    var onEvent: OnEvent
    var end: OneEvent<Result<JSONObject, PerdureError>>
  }

  private struct State {
    var lastId: Int64 = 0
    var pending: [Int64: Pending] = [:]
    var failure: PerdureError?
  }

  private let address: StoreAddress
  private let channel: Mutex<Int64>
  private let state = Mutex(State())
  /// Happens when the other side is gone.
  let isGone = OneEvent<Void>()

  private init(_ address: StoreAddress) {
    self.address = address
    channel = Mutex(0)
  }

  /// Connects to the process that works on a store; `nil` if none takes requests.
  static func connect(_ address: StoreAddress) throws -> ControlClient? {
    guard let path = address.controlPath else { return nil }
    let client = ControlClient(address)
    let channel = try HostChannel.connect(to: path) { _, frame in client.take(frame) }
    guard let channel else { return nil }
    client.channel.withLock { $0 = channel }
    return client
  }

  /// Asks for something and returns what came of it; events are handed over meanwhile.
  func ask(
    _ operation: String,
    _ parameters: JSONObject = [:],
    onEvent: @escaping OnEvent = { _, _ in }
  ) async throws -> JSONObject {
    let end = OneEvent<Result<JSONObject, PerdureError>>()
    let (id, failure) = state.withLock { state in
      state.lastId += 1
      state.pending[state.lastId] = Pending(onEvent: onEvent, end: end)
      return (state.lastId, state.failure)
    }
    if let failure { throw failure }
    let request = ControlRequest(id: id, operation: operation, parameters: parameters)
    let isSent = HostChannel.send(request.frame, on: channel.withLock { $0 })
    if !isSent { end.fire(.failure(gone)) }
    return try await end.value.get()
  }

  private func take(_ frame: [UInt8]?) {
    guard let frame else { return fail(gone) }
    do throws(PerdureError) {
      let (id, answer) = try ControlAnswer.read(frame)
      let pending = state.withLock { state -> Pending? in
        guard let id else { return nil }
        if case .event = answer { return state.pending[id] }
        return state.pending.removeValue(forKey: id)
      }
      switch answer {
      case .event(let type, let members):
        pending?.onEvent(type, members)
        // A reader of this command that is slow slows the connection down.
        _ = HostText.waitForOutput()
      case .result(let members): pending?.end.fire(.success(members))
      case .failed(let error):
        guard let pending else { return fail(error) }
        pending.end.fire(.failure(error))
      }
    } catch {
      fail(error)
    }
  }

  private func fail(_ error: PerdureError) {
    let pending = state.withLock { state in
      state.failure = state.failure ?? error
      defer { state.pending = [:] }
      return state.pending.values.map { $0.end }
    }
    for end in pending { end.fire(.failure(error)) }
    isGone.fire(())
  }

  private var gone: PerdureError {
    PerdureError(
      "host_gone",
      "the process that worked on the store \(address.text) ended",
      hint: "`\(address.resumeCommand)` continues what it left"
    )
  }
}
