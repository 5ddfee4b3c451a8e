import Perdure
import PerdureModel
import PerdureValue
import Synchronization

/// Takes requests of other commands while this process works on a store.
final class ControlServer: Sendable {
  /// How many requests of one connection may be open.
  private static let openRequests = 64

  private let desk: ControlDesk
  private let path: String
  /// What is being answered, by connection and request.
  private let work = Mutex<[Int64: [Int64: Task<Void, Never>]]>([:])

  /// Opens the socket; throws `invalidConfiguration` if there can be none.
  init(at path: String, _ desk: ControlDesk) throws(PerdureError) {
    self.desk = desk
    self.path = path
    try HostChannel.listen(at: path) { [weak self] channel, frame in
      self?.take(channel, frame)
    }
  }

  /// Takes no more requests, and gives up those that are open.
  func close() {
    HostChannel.stopListening()
    let open = work.withLock { work in
      defer { work = [:] }
      return work.values.flatMap { $0.values }
    }
    for task in open { task.cancel() }
  }

  private func take(_ channel: Int64, _ frame: [UInt8]?) {
    guard let frame else {
      let open = work.withLock { $0.removeValue(forKey: channel) } ?? [:]
      for task in open.values { task.cancel() }
      return
    }
    do throws(PerdureError) {
      begin(try ControlRequest(frame: frame), on: channel)
    } catch {
      // Whatever comes next could not be trusted either.
      HostChannel.send(ControlAnswer.failed(error).frame(nil), on: channel)
      HostChannel.finish(channel)
    }
  }

  private func begin(_ request: ControlRequest, on channel: Int64) {
    let refusal = work.withLock { work -> PerdureError? in
      var open = work[channel] ?? [:]
      guard open[request.id] == nil else {
        return PerdureError(.invalidRequest, "the control request \(request.id) is open already")
      }
      guard open.count < Self.openRequests else {
        return PerdureError(.storeBusy, "\(open.count) control requests are open already")
      }
      // Ends with its answer, or when its connection ends.
      open[request.id] = Task {
        await answer(request, on: channel)
        self.work.withLock { _ = $0[channel]?.removeValue(forKey: request.id) }
      }
      work[channel] = open
      return nil
    }
    if let refusal {
      HostChannel.send(ControlAnswer.failed(refusal).frame(request.id), on: channel)
    }
  }

  private func answer(_ request: ControlRequest, on channel: Int64) async {
    let answer: ControlAnswer
    do {
      answer = .result(
        try await desk.answer(request) { type, members in
          HostChannel.send(ControlAnswer.event(type, members).frame(request.id), on: channel)
        }
      )
    } catch {
      // Given up: the end of the connection says it, and there the work goes on.
      if Task.isCancelled { return }
      answer = .failed(error as? PerdureError ?? PerdureError("internal", "\(error)"))
    }
    let frame = answer.frame(request.id)
    guard frame.count > HostChannel.longestFrame else {
      HostChannel.send(frame, on: channel)
      return
    }
    let error = PerdureError(.invalidRequest, "the answer is longer than a frame may be")
    HostChannel.send(ControlAnswer.failed(error).frame(request.id), on: channel)
  }
}
