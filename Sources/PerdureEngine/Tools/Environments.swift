package import PerdureModel

extension TaskRuntime {
  /// Makes the environment of this task's conversation, or returns `nil` if the host has none.
  ///
  /// It is asked for anew at each use, so what a conversation chooses later counts from then on.
  package func environment() async throws -> (any Environment)? {
    guard surroundings.environment != nil else { return nil }
    return try await environment(of: try await agent().info)
  }

  /// The same for choices that are known already.
  func environment(of agent: AgentInfo) async throws -> (any Environment)? {
    guard let make = surroundings.environment else { return nil }
    let call = ContributionCall(self, agent: agent, extensionName: "the environment")
    defer { call.end() }
    return try await make(
      EnvironmentTarget(conversationId: conversationId, cwd: agent.cwd, read: call)
    )
  }
}
