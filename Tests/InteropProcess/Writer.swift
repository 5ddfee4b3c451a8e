import PerdureEngine
import PerdureModel
import PerdureTestKit
import PerdureValue

/// Plays the steps of a scenario on an open store.
struct Writer {
  let engine: Engine
  let events: Events
  let documents: ScenarioDocuments
  let settings: ScenarioSettings

  func play(_ steps: [JSON]) async throws {
    var conversation = try await engine.root()
    var last: SubmissionID?
    try await engine.configure(conversation, ["model": ScriptedModel.reference.json])
    for step in steps {
      if let change = step["configure"]?.object {
        try await engine.configure(conversation, change)
      } else if step["create"] == true {
        conversation = try await engine.createConversation()
        try await engine.configure(conversation, ["model": ScriptedModel.reference.json])
      } else if let changes = step["edit"]?.array {
        try await documents.edit(changes, entry: step["entry"], in: conversation)
      } else if let wanted = step["expect"]?.array {
        try await documents.expect(wanted, in: conversation)
      } else if let known = ConversationID(step["conversation"]) {
        conversation = known
      } else if let place = step["forkAt"]?.int {
        conversation = try await engine.fork(
          conversation,
          at: try await documents.note(Int(place), in: conversation),
          configure: ["model": ScriptedModel.reference.json]
        )
      } else if step["fork"] == true {
        conversation = try await fork(conversation)
      } else if let change = step["settings"]?.object {
        try settings.change(change)
      } else if let place = step["withdraw"]?.int {
        try await withdraw(Int(place), outcome: step["outcome"])
      } else if step["release"] == true {
        events.release()
        try await proceed(step, conversation)
      } else if step["idle"] == true {
        try await engine.waitForIdle(conversation)
      } else if let entry = step["write"] {
        let draft = try EntryDraft(json: try await placed(entry, in: conversation))
        _ = try await taken(step) {
          try await engine.write(draft, to: conversation, requestId: step["requestId"]?.string)
        }
        try await proceed(step, conversation)
      } else if let handoff = step["reset"]?.string {
        _ = try await engine.reset(conversation, handoff: handoff)
        try await proceed(step, conversation)
      } else if step["compact"] == true {
        _ = try await engine.compact(conversation, instructions: step["instructions"]?.string)
        try await proceed(step, conversation)
      } else if let turns = step["summaries"]?.array {
        events.plan(turns)
      } else if let turns = step["submit"] {
        last = try await submit(turns, step, to: conversation)
      } else if step["answered"] == true, let last {
        _ = try await engine.wait(for: last)
      } else {
        throw PerdureError(.invalidInput, "unknown step \(step.compactText)")
      }
    }
  }

  /// Forks at the newest entry, with a choice of its own in the same commit.
  private func fork(_ parent: ConversationID) async throws -> ConversationID {
    let page = try await engine.session.store.scanEntries(
      EntryQuery(conversationId: parent),
      PageRequest(limit: 1)
    )
    guard let newest = page.items.first else {
      throw PerdureError(.invalidInput, "conversation \(parent) has no entry to fork at")
    }
    return try await engine.fork(
      parent,
      at: newest.id,
      configure: ["model": ScriptedModel.reference.json]
    )
  }

  private func submit(
    _ turns: JSON,
    _ step: JSON,
    to id: ConversationID
  ) async throws -> SubmissionID? {
    events.reset()
    let submission = try await taken(step) {
      try await engine.submit(
        .string(turns.compactText),
        to: id,
        whenBusy: step["whenBusy"]?.text.flatMap { WhenBusy(rawValue: $0) } ?? .followUp,
        requestId: step["requestId"]?.string,
        entry: try step["entry"].map { try InputEntry(json: $0) }
      )
    }
    if try await proceed(step, id) { return submission }
    guard let submission else { return nil }
    _ = try await engine.wait(for: submission)
    events.resetWaiting()
    return submission
  }

  /// Submits what a step says; one that is to be refused returns nothing.
  private func taken(
    _ step: JSON,
    _ submit: () async throws -> SubmissionID
  ) async throws -> SubmissionID? {
    do {
      let id = try await submit()
      if step["refused"] == nil { return id }
    } catch let error as PerdureError where error.code.rawValue == step["refused"]?.text {
      return nil
    }
    throw PerdureError(.invalidInput, "not refused: \(step.compactText)")
  }

  /// A written entry whose targets, given as places in the transcript, are ids.
  private func placed(_ entry: JSON, in id: ConversationID) async throws -> JSON {
    let entries = try await Page.all(order: .ascending) {
      try await engine.session.store.scanEntries(EntryQuery(conversationId: id), $0)
    }
    func resolved(_ target: JSON?) throws -> JSON? {
      guard let place = target?["at"]?.int else { return target }
      guard entries.indices.contains(Int(place)) else {
        throw PerdureError(.invalidInput, "conversation \(id) has no entry \(place)")
      }
      return .int(entries[Int(place)].id.value)
    }
    guard var object = entry.object else { return entry }
    object["head"] = try resolved(object["head"])
    if let edits = object["edits"]?.array {
      object["edits"] = .array(
        try edits.map { edit in
          guard var edit = edit.object else { return edit }
          edit["target"] = try resolved(edit["target"])
          return .object(edit)
        }
      )
    }
    return .object(object)
  }

  /// Withdraws a submission, given by its place among all, and compares what becomes of it.
  private func withdraw(_ place: Int, outcome: JSON?) async throws {
    let found = try await Page.all {
      try await engine.session.store.scanSubmissions(SubmissionQuery(), $0)
    }
    guard found.indices.contains(place) else {
      throw PerdureError(.invalidInput, "there is no submission \(place)")
    }
    let becomes = try await engine.abortSubmission(found[place].id)
    guard becomes.rawValue == outcome?.text else {
      throw PerdureError(.invalidInput, "\(becomes.rawValue) instead of \(outcome?.text ?? "")")
    }
  }

  /// Does what the step says once its condition holds; returns whether the next step comes at once.
  @discardableResult
  private func proceed(_ step: JSON, _ id: ConversationID) async throws -> Bool {
    guard let when = step["when"] else { return false }
    await events.wait(for: Events.Condition(when))
    switch step["then"]?.text {
    case "die": Events.die()
    case "go on": return true
    case "abort":
      try await engine.abort(id)
      return false
    case "abort and die":
      try await engine.abort(id)
      Events.die()
    default: throw PerdureError(.invalidInput, "unknown step \(step.compactText)")
    }
  }
}
