import PerdureEngine
import PerdureModel
import PerdureTestKit
import PerdureValue
import Synchronization

/// Submits what a walk-through submits while it has a run.
final class WalkHost: Sendable {
  private let engine = Mutex<Engine?>(nil)

  func set(_ new: Engine) { engine.withLock { $0 = new } }

  /// Returns the submissions; makes them, as an application that does not know whether it had.
  @discardableResult
  func submitted(_ walk: WalkThrough) async throws -> [SubmissionID] {
    guard walk.queued > 0, let engine = engine.withLock({ $0 }) else { return [] }
    let mode: WhenBusy = walk == .reset ? .followUp : .steer
    let input = try await engine.submit("and then", to: .root, whenBusy: mode, requestId: "r2")
    guard walk == .reset else { return [input] }
    return [input, try await engine.reset(.root, requestId: "r3")]
  }
}

/// A script whose answers in text act before their first piece.
struct ActingModel: ModelProvider {
  let script: ScriptedModel
  let act: @Sendable () async throws -> Void

  func model(_ reference: ModelReference) -> ModelInfo? { script.model(reference) }

  func stream(_ request: ModelRequest) -> any ModelStream {
    let stream = script.stream(request)
    // Only the last request of the first run; what is submitted then is there for the others.
    let acts =
      request.messages.last { $0["role"] == "user" }?["content"] == "go"
      && ScriptedModel.turn(of: request) == 1
    return acts ? ActingStream(stream, act) : stream
  }
}

private final class ActingStream: ModelStream {
  private let stream: any ModelStream
  private let act: Mutex<(@Sendable () async throws -> Void)?>

  init(_ stream: any ModelStream, _ act: @escaping @Sendable () async throws -> Void) {
    self.stream = stream
    self.act = Mutex(act)
  }

  func next() async -> [ModelEvent] {
    let act = act.withLock { act in
      defer { act = nil }
      return act
    }
    do {
      try await act?()
    } catch {
      return [.failed(ProviderFailure(.stop, "the walk could not submit: \(error)"))]
    }
    return await stream.next()
  }

  func cancel() { stream.cancel() }
}
