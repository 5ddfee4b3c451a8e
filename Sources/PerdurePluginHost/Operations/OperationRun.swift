internal import PerdureModel
import PerdureValue

typealias OperationProblem = RequestFailure

/// One operation at work.
struct OperationRun: Sendable {
  let core: PluginCore
  let request: PluginRequest
  let id: UInt64

  /// The call within which it was asked for.
  var call: PluginCall? { request.call }

  /// Begins it; `nil` means that the answer comes later.
  func begin(_ input: JSONObject) -> RequestResult? {
    do throws(OperationProblem) {
      let schema = request.operation
      try check(schema)
      let arguments = try schema.read(input)
      switch schema.body {
      case .now(let body): return try body(self, arguments)
      case .later(let body):
        later { (run) async throws in try await body(run, arguments) }
        return nil
      }
    } catch {
      return .failed(error)
    }
  }

  private func check(_ schema: OperationSchema) throws(OperationProblem) {
    guard schema.isServed else {
      throw OperationProblem(
        .unsupported,
        "this host does not know the operation \(schema.name)",
        reason: "op"
      )
    }
    let here = call?.kind.classes ?? .none
    guard !schema.classes.isDisjoint(with: here) else {
      throw OperationProblem(
        .invalid,
        "\(schema.name) cannot be asked for here",
        reason: "not_here"
      )
    }
  }

  /// Lets a task do it that the request owns and that ends with the request.
  func later(_ body: @escaping @Sendable (OperationRun) async throws -> RequestResult) {
    request.attach(
      Task {
        do {
          core.answer(id, try await body(self))
        } catch {
          core.answer(id, .failed(Self.failure(of: error)))
        }
      }
    )
  }

  /// Runs what the engine does at once.
  func asking<Value>(_ body: () throws -> Value) throws(OperationProblem) -> Value {
    do { return try body() } catch { throw Self.failure(of: error) }
  }

  /// Sends a report of the plugin.
  func send(_ type: String, _ message: String) {
    core.environment.report(Report(type: type, message: message, extensionName: core.id))
  }

  /// What a plugin is told of an error of the host.
  static func failure(of error: any Error) -> OperationProblem {
    if let problem = error as? OperationProblem { return problem }
    guard let error = error as? PerdureError else {
      return error is CancellationError
        ? OperationProblem(.cancelled, "the operation was cancelled", reason: "abort")
        : OperationProblem(.internal, "the host failed to do it: \(error)", reason: "host")
    }
    switch error.code {
    case .invocationEnded: return OperationProblem(.stale, error.message, reason: "ended")
    case .closed: return OperationProblem(.stale, error.message, reason: "closing")
    case .cancelled: return OperationProblem(.cancelled, error.message, reason: "abort")
    default: return OperationProblem(.internal, error.message, reason: error.code.rawValue)
    }
  }
}
