import PerdureValue
import Synchronization

/// What plugins ask for.
extension PluginCore {
  /// Starts an operation; `accepted` gets its id before it can be answered.
  func startRequest(
    _ name: String,
    _ input: JSONObject,
    within call: PluginCall?,
    done: (any RequestDone)?,
    accepted: (UInt64) -> Void
  ) -> BorderCode? {
    let operation = OperationSchema.named(name)
    if done == nil, !operation.isOneWay { return .invalid }
    let request = PluginRequest(operation: operation, call: call, done: done)
    guard done != nil else {
      accepted(0)
      _ = begin(request, 0, input)
      return nil
    }
    guard let id = requests.open(request) else {
      strike("has \(Self.openRequests) open requests")
      return .busy
    }
    if let call {
      guard call.add(request: id, finishesAnyway: operation.finishesAnyway) else {
        _ = takeRequest(id)
        return .stale
      }
    } else {
      looseRequests.withLock { _ = $0.insert(id) }
    }
    accepted(id)
    if let call, call.isInline, name != "next" {
      answer(
        id,
        .failed(
          RequestFailure(.invalid, "an inline call can only ask for next", reason: "not_here")
        )
      )
      return nil
    }
    if operation.pauses { call?.pause() }
    if let result = begin(request, id, input) { answer(id, result) }
    return nil
  }

  private func begin(_ request: PluginRequest, _ id: UInt64, _ input: JSONObject) -> RequestResult?
  {
    guard let relay else { return OperationRun(core: self, request: request, id: id).begin(input) }
    relay.ask(request, id, input)
    return nil
  }

  /// Answers a request; `false` if it was answered before.
  @discardableResult func answer(_ id: UInt64, _ result: RequestResult) -> Bool {
    guard let request = takeRequest(id) else { return false }
    if let call = request.call {
      if request.operation.pauses { call.resume() }
      call.remove(request: id)
    } else {
      looseRequests.withLock { _ = $0.remove(id) }
    }
    guard let done = request.done else { return true }
    guard done.runsPlugin else {
      done(id, result)
      return true
    }
    if request.call?.isInline == true {
      withBreadcrumb(name, PluginCode.doneName, id) { done(id, result) }
      return true
    }
    threads.run { [name] in
      withBreadcrumb(name, PluginCode.doneName, id) { done(id, result) }
    }
    return true
  }

  private func takeRequest(_ id: UInt64) -> PluginRequest? {
    guard let slot = requests.claim(id) else { return nil }
    defer { requests.unpin(slot) }
    return requests.withRecord(slot, as: PluginRequest.self) { $0 }
  }

  /// Cancels a request, which is then answered at once; `false` if it is over.
  @discardableResult func cancelRequest(_ id: UInt64, reason: String) -> Bool {
    guard let slot = requests.pin(id) else { return false }
    let request = requests.withRecord(slot, as: PluginRequest.self) { $0 }
    requests.unpin(slot)
    guard let request else { return false }
    if let relay {
      guard request.cancelWork() else { return false }
      relay.cancel(id)
      return true
    }
    if request.operation.finishesAnyway {
      // Answered by what it comes to: it may be done already.
      request.cancelWork()
      return true
    }
    // Answered before its work is cancelled, which would answer too.
    let isFirst = answer(
      id,
      .failed(
        RequestFailure(
          .cancelled,
          "the operation \(request.operation.name) was cancelled",
          reason: reason
        )
      )
    )
    request.cancelWork()
    return isFirst
  }

  /// Cancels what was asked for outside calls.
  func cancelLooseRequests() {
    let ids = looseRequests.withLock { $0 }
    for id in ids { cancelRequest(id, reason: "closing") }
  }
}
