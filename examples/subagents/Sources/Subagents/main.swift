import Glibc
import Perdure
import PerdureTestKit

/// A model that hands on what it is asked, and answers what is handed on.
let model = ScriptedModel { request in
  let asked = request.messages.last { $0["role"] == "user" }?["content"]?.text ?? ""
  let isFirst = ScriptedModel.turn(of: request) == 0
  switch asked {
  case "wait for it" where isFirst:
    return ScriptedModel.calls(("c1", "ask", ["question": "how deep is the lake?"]))
  case "do not wait" where isFirst:
    return ScriptedModel.calls(("c1", "delegate", ["question": "how deep is the lake?"]))
  case "how deep is the lake?": return ScriptedModel.text("230 metres")
  default:
    let result = request.messages.last { $0["role"] == "toolResult" }?["content"]?.array?.first
    return ScriptedModel.text("you said '\(asked)', I know '\(result?["text"]?.text ?? "nothing")'")
  }
}

func open(_ path: String) async throws -> Harness {
  try await Harness.open(
    .sqlite(at: path),
    models: model,
    extensions: [Extension(name: "subagents", tools: [ask, delegate], tasks: [errand])]
  )
}

func expect(_ isTrue: Bool, _ claim: String) {
  print("\(isTrue ? "yes" : "NO"): \(claim)")
  if !isTrue { exit(1) }
}

var name = Array("/tmp/subagents-XXXXXX".utf8CString)
guard mkdtemp(&name) != nil else { exit(1) }
let folder = String(decoding: name.dropLast().map { UInt8(bitPattern: $0) }, as: UTF8.self)
let path = folder + "/store.sqlite"

// The foreground: the call ends with the answer of its conversation.
let first = try await open(path)
let root = try await first.root()
try await root.configure(.init(model: ScriptedModel.reference))
let changes = try await first.taskChanges()
let submission = try await root.submit("wait for it", requestId: "1")
// The process stops as soon as the call has its conversation, whatever has happened in that by then.
for try await change in changes {
  let tasks = (change.value["tasks"]?.object ?? [:]).map { $0.value }
  if tasks.contains(where: { $0["conversations"]?.array?.isEmpty == false }) { break }
}
try await first.close()

let second = try await open(path)
try await second.resume()
guard let reopened = try await second.submission(submission.id) else { exit(1) }
let answer = try await reopened.answer()
expect(answer.contains("230 metres"), "the answer came through the foreground agent")
let asked = model.seen.compactMap { $0.messages.last?["content"]?.text }
expect(asked.contains("how deep is the lake?"), "another conversation was asked")

// The background: the run ends at once, and a later one begins with the report.
let conversation = try await second.root()
let early = try await conversation.submit("do not wait").answer()
expect(early.contains("has begun"), "the run did not wait for the background agent")
await second.waitUntilQuiet()
let entries = try await conversation.view().entries
let report = entries.contains {
  $0.kind == "pi.user"
    && $0.model?.first?["content"]?.text == "The errand brought: 230 metres"
}
expect(report, "the background agent reported")
expect(try await second.inspect().tasks.isEmpty, "nothing is left to do")
try await second.close()
for suffix in ["", "-wal", "-shm"] { unlink(path + suffix) }
