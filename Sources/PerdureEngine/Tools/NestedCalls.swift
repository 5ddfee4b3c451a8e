import PerdureModel
import PerdureValue
import Synchronization

/// The calls that one running call makes of other tools.
final class NestedCalls: Sendable {
  private struct State {
    var count = 0
    /// How many of them have a key of their own.
    var keyed = 0
    var isOver = false
    /// The admissions under way, which the end of the call waits for.
    var admissions: [Int: Task<TaskID, any Error>] = [:]
    var mark: Task<Void, any Error>?
  }

  private let runtime: TaskRuntime
  private let caller: RequestedCall
  /// Whether the caller runs again after a crash, and will ask for its calls again.
  private let resumes: Bool
  private let scope: InvocationScope
  private let state = Mutex(State())

  init(_ runtime: TaskRuntime, _ caller: RequestedCall, resumes: Bool, _ scope: InvocationScope) {
    self.runtime = runtime
    self.caller = caller
    self.resumes = resumes
    self.scope = scope
  }

  /// Makes a call and returns its result; see `ToolCall.executeTool`.
  func execute(
    _ name: String,
    _ arguments: JSON,
    _ options: NestedCallOptions
  ) async throws -> NestedToolResult {
    if let key = options.key { try NestedCall.check(key) }
    guard arguments.object != nil else {
      throw PerdureError(
        .invalidInput,
        "the arguments for the tool '\(name)' are no object",
        hint: "give it an object, which may be empty"
      )
    }
    let (key, admission) = try begin(JSONString(name), arguments, options)
    // What is admitted runs, whether anybody waits for it or not.
    let id = try await admission.value
    let runtime = runtime
    let record = try await scope.run { try await runtime.waitForTask(id) }
    let stored = try await runtime.snapshot(.nestedCall, in: .task(runtime.taskId), key: key)
    return stored?["result"].flatMap { NestedToolResult(json: $0) }
      ?? NestedCall.result(of: record, name)
  }

  private func begin(
    _ name: JSONString,
    _ arguments: JSON,
    _ options: NestedCallOptions
  ) throws -> (JSONString, Task<TaskID, any Error>) {
    try state.withLock { state in
      if state.isOver {
        throw PerdureError(.invocationEnded, "the call of task \(runtime.taskId) is over")
      }
      state.count += 1
      let number = state.count
      // A number is only used up by a call that has no key of its own.
      if options.key != nil { state.keyed += 1 }
      let key = JSONString(options.key ?? "\(number - state.keyed)")
      let nested = NestedCall(
        parent: runtime.taskId,
        parentCallId: caller.id,
        key: key,
        showsProgress: options.showsProgress
      )
      let mark =
        state.mark
        ?? Task.detached { [runtime] in
          _ = try await runtime.memo(NestedCall.memo, true)
        }
      state.mark = mark
      let admission = Task.detached { [self, runtime, caller, resumes] in
        defer { self.state.withLock { $0.admissions[number] = nil } }
        do {
          // Whoever ends the caller must know that there may be calls below it.
          try await mark.value
        } catch {
          self.state.withLock { if $0.mark == mark { $0.mark = nil } }
          throw error
        }
        return try await NestedCall.admit(
          runtime,
          caller,
          name,
          arguments,
          nested,
          abandonsOnRestart: !resumes
        )
      }
      state.admissions[number] = admission
      return (key, admission)
    }
  }

  /// Refuses further calls and returns when those that were asked for are admitted or refused.
  func finish() async {
    let admissions = state.withLock { state in
      state.isOver = true
      return Array(state.admissions.values)
    }
    for admission in admissions { _ = await admission.result }
  }
}
