public import PerdureValue

/// A transcript scope; immutable once written.
public struct ConversationRecord: Sendable, Equatable {
  /// Where a fork left its parent.
  public struct Parent: Sendable, Equatable {
    /// The conversation whose history is inherited.
    public var conversationId: ConversationID
    /// The last inherited entry.
    public var at: EntryID

    /// Makes a parent reference.
    public init(conversationId: ConversationID, at: EntryID) {
      self.conversationId = conversationId
      self.at = at
    }
  }

  /// The task that supervises a conversation.
  public struct Owner: Sendable, Equatable {
    /// The conversation of the task.
    public var conversationId: ConversationID
    /// The task.
    public var taskId: TaskID

    /// Makes an owner reference.
    public init(conversationId: ConversationID, taskId: TaskID) {
      self.conversationId = conversationId
      self.taskId = taskId
    }
  }

  public var id: ConversationID
  /// Present on forks.
  public var parent: Parent?
  /// Present on conversations that a task owns.
  public var owner: Owner?

  /// Makes a record.
  public init(id: ConversationID, parent: Parent? = nil, owner: Owner? = nil) {
    self.id = id
    self.parent = parent
    self.owner = owner
  }

  /// Reads the persisted form.
  public init(json: JSON) throws {
    let reader = try RecordReader(json, "conversation")
    id = try reader.id("id")
    if reader.optional("parent") != nil {
      let parent = try reader.reader("parent")
      self.parent = Parent(
        conversationId: try parent.id("conversationId"),
        at: try parent.id("at")
      )
    }
    if reader.optional("owner") != nil {
      let owner = try reader.reader("owner")
      self.owner = Owner(
        conversationId: try owner.id("conversationId"),
        taskId: try owner.id("taskId")
      )
    }
  }

  /// The persisted form.
  public var json: JSON {
    var object: JSONObject = ["id": id.json]
    if let parent {
      object["parent"] = ["conversationId": parent.conversationId.json, "at": parent.at.json]
    }
    if let owner {
      object["owner"] = [
        "conversationId": owner.conversationId.json, "taskId": owner.taskId.json,
      ]
    }
    return .object(object)
  }
}
