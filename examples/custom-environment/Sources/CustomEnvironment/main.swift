import Foundation
import Perdure
import PerdureTestKit

// Every case of the suite that needs no commands, links or listings.
var failures = 0
let cases = EnvironmentConformance.cases(of: [.files, .fileReader, .folderReader, .watch])
for test in cases {
  do {
    try await test.run(EnvironmentHarness(MemoryEnvironment(id: UUID().uuidString)))
  } catch {
    failures += 1
    print("FAILED: \(test): \(error)")
  }
}

// A model that writes a file with the coding tools.
let model = ScriptedModel { request in
  ScriptedModel.turn(of: request) == 0
    ? ScriptedModel.calls(("c1", "write", ["path": "notes.txt", "content": "remember"]))
    : ScriptedModel.text("done")
}
let environment = MemoryEnvironment(id: "notes")
let harness = try await Harness.open(
  .memory,
  models: model,
  extensions: [.codingTools(shell: false)],
  environment: .custom(environment)
)
let conversation = try await harness.root()
try await conversation.configure(.init(model: ScriptedModel.reference))
print(try await conversation.submit("Write it down.").answer())
if try await environment.readTextFile("notes.txt") != "remember" {
  failures += 1
  print("FAILED: the file was not written")
}
try await harness.close()
print("\(cases.count) cases: \(failures) failed")
exit(failures == 0 ? 0 : 1)
