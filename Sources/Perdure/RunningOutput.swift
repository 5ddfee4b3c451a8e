public import PerdureModel
import PerdureValue

/// What a running tool has put out so far, as it is on disk.
public struct RunningOutput: Sendable, Equatable {
  public var task: TaskID
  public var conversation: ConversationID
  public var tool: String
  /// The part that is kept: the beginning or the end, as the tool's limits say.
  public var text: String
  /// Bytes of the output that are not kept.
  public var droppedBytes: Int64
}

extension RunningOutput {
  /// Reads a slot of `pi.live`; `nil` if its call does not run or has put out nothing.
  init?(slot: JSON, of conversation: ConversationID) {
    guard slot["status"] == "running", let task = TaskID(slot["taskId"]),
      let text = slot["output"]?.text
    else { return nil }
    self.task = task
    self.conversation = conversation
    tool = slot["name"]?.text ?? ""
    self.text = text
    droppedBytes = max(0, slot["droppedBytes"]?.int ?? 0)
  }
}
