import PerdureModel
import PerdureValue

extension StoreCheck {
  /// Whether tools of a conversation have called other tools.
  func hasNestedCalls(_ id: ConversationID) async throws -> Bool {
    var cursor: Cursor?
    repeat {
      let page = try await reads.scanTasks(
        TaskQuery(conversationId: id, kind: ToolTask.name),
        PageRequest(limit: 256, cursor: cursor)
      )
      if page.items.contains(where: { $0.input["kind"] == "nested" }) { return true }
      cursor = page.next
    } while cursor != nil
    return false
  }

  /// Slots of calls that tools made stand in the order of their tasks, below live callers.
  mutating func checkNestedSlots(_ slots: [JSON], _ object: String) async throws {
    var previous: TaskID?
    for slot in slots {
      guard let id = TaskID(slot["taskId"]), let parent = TaskID(slot["parentTaskId"]) else {
        find("slot", object, "a slot of a nested call names no task or no caller")
        continue
      }
      require(
        previous.map { $0 < id } ?? true,
        "slot",
        object,
        "the slot of the nested call \(id) does not stand in the order of the tasks"
      )
      previous = id
      let task = try await reads.task(id)
      require(
        task?.owner == parent && TaskID(task?.input["parent"]) == parent,
        "slot",
        object,
        "the slot of the nested call \(id) names the caller \(parent), which does not own it"
      )
      require(
        try await reads.task(parent)?.isLive == true,
        "slot",
        object,
        "the nested call \(id) has a slot, and its caller \(parent) does not live"
      )
      let isOver = task?.state.outcome != nil
      require(
        slot["status"] != "done" || isOver,
        "slot",
        object,
        "the slot of the nested call \(id) is done, and its task is not"
      )
    }
  }
}
