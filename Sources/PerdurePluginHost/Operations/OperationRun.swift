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
    guard let call else { return }
    if call.hasEndedRun, !schema.outlivesRun {
      throw OperationProblem(.stale, "the run of the task is over", reason: "ended")
    }
    if call.transactions.isOpen, !schema.worksInTransaction {
      throw OperationProblem(
        .invalid,
        "\(schema.name) cannot be asked for while the call has a transaction",
        reason: "in_transaction"
      )
    }
  }

  /// Lets a task do it that the request owns and that ends with the request.
  func later(_ body: @escaping @Sendable (OperationRun) async throws -> RequestResult) {
    let pausing = request.operation.pauses ? call?.operations : nil
    request.attach(
      Task {
        do {
          let result =
            if let pausing {
              try await pausing.standingStill { try await body(self) }
            } else {
              try await body(self)
            }
          core.answer(id, result)
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
}
