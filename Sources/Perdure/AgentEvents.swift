import PerdureEngine
public import PerdureModel

extension Conversation {
  /// The conversation at work as it is, and then the events of each commit that has some.
  ///
  /// The first batch is a snapshot. A reader who falls more than 100 batches behind gets a snapshot
  /// in their place. Applied to an `AgentState` in order, the events give the next snapshot.
  public func events() async throws -> Updates<[AgentEvent]> {
    let reader = try await engine.views.events(of: id)
    return Updates(
      next: { () async throws(PerdureError) in
        if let batch = await reader.next() { return batch.events }
        if let error = reader.ending?.error { throw error }
        return nil
      },
      observer: reader,
      report: engine.session.report
    )
  }

  /// The conversation at work as it is on disk.
  public func agentState() async throws -> AgentState {
    let reader = try await engine.views.events(of: id)
    guard case .snapshot(let state)? = await reader.next()?.events.first else {
      throw reader.ending?.error ?? PerdureError(.cancelled, "the look was cancelled")
    }
    return state
  }
}

extension Harness {
  /// The events of a conversation, as its own `events` gives them.
  public func watchEvents(_ id: ConversationID) async throws -> Updates<[AgentEvent]> {
    try await Conversation(id: id, engine: engine).events()
  }
}
