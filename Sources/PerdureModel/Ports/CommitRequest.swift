package import PerdureValue

/// What one commit of a call writes: steps in order, and then the state of its task.
package struct CommitRequest: Sendable {
  package var steps: [CommitStep]
  package var state: CommitState?

  package init(steps: [CommitStep] = [], state: CommitState? = nil) {
    self.steps = steps
    self.state = state
  }
}

/// A record: by its id, or as what an earlier step of the same commit created.
package enum StepReference: Sendable, Hashable {
  case id(Int64)
  case step(String)
}

/// Where the id of what a step created is put.
package struct StepFill: Sendable {
  /// Leads to a place that holds `null`.
  package var path: [PathSegment]
  package var step: String

  package init(path: [PathSegment], step: String) {
    self.path = path
    self.step = step
  }
}

/// One step of a commit.
package struct CommitStep: Sendable {
  /// What owns a new conversation or task.
  package enum Owner: Sendable {
    case nobody
    /// The task of the call.
    case call
    /// For tasks: their conversation.
    case conversation
    case task(StepReference)
  }

  /// What a document belongs to.
  package enum Place: Sendable {
    case session
    /// The conversation of the call.
    case ownConversation
    case conversation(StepReference)
    /// The task of the call.
    case ownTask
    case task(StepReference)
  }

  /// What becomes of a document's value.
  package enum Change: Sendable {
    /// It is only created if there is none.
    case nothing
    case value(JSON)
    case operations([Operation])
  }

  /// A task that is to be created.
  package struct NewTask: Sendable {
    package var type: JSONString
    package var input: JSON
    package var conversation: StepReference?
    package var owner: Owner
    package var background: Bool
    package var abandonOnRestart: Bool?
    /// For types of the plugin itself.
    package var checkpoint: JSON?

    package init(
      type: JSONString,
      input: JSON,
      conversation: StepReference?,
      owner: Owner,
      background: Bool,
      abandonOnRestart: Bool?,
      checkpoint: JSON?
    ) {
      self.type = type
      self.input = input
      self.conversation = conversation
      self.owner = owner
      self.background = background
      self.abandonOnRestart = abandonOnRestart
      self.checkpoint = checkpoint
    }
  }

  package enum Action: Sendable {
    case createConversation(owner: Owner, change: JSONObject)
    case fork(from: StepReference, at: EntryID, owner: Owner, change: JSONObject)
    case configure(StepReference, JSONObject)
    /// The draft in the form in which a queued write is stored.
    case append(StepReference, JSON)
    case createTask(NewTask)
    case document(DocumentDeclaration, Place, key: JSONString?, seed: JSON?, Change)
    case retire(DocumentDeclaration, Place, key: JSONString?)
  }

  package var name: String?
  package var action: Action
  /// Places of ids inside the input or checkpoint of a task, the data of an entry, or the value of a
  /// document; the paths begin at the step.
  package var fills: [StepFill]

  package init(name: String?, action: Action, fills: [StepFill] = []) {
    self.name = name
    self.action = action
    self.fills = fills
  }
}

/// The state that a commit gives the task of its call.
package struct CommitState: Sendable {
  package enum Kind: Sendable {
    case running
    case waiting(on: [StepReference], JoinPolicy)
    case sleeping(until: Int64)
    /// The outcome in its persisted form.
    case terminal(JSON)
  }

  package var kind: Kind
  package var checkpoint: JSON
  /// The paths begin at the state.
  package var fills: [StepFill]

  package init(_ kind: Kind, checkpoint: JSON, fills: [StepFill] = []) {
    self.kind = kind
    self.checkpoint = checkpoint
    self.fills = fills
  }

  /// Whether the run of the task goes on.
  package var goesOn: Bool {
    if case .running = kind { return true }
    return false
  }
}

/// What a commit came to.
package struct CommitReceipt: Sendable {
  /// Absent if nothing was written.
  package var sequence: Int64?
  package var ids: [String: Int64]
  package var task: TaskRecord?

  package init(sequence: Int64?, ids: [String: Int64], task: TaskRecord?) {
    self.sequence = sequence
    self.ids = ids
    self.task = task
  }
}
