import Glibc
import Perdure
import PerdureTestKit

/// A new file, empty as a database may be.
func newFile() -> String {
  var name = Array("/tmp/own-connection-XXXXXX".utf8CString)
  close(mkstemp(&name))
  return String(decoding: name.dropLast().map { UInt8(bitPattern: $0) }, as: UTF8.self)
}

func remove(_ path: String) {
  for suffix in ["", "-wal", "-shm", ".agents_.lock"] { unlink(path + suffix) }
}

// What a store relies on, checked for this connection.
for test in SQLConnectionConformance.cases {
  let path = newFile()
  defer { remove(path) }
  do {
    try await test.run { try AppConnection(path: path) }
  } catch {
    print("FAILED: \(test): \(error)")
    exit(1)
  }
}
print("\(SQLConnectionConformance.cases.count) cases passed")

// A table of the application and a conversation, in one file and through one connection.
let path = newFile()
defer { remove(path) }
let models = ScriptedModel { _ in ScriptedModel.text("Good day, Ada.") }
let database = try AppConnection(path: path)
try database.execute("CREATE TABLE customers (name TEXT, conversation INTEGER)")
let harness = try await Harness.open(
  .sqliteConnection(database, prefix: "agents_"),
  models: models
)
let conversation = try await harness.root()
try database.run(
  "INSERT INTO customers VALUES (?, ?)",
  [.string("Ada"), .int(conversation.id.value)]
)
try await conversation.configure(.init(model: ScriptedModel.reference))
print("answer: \(try await conversation.submit("I am Ada.").answer())")
try await harness.close()

// Both are there when the file is opened again.
let again = try AppConnection(path: path)
let customer = try again.first("SELECT name, conversation FROM customers", [])
let reopened = try await Harness.open(.sqliteConnection(again, prefix: "agents_"), models: models)
guard case .int(let number)? = customer?.last, let id = ConversationID(number) else { exit(1) }
let entries = try await reopened.reader.entries(of: id)
print("\(entries.count) entries belong to \(customer == nil ? "nobody" : "the customer")")
try await reopened.close()
