import PerdureEngine
import PerdureModel
import PerdureValue
import Testing

@Suite struct HeldTasksTests {
  @Test func `a task that waits again and again leaves nothing behind`() throws {
    var held = HeldTasks()
    let id = try #require(TaskID(2))
    var record = TaskRecord(
      id: id,
      conversationId: .root,
      kind: "work",
      version: 1,
      input: [:],
      state: .pending(checkpoint: [:])
    )
    for time in 0..<Int64(10 * HeldTasks.greatestDormantCount) {
      record.state = .sleeping(checkpoint: [:], until: time)
      held.adopt(record)
      record.state = .running(checkpoint: [:])
      held.adopt(record)
    }
    #expect(held.placeCount <= 2 * HeldTasks.greatestDormantCount)
  }
}
