import Perdure
import PerdureModel
import PerdureTestKit
import PerdureValue
import Testing

/// How many calls of one plugin run at once.
@Suite(.timeLimit(.minutes(5))) struct SlotTests {
  private static let tool: JSON = [
    "name": "own", "description": "Takes a while.", "parameters": ["type": "object"],
  ]

  /// Lets the model call `own` twice in one answer and returns what was logged.
  private func run(
    _ maxConcurrency: Int,
    takes milliseconds: Int64 = 30,
    _ more: JSONObject = [:]
  ) async throws -> [String] {
    let bench = ScriptedBench(answer: { request in
      ScriptedModel.turn(of: request) == 0
        ? ScriptedModel.calls(("c1", "own", [:]), ("c2", "own", [:])) : ScriptedModel.text("done")
    })
    var members: JSONObject = [
      "execution": ["maxConcurrency": .int(Int64(maxConcurrency))], "tools": [Self.tool],
    ]
    for (key, value) in more { members[key] = value }
    let plugin = try await bench.plugin(
      members,
      script: [
        "tool:own": [
          "ops": [["op": "timer.wait", "input": ["ms": .int(milliseconds)]]], "text": "done",
        ]
      ]
    )
    _ = try await bench.run([plugin])
    return bench.logs.map(\.name)
  }

  @Test(arguments: [1, 2])
  func `work leaves one slot to what is soon over`(_ maxConcurrency: Int) async throws {
    let logs = try await run(
      maxConcurrency,
      ["hooks": [["point": "beforeTool", "role": "guard"]]]
    )
    #expect(logs.filter { $0 == "hook:beforeTool" }.count == 2)
    let work = logs.filter { $0 != "hook:beforeTool" }
    #expect(work == ["tool:own", "result 0", "tool:own", "result 0"])
  }

  @Test func `more slots let calls run beside each other`() async throws {
    // Long enough for both to begin, however busy the machine is.
    #expect(try await run(3, takes: 3_000).prefix(2) == ["tool:own", "tool:own"])
  }
}
