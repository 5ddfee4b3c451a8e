import PerdureEngine
public import PerdureModel
public import PerdureValue

/// What one hook at a point of a task type answered.
public struct TaskHookReply: Sendable, Equatable {
  /// The extension that brought the hook.
  public var extensionName: String
  public var answer: HookAnswer

  /// Makes a reply.
  public init(extensionName: String, answer: HookAnswer) {
    self.extensionName = extensionName
    self.answer = answer
  }
}

extension TaskRun {
  /// Calls the hooks that extensions have for a point of this type of task (`Hook.task`), one after
  /// another, and returns what each of them answered.
  ///
  /// They come in the order of all hooks: changing observers, changing guards, guards, observers. An
  /// observer that fails, or answers what it may not, is reported and left out; such a guard denies.
  /// What follows from the answers is up to the task. Hooks are called again after a crash.
  public func callHooks(_ name: String, _ arguments: JSON) async throws -> [TaskHookReply] {
    try await runtime.callHooks(name, arguments: arguments).map {
      TaskHookReply(extensionName: $0.extensionName, answer: $0.answer)
    }
  }
}
